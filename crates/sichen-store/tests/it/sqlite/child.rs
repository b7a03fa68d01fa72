//! Tests that need a process of their own: this binary, started again with one test and a directory.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const DIR: &str = "SICHEN_TEST_CHILD_DIR";

/// The directory given to a child; `None` when somebody runs the child's test by hand.
pub fn directory() -> Option<PathBuf> {
    std::env::var_os(DIR).map(PathBuf::from)
}

/// Starts the (ignored) test `name` of this binary in a process of its own, over a shell that first
/// runs `setup`.
pub fn start(setup: &str, name: &str, dir: &Path) -> Child {
    let me = std::env::current_exe().expect("this binary has a path");
    Command::new("sh")
        .arg("-c")
        .arg(format!("{setup} exec \"$0\" \"$@\""))
        .arg(me)
        .args(["--exact", name, "--ignored", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell starts")
}
