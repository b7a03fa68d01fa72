//! The built program as other processes see it: started by path, spoken to, awaited, killed by pid.
//!
//! # Invariants
//! - Nothing outlives its test: what was started is killed when its handle goes.
//! - Every wait has an end, and says what it waited for.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The longest that anything here may take; the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A process of the built program.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Where it answers, if it is a server.
    pub url: String,
}

/// The program with these words. No variable of the developer's own changes what it does.
pub fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sichen"));
    command.args(words).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SICHEN_") {
            command.env_remove(name);
        }
    }
    command
}

/// Starts a process that prints `ready URL` when it answers.
pub fn start(words: &[&str]) -> Process {
    started(command(words))
}

/// The same of a command that says more.
pub fn started(mut command: Command) -> Process {
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut process = Process {
        child,
        url: String::new(),
    };
    let out = process.child.stdout.take().unwrap();
    let (ready, first) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut lines = BufReader::new(out).lines();
        let _ = ready.send(lines.next());
        // Read on, so that the process never waits for its reader.
        lines.for_each(drop);
    });
    let line = first.recv_timeout(PATIENCE).expect("a first line in time");
    let line = line.expect("a first line before the end").unwrap();
    process.url = line.strip_prefix("ready ").expect("`ready URL`").to_owned();
    process
}

/// The same by another program, which is given the program's path and words.
pub fn command_by(before: &[String], words: &[&str]) -> Command {
    let program = command(words);
    let Some((by, more)) = before.split_first() else {
        return program;
    };
    let mut command = Command::new(by);
    command
        .args(more)
        .arg(program.get_program())
        .args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::null());
    command
}

/// Starts a process that says nothing first.
pub fn spawn(words: &[&str]) -> Process {
    spawned(command(words))
}

/// The same of a command that says more.
pub fn spawned(mut command: Command) -> Process {
    let logs =
        |(name, value): (&std::ffi::OsStr, Option<_>)| name == "SICHEN_LOG" && value.is_some();
    if !command.get_envs().any(logs) {
        command.env("SICHEN_LOG", "warn");
    }
    Process {
        child: command.stdout(Stdio::null()).spawn().unwrap(),
        url: String::new(),
    }
}

impl Process {
    /// What `command` starts; nothing is waited for.
    #[cfg(feature = "crash")]
    pub fn of(mut command: Command) -> Self {
        Self {
            child: command.stdout(Stdio::null()).spawn().unwrap(),
            url: String::new(),
        }
    }

    /// How it has ended, if it has.
    #[cfg(feature = "crash")]
    pub fn try_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Its pid.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    /// It and all that descend from it.
    pub fn tree(&self) -> Vec<Pid> {
        let mut all = vec![self.pid()];
        let mut seen = 0;
        while let Some(pid) = all.get(seen).copied() {
            all.extend(children(pid));
            seen += 1;
        }
        all
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        until("the process ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // What it started ends with it if it is asked; it may have ended by itself.
        let _ = kill(self.pid(), Signal::SIGTERM);
        let end = Instant::now() + Duration::from_secs(20);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until it is so.
pub fn until(what: &str, is_so: impl FnMut() -> bool) {
    until_within(PATIENCE, what, is_so);
}

/// Waits until it is so, for so long.
pub fn until_within(patience: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    while !is_so() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Pids of the processes whose parent is `parent`.
pub fn children(parent: Pid) -> Vec<Pid> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name();
        let Ok(pid) = name.to_string_lossy().parse::<i32>() else {
            continue;
        };
        // The second field is a name in brackets, which may hold anything.
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        let mut fields = after.split_whitespace();
        if fields.nth(1).and_then(|p| p.parse().ok()) == Some(parent.as_raw()) {
            found.push(Pid::from_raw(pid));
        }
    }
    found
}

/// Whether the process is there and no zombie.
pub fn lives(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .map(|(_, after)| after.chars().next());
    state.flatten().is_some_and(|state| state != 'Z')
}

/// Words spoken to one server.
#[derive(Debug)]
pub struct Client {
    url: String,
    token: String,
}

impl Client {
    /// Of the server at `url` with its data in `data`.
    pub fn new(url: &str, data: &Path) -> Self {
        let token = data.join("token").to_str().unwrap().to_owned();
        Self {
            url: url.to_owned(),
            token,
        }
    }

    /// A command with this server's address and token.
    pub fn command(&self, words: &str) -> Command {
        let words: Vec<&str> = words.split_whitespace().collect();
        let mut command = command(&words);
        command
            .env("SICHEN_SERVER", &self.url)
            .env("SICHEN_TOKEN_FILE", &self.token);
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs a command that must succeed; what it wrote.
    pub fn ok(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(
            output.status.success(),
            "{words}: {}{}",
            out(&output),
            err(&output)
        );
        out(&output)
    }

    /// Runs a command that must succeed, and reads its JSON.
    pub fn json(&self, words: &str) -> serde_json::Value {
        serde_json::from_str(&self.ok(&format!("{words} -o json"))).unwrap()
    }

    /// Runs a command that must end with `code`, and reads its JSON.
    pub fn fails_json(&self, words: &str, code: i32) -> serde_json::Value {
        let output = self.run(&format!("{words} -o json"));
        let (shown, errors) = (out(&output), err(&output));
        assert_eq!(output.status.code(), Some(code), "{words}: {shown}{errors}");
        serde_json::from_str(&shown).unwrap()
    }

    /// Runs a command that must end with `code`; its error output.
    pub fn fails(&self, words: &str, code: i32) -> String {
        let output = self.run(words);
        let (shown, errors) = (out(&output), err(&output));
        assert_eq!(output.status.code(), Some(code), "{words}: {shown}{errors}");
        errors
    }
}

/// The standard output as text.
pub fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The error output as text.
pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
