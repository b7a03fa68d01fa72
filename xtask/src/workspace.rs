//! Where the workspace is, which files belong to it, and where cargo builds to.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The workspace root, known from where this crate was compiled.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// Paths of all files git tracks or would track, relative to the root, with `/` between parts.
///
/// # Errors
/// When git is missing or the root is no git repository.
pub fn files() -> Result<Vec<String>> {
    let listing = output(
        "git",
        &[
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ],
    )?;
    let mut files: Vec<String> = listing
        .split('\0')
        .filter(|path| !path.is_empty() && root().join(path).is_file())
        .map(str::to_owned)
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// `cargo metadata` without the dependencies of dependencies.
///
/// # Errors
/// When cargo fails or answers something else than JSON.
pub fn metadata() -> Result<serde_json::Value> {
    let text = output(
        &cargo(),
        &["metadata", "--no-deps", "--format-version", "1"],
    )?;
    serde_json::from_str(&text).context("cargo metadata answered no JSON")
}

/// Where cargo builds to.
///
/// # Errors
/// As [`metadata`].
pub fn target() -> Result<PathBuf> {
    let metadata = metadata()?;
    let target = metadata["target_directory"].as_str();
    Ok(target
        .context("cargo metadata names no target directory")?
        .into())
}

/// `cargo metadata` of every package that the lock file names.
///
/// # Errors
/// When the lock file is stale, or cargo fails.
pub fn full_metadata() -> Result<serde_json::Value> {
    let text = output(&cargo(), &["metadata", "--locked", "--format-version", "1"])?;
    serde_json::from_str(&text).context("cargo metadata answered no JSON")
}

/// The cargo that runs us, so that a toolchain override stays in force.
pub fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Whether `cargo NAME` is an installed subcommand.
pub fn has_cargo_subcommand(name: &str) -> bool {
    Command::new(cargo())
        .args([name, "--version"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn output(program: &str, args: &[&str]) -> Result<String> {
    let out = Command::new(program)
        .args(args)
        .current_dir(root())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not start `{program}`"))?;
    if !out.status.success() {
        bail!(
            "`{program} {}`: {}",
            args.join(" "),
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    String::from_utf8(out.stdout).with_context(|| format!("`{program}` answered no UTF-8"))
}
