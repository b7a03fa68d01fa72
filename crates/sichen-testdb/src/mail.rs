//! A mail server that shows what it takes.
//!
//! # Invariants
//! - It is a direct child of the test and listens on loopback alone.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use crate::programs::mail_server;

/// How it is spoken to.
#[derive(Clone, Copy, Debug)]
pub enum Encryption<'a> {
    /// In the clear.
    None,
    /// By this certificate and key, after a beginning in the clear.
    StartTls(&'a Path, &'a Path),
    /// By them from the beginning.
    Tls(&'a Path, &'a Path),
}

/// A running server; gone with this.
#[derive(Debug)]
pub struct MailServer {
    child: Child,
    /// Where it listens.
    pub port: u16,
    taken: Arc<Mutex<Vec<String>>>,
}

impl MailServer {
    /// A server that takes mails of whoever shows this name and password, or of everybody; `None`, and said
    /// so, if it is left out by name.
    pub fn start(encryption: Encryption<'_>, login: Option<(&str, &str)>) -> Option<Self> {
        let python = mail_server()?;
        let none = Path::new("");
        let (mode, certificate, key) = match encryption {
            Encryption::None => ("none", none, none),
            Encryption::StartTls(certificate, key) => ("starttls", certificate, key),
            Encryption::Tls(certificate, key) => ("tls", certificate, key),
        };
        let (user, password) = login.unwrap_or_default();
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig=KILL", "--"])
            .arg(python)
            .args(["-c", include_str!("mail.py"), mode])
            .args([certificate, key])
            .args([user, password])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let out = child.stdout.take().expect("it was asked for");
        let taken = Arc::<Mutex<Vec<String>>>::default();
        let kept = taken.clone();
        let (ready, first) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if let Some(port) = line.strip_prefix("ready ") {
                    let _ = ready.send(port.parse::<u16>());
                } else if let Some(mail) = line.strip_prefix("mail ") {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.push(mail.to_owned());
                }
            }
        });
        let port = first.recv_timeout(Duration::from_secs(60));
        let port = port.expect("it says where it listens").expect("a port");
        Some(Self { child, port, taken })
    }

    /// What it took, a text of JSON each: `from`, `to`, `text`, `encrypted`, `known`.
    pub fn taken(&self) -> Vec<String> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.clone()
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
