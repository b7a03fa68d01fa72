//! A throwaway pgbouncer in transaction mode, before a server of [`crate::postgres`].
//!
//! Each database `sN` leads to the schema of that name in the server's database `postgres`, since a
//! pooler lets no client choose its own.
//!
//! # Invariants
//! - It is a direct child of the test, and its files lie beside the server's.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};

use crate::postgres::{Server, pid_of, until};
use crate::programs::pgbouncer;

/// Of its socket's file; it listens nowhere else.
pub const PORT: u16 = 6432;
const SCHEMAS: u32 = 300;

/// A running pooler; gone with this.
#[derive(Debug)]
pub struct Pgbouncer {
    program: PathBuf,
    dir: PathBuf,
    child: Option<Child>,
}

impl Pgbouncer {
    /// A pooler before `server` that has `size` server connections for each database, and takes
    /// `more` lines of configuration; `None`, and said so, if pgbouncer is left out by name.
    pub fn start(server: &Server, size: u32, more: &str) -> Option<Self> {
        let program = pgbouncer()?;
        let dir = server.socket_dir().to_owned();
        let (shown, port) = (dir.display(), server.socket_port());
        let mut text = String::from("[databases]\n");
        for n in 0..SCHEMAS {
            text = format!(
                "{text}s{n} = host={shown} port={port} dbname=postgres connect_query='set search_path = s{n}'\n"
            );
        }
        text = format!(
            "{text}[pgbouncer]\nlisten_port = {PORT}\nunix_socket_dir = {shown}\n\
             logfile = {shown}/pgbouncer.log\nauth_type = trust\nauth_file = {shown}/users\n\
             pool_mode = transaction\ndefault_pool_size = {size}\nmax_client_conn = 500\n\
             server_idle_timeout = 1\nserver_login_retry = 1\n{more}\n"
        );
        for (name, text) in [
            ("pgbouncer.ini", text.as_str()),
            ("users", "\"postgres\" \"\"\n"),
        ] {
            std::fs::write(dir.join(name), text).expect("it is this process's directory");
        }
        let mut pooler = Self {
            program,
            dir,
            child: None,
        };
        pooler.run(server);
        Some(pooler)
    }

    /// Starts it (again) and waits until it answers.
    ///
    /// # Panics
    /// If it does not start.
    pub fn run(&mut self, server: &Server) {
        let mut command = server.command_of(&self.program);
        command.arg(self.dir.join("pgbouncer.ini"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("pgbouncer starts"));
        let socket = self.dir.join(format!(".s.PGSQL.{PORT}"));
        let answers = until(|| UnixStream::connect(&socket).is_ok());
        assert!(answers, "no pgbouncer in time:\n{}", self.log());
    }

    /// Stops it at once, as a crash would, and waits for its end.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            kill(pid_of(&child), Signal::SIGKILL).expect("it is a child of this process");
            child.wait().expect("it ends");
            // Else the next one takes it for another's.
            let _ = std::fs::remove_file(self.dir.join(format!(".s.PGSQL.{PORT}")));
        }
    }

    /// The address of the database that leads to `schema`.
    pub fn url(&self, schema: &str) -> String {
        let dir = self.dir.display();
        format!("host={dir} port={PORT} user=postgres dbname={schema}")
    }

    /// What it has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("pgbouncer.log")).unwrap_or_default()
    }
}

impl Drop for Pgbouncer {
    fn drop(&mut self) {
        self.stop();
    }
}
