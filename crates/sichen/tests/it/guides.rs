//! The blocks that people paste from the README and the guides: pasted here, into a shell.
//!
//! Those of the English pages alone: `cargo xtask tidy` holds the code of each Chinese twin to be the
//! same but for its comments.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::program::{Client, start, until};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The shell blocks of a page below `heading`, up to the next heading of its kind.
fn blocks(page: &str, heading: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let (_, below) = text.split_once(&format!("\n{heading}\n")).unwrap();
    let below = below.split("\n## ").next().unwrap();
    let blocks = below.split("```sh\n").skip(1);
    let blocks = blocks.map(|block| block.split("\n```").next().unwrap().to_owned());
    let blocks: Vec<String> = blocks.collect();
    assert!(!blocks.is_empty(), "{page} has no block below {heading}");
    blocks
}

/// A shell that takes `block` as if it were pasted, on a port of its own; what it wrote. It and
/// whatever it has started is gone afterwards.
fn pasted(block: &str, variables: &[(&str, &str)]) -> String {
    let bin = Path::new(env!("CARGO_BIN_EXE_sichen")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-e", "-c", &format!("exec 2>&1\n{block}")])
        .current_dir(root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SICHEN_") {
            shell.env_remove(name);
        }
    }
    shell.env("PATH", format!("{}:{path}", bin.display()));
    let mut shell = shell.envs(variables.iter().copied()).spawn().unwrap();
    let mut out = shell.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let mut status = None;
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        until("the pasted block ends", || {
            status = shell.try_wait().unwrap();
            status.is_some()
        });
    }));
    // Its server ends by itself where the block says so; here nothing may be left in any case.
    let group = Pid::from_raw(-i32::try_from(shell.id()).unwrap());
    if ended.is_err() || !status.is_some_and(|s| s.success()) {
        let _ = kill(group, Signal::SIGKILL);
    }
    let _ = shell.wait();
    let said = reader.join().unwrap().unwrap();
    assert!(status.is_some_and(|s| s.success()), "{block}\n--\n{said}");
    said
}

/// A port that was free a moment ago.
fn port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// What the guide's block says when it is pasted.
fn tried(page: &str) -> String {
    let (listen, dir) = (
        format!("127.0.0.1:{}", port()),
        tempfile::tempdir().unwrap(),
    );
    let server = format!("http://{listen}");
    let block = &blocks(page, "## Try it")[0];
    pasted(
        block,
        &[
            ("SICHEN_LISTEN", &listen),
            ("SICHEN_SERVER", &server),
            ("TMPDIR", dir.path().to_str().unwrap()),
        ],
    )
}

#[test]
fn the_guide_to_the_shell_works_when_it_is_pasted() {
    let said = tried("docs/guide/shell.md");
    for part in ["checksums created", "succeeded: 3 of 3", "./monday"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

#[test]
fn the_guide_to_python_works_when_it_is_pasted() {
    if super::examples::python().is_none() {
        return;
    }
    let said = tried("docs/guide/python.md");
    for part in ["settle-py created", "succeeded: 4 of 4", "(50, "] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

#[test]
fn the_guide_to_processes_works_when_it_is_pasted() {
    let said = tried("docs/guide/processes.md");
    for part in ["succeeded: 3 of 3", "0| part 0 of 3", "granted"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

#[test]
fn the_guide_from_crontab_and_kubernetes_works_when_it_is_pasted() {
    let said = tried("docs/guide/importing.md");
    for part in [
        "report is valid",
        "echo-2 created",
        "report created",
        "succeeded: 1 of 1",
    ] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

#[test]
fn the_guide_from_xxl_job_works_when_it_is_pasted() {
    let said = tried("docs/guide/from-xxl-job.md");
    for part in [
        "settle is valid",
        "settle created",
        "succeeded: 4 of 4",
        "shard 0 of 4",
    ] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

#[test]
fn the_first_job_of_the_readme_works_when_it_is_pasted() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let text = data.to_str().unwrap();
    // What the first block starts in a terminal of its own, once it is built.
    let dev = start(&["dev", "--data", text, "--listen", "127.0.0.1:0"]);
    let client = Client::new(&dev.url, &data);
    until("the worker is there", || {
        client.json("get workers")["items"] != serde_json::json!([])
    });
    let blocks = blocks("README.md", "## Your first job");
    assert!(blocks[0].contains("sichen dev"));
    let variables = [("SICHEN_SERVER", dev.url.as_str()), ("SICHEN_DATA", text)];
    let block = blocks[1].replace("$PWD/target/release:", "");
    let said = pasted(&block, &variables);
    for part in ["succeeded: 5 of 5", "ACCEPTED", "the token is right"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}
