//! What is handed to others: the program, its manual pages, completions, set-up files, what it is made of,
//! and the checksums, as one archive under `target/dist/package`.
//!
//! # Invariants
//! - The archive has no time but the last commit's, no owner and a fixed order: the same program gives
//!   the same bytes.
//! - A program that has grown beyond [`MAX_PROGRAM_BYTES`] is not packed: that is to be decided, not to happen.
//!
//! # Not here
//! Signing, which needs a key; containers (`deploy/Containerfile`).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{sbom, stage, workspace};

/// The largest program that is handed out, in bytes.
const MAX_PROGRAM_BYTES: u64 = 64 << 20;
/// Shells and the names of their files.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "completions/sichen.bash"),
    ("zsh", "completions/_sichen"),
    ("fish", "completions/sichen.fish"),
];

#[derive(Debug, Args)]
pub struct Options {
    /// Pack this program instead of building one
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Write only what the program is made of, to this file
    #[arg(long, value_name = "FILE", conflicts_with = "program")]
    sbom: Option<PathBuf>,
}

/// Builds and packs.
///
/// # Errors
/// When a step fails or the program is too large.
pub fn run(options: &Options) -> Result<()> {
    if let Some(path) = &options.sbom {
        return write_sbom(path);
    }
    let program = match &options.program {
        Some(program) => program.clone(),
        None => built()?,
    };
    let size = std::fs::metadata(&program)?.len();
    if size > MAX_PROGRAM_BYTES {
        bail!("the program has {size} bytes, more than {MAX_PROGRAM_BYTES}");
    }
    let folder = workspace::target()?.join("dist/package");
    let archive = pack(&program, &folder)?;
    println!(
        "dist: the program has {:.1} MiB",
        size as f64 / f64::from(1 << 20)
    );
    println!("dist: {}", archive.display());
    Ok(())
}

fn built() -> Result<PathBuf> {
    let mut command = Command::new(workspace::cargo());
    command.args([
        "build",
        "--locked",
        "--profile",
        "dist",
        "--package",
        "sichen",
    ]);
    command
        .env("SICHEN_CONSOLE", "build")
        .current_dir(workspace::root());
    if !stage::run("build", command)?.ok {
        bail!("the program can't be built");
    }
    Ok(workspace::target()?.join("dist/sichen"))
}

fn write_sbom(path: &Path) -> Result<()> {
    let document = serde_json::to_string_pretty(&sbom::document()?)?;
    std::fs::write(path, document + "\n").with_context(|| path.display().to_string())
}

/// Writes the archive and the checksums into `folder`; the archive's name.
fn pack(program: &Path, folder: &Path) -> Result<PathBuf> {
    let _ = std::fs::remove_dir_all(folder);
    let name = format!("sichen-{}-{}", version(program)?, std::env::consts::ARCH);
    let root = folder.join(&name);
    for directory in ["bin", "man/man1", "completions", "deploy"] {
        std::fs::create_dir_all(root.join(directory))?;
    }
    let own = root.join("bin/sichen");
    std::fs::copy(program, &own)?;
    said(Command::new(&own).arg("man").arg(root.join("man/man1")))?;
    for (shell, file) in SHELLS {
        let text = said(Command::new(&own).args(["completions", shell]))?;
        std::fs::write(root.join(file), text)?;
    }
    for file in workspace::files()? {
        let from = workspace::root().join(&file);
        let wanted = file.starts_with("deploy/") && !file.starts_with("deploy/helm/rendered/");
        if wanted || ["LICENSE", "README.md", "CHANGELOG.md"].contains(&file.as_str()) {
            let to = root.join(&file);
            std::fs::create_dir_all(to.parent().unwrap_or(&root))?;
            std::fs::copy(from, to)?;
        }
    }
    write_sbom(&root.join("sichen.cdx.json"))?;
    let sums = said(
        Command::new("sh")
            .args([
                "-ec",
                "find . -type f | LC_ALL=C sort | xargs -d '\\n' sha256sum",
            ])
            .current_dir(&root),
    )?;
    std::fs::write(root.join("SHA256SUMS"), sums)?;
    let archive = format!("{name}.tar.gz");
    let last = said(
        Command::new("git")
            .args(["log", "-1", "--format=%ct"])
            .current_dir(workspace::root()),
    )?;
    let time = format!("--mtime=@{}", last.trim());
    let words = [
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--format=gnu",
        &time,
    ];
    // Through a pipe gzip writes neither a name nor a time.
    let pipe = format!(
        "tar {} --mode=u+rwX,go+rX,go-w -c {name} | gzip -9n > {archive}",
        words.join(" ")
    );
    said(Command::new("sh").args(["-ec", &pipe]).current_dir(folder))?;
    let sum = said(Command::new("sha256sum").arg(&archive).current_dir(folder))?;
    std::fs::write(folder.join(format!("{archive}.sha256")), sum)?;
    Ok(folder.join(archive))
}

fn version(program: &Path) -> Result<String> {
    let said = said(Command::new(program).arg("--version"))?;
    let version = said.trim().strip_prefix("sichen ");
    Ok(version.context("this is no sichen")?.to_owned())
}

/// What a command prints.
fn said(command: &mut Command) -> Result<String> {
    let out = command.stdin(Stdio::null()).output();
    let out = out.with_context(|| format!("{command:?} can't be started"))?;
    if !out.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
    String::from_utf8(out.stdout).context("no UTF-8")
}
