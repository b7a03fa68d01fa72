//! The API against its own description: schemathesis asks a running server what the description allows and
//! what it does not, and judges the answers by it.
//!
//! # Invariants
//! - It is no part of what a check needs: it lives in a virtual environment under `target/`, and what is
//!   missing is said.
//! - The server has its data in a directory that goes with it.
//!
//! # Not here
//! What the API promises (`docs/api.md`); the tests of each kind of fault that was found so.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{stage, workspace};

/// The one that is installed: another may find other things, which is for a change of this line.
const VERSION: &str = "schemathesis==4.*";
/// What it holds answers to.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance,response_headers_conformance,unsupported_method";
/// A live feed has no end, and in a restore nothing more happens.
const WITHOUT: &str = "/(watch|restore/begin)$";
/// The job to ask about.
const JOB: &str = "examples/hello.yaml";
/// What there is: drawn names would be those of nothing.
const NAMES: &str = r#"[parameters]
"path.namespace" = "default"
"path.name" = "hello"
"path.id" = "1"
"path.no" = 0
"path.attempt" = 1
"path.revision" = 1
"#;

#[derive(Debug, Args)]
pub struct Options {
    /// Requests for each operation
    #[arg(long, default_value_t = 50)]
    examples: u32,
    /// What is drawn follows from it
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// The program [default: the debug build]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// A server of its own and its worker, gone with this.
struct Server {
    children: Vec<Child>,
    url: String,
    data: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended by itself, which the checks have seen.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs it.
///
/// # Errors
/// When something is missing, or an answer is not as described.
pub fn run(options: &Options) -> Result<()> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => workspace::target()?.join("debug/sichen"),
    };
    if !program.is_file() {
        bail!(
            "there is no {}; build it (cargo build -p sichen), or name it with --program",
            program.display()
        );
    }
    let tool = installed()?;
    let server = start(&program)?;
    let token = server.data.path().join("token");
    for words in [
        &["apply", "-f", JOB][..],
        &["run", "hello", "--key", "k", "--wait"],
    ] {
        let mut command = Command::new(&program);
        command.args(words).args(["--server", &server.url]);
        command.arg("--token-file").arg(&token);
        command.current_dir(workspace::root());
        if !stage::run("job", command)?.ok {
            bail!("there is no run to ask about");
        }
    }
    std::fs::write(server.data.path().join("schemathesis.toml"), NAMES)?;
    let secret = std::fs::read_to_string(&token).context("the server's token")?;
    // On the command line a secret would be everybody's to read; this one dies with its server.
    let header = format!("Authorization: Bearer {}", secret.trim());
    let mut ask = Command::new(tool);
    ask.args(["run", &format!("{}/api/v1/openapi.json", server.url)]);
    ask.args(["--header", &header, "--checks", CHECKS]);
    ask.args([
        "--phases",
        "examples,coverage,fuzzing",
        "--continue-on-failure",
    ]);
    ask.args(["--exclude-path-regex", WITHOUT, "--request-timeout", "40"]);
    ask.args(["--max-examples", &options.examples.to_string()]);
    ask.args(["--seed", &options.seed.to_string(), "--no-color"]);
    ask.current_dir(server.data.path());
    if stage::run("schemathesis", ask)?.ok {
        return Ok(());
    }
    bail!("the API did not answer as it is described")
}

/// schemathesis in its virtual environment, made now if it is not there.
fn installed() -> Result<PathBuf> {
    let folder = workspace::target()?.join("schemathesis");
    let tool = folder.join("bin/schemathesis");
    if tool.is_file() {
        return Ok(tool);
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv"]).arg(&folder);
    let made = stage::run("venv", make);
    if !made.is_ok_and(|made| made.ok) {
        bail!("python3 with its module venv is missing (Debian: apt-get install python3-venv)");
    }
    let mut install = Command::new(folder.join("bin/pip"));
    install.args(["install", "--quiet", "--disable-pip-version-check", VERSION]);
    if !stage::run("pip", install)?.ok {
        // Half of it would be taken for the whole the next time.
        let _ = std::fs::remove_dir_all(&folder);
        bail!("{VERSION} can't be had: is there a network, or an index that pip knows?");
    }
    Ok(tool)
}

fn start(program: &Path) -> Result<Server> {
    let data = tempfile::tempdir()?;
    let mut child = Command::new(program)
        .args([
            "server",
            "--listen",
            "127.0.0.1:0",
            "--log",
            "warn",
            "--data",
        ])
        .arg(data.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("the server")?;
    let out = child.stdout.take().context("the server's output")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    let url = line.trim().strip_prefix("ready ").unwrap_or_default();
    let mut server = Server {
        children: vec![child],
        url: url.to_owned(),
        data,
    };
    if server.url.is_empty() {
        bail!("the server did not start");
    }
    let data = server.data.path();
    let worker = Command::new(program)
        .args(["worker", "--builtin", "--server", &server.url, "--data"])
        .arg(data.join("worker"))
        .arg("--join-token-file")
        .arg(data.join("join-token"))
        .env("SICHEN_LOG", "warn")
        .stdin(Stdio::null())
        .spawn()
        .context("the worker")?;
    server.children.push(worker);
    Ok(server)
}
