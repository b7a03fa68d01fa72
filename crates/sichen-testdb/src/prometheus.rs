//! A Prometheus that reads one server's metrics each second.
//!
//! # Invariants
//! - It is a direct child of the test, listens on loopback alone, and its files go with it.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::postgres::until;
use crate::programs::prometheus;

/// A running monitor; gone with this.
#[derive(Debug)]
pub struct Prometheus {
    child: Child,
    address: SocketAddr,
    _dir: TempDir,
}

impl Prometheus {
    /// A monitor that reads `http://target/metrics` with `token`; `None`, and said so, if it is left out
    /// by name.
    pub fn start(target: SocketAddr, token: &str) -> Option<Self> {
        let programs = prometheus()?;
        let dir = tempfile::tempdir().expect("there is a place for files");
        let config = dir.path().join("prometheus.yml");
        let words = format!(
            "global: {{scrape_interval: 1s}}\n\
             scrape_configs:\n\
             - job_name: sichen\n  \
               authorization: {{credentials: '{token}'}}\n  \
               static_configs: [{{targets: ['{target}']}}]\n"
        );
        std::fs::write(&config, words).expect("it is this process's directory");
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = free.local_addr().expect("it has one");
        drop(free);
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig=KILL", "--"])
            .arg(&programs.server)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().expect("it starts");
        let monitor = Self {
            child,
            address,
            _dir: dir,
        };
        assert!(
            until(|| TcpStream::connect(address).is_ok()),
            "Prometheus does not answer"
        );
        Some(monitor)
    }

    /// Where its own API answers.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `promtool check metrics` finds wrong with `text`; empty if nothing. `None` if it is left out by
/// name.
pub fn faults(text: &str) -> Option<String> {
    let promtool = prometheus()?.promtool;
    Some(checked(&promtool, text))
}

/// What `promtool test rules` says of a file of tests and the rules that it names beside it; `None` if it
/// is left out by name.
pub fn tested(tests: &Path) -> Option<(bool, String)> {
    let promtool = prometheus()?.promtool;
    let mut command = Command::new(promtool);
    command.args(["test", "rules"]).arg(tests);
    let output = command.output().expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Some((output.status.success(), said))
}

fn checked(promtool: &Path, text: &str) -> String {
    let mut child = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(text.as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if output.status.success() {
        return said;
    }
    format!("{}: {said}", output.status)
}
