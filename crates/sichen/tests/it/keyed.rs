//! A server that dies between what a request did and its answer: the repeat finds it done.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use sichen_crash::DIE_AT;

use crate::database::Database;
use crate::program::{Client, PATIENCE, Process, command, until};
use crate::scene::{Kind, text};

const JOB: &str = "
apiVersion: sichen/v1
kind: Job
metadata: {name: j}
spec: {run: {handler: none}}
";
const PAUSE: &str = "/api/v1/jobs/default/j/pause";
const RESUME: &str = "/api/v1/jobs/default/j/resume";

struct Site {
    dir: tempfile::TempDir,
    address: String,
    database: Option<Database>,
}

impl Site {
    fn new(kind: Kind) -> Option<Self> {
        let database = match kind {
            Kind::Sqlite => None,
            Kind::Postgres => Some(Database::start()?),
        };
        // Given back at once: the server is to come back where it was.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        let dir = tempfile::tempdir().unwrap();
        Some(Self {
            dir,
            address,
            database,
        })
    }

    /// A server that dies at `point`, ready.
    fn server(&self, point: &str) -> Process {
        let data = self.dir.path().join("server");
        let mut words = vec!["server", "--listen", &self.address, "--data", text(&data)];
        words.extend(["--beat", "500ms", "--session-ttl", "2s"]);
        let url = self.database.as_ref().map(Database::url);
        if let Some(url) = &url {
            words.extend(["--store", url]);
        }
        let mut command = command(&words);
        command.env("SICHEN_LOG", "error").env(DIE_AT, point);
        let process = Process::of(command);
        until("the server answers", || {
            ask(&self.address, "GET", "/readyz", "", "", "").is_some_and(|a| a.0 == 200)
        });
        process
    }

    /// Posts with a key; what is answered, if anything.
    fn post(&self, path: &str, key: &str, body: &str) -> Option<(u16, String)> {
        let token = std::fs::read_to_string(self.dir.path().join("server/token")).unwrap();
        ask(&self.address, "POST", path, token.trim(), key, body)
    }

    /// The same, until somebody answers for it.
    fn answered(&self, path: &str, key: &str, body: &str) -> (u16, String) {
        let mut answer = None;
        until("the repeat is answered", || {
            answer = self.post(path, key, body);
            // Its first attempt is believed to be under way for as long as its node may be.
            answer.as_ref().is_some_and(|a| a.0 != 503)
        });
        answer.unwrap()
    }

    fn client(&self) -> Client {
        let data = self.dir.path().join("server");
        Client::new(&format!("http://{}", self.address), &data)
    }

    fn paused(&self) -> bool {
        self.client().json("get jobs")["items"][0]["paused"] == true
    }
}

/// One request on a connection of its own; `None` if it broke.
fn ask(
    address: &str,
    method: &str,
    path: &str,
    token: &str,
    key: &str,
    body: &str,
) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let key = match key {
        "" => String::new(),
        key => format!("idempotency-key: {key}\r\n"),
    };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n{key}\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    let body = answer.split_once("\r\n\r\n")?.1.to_owned();
    Some((status, body))
}

fn verify(site: &Site, data: &Path) {
    let url = site.database.as_ref().map(Database::url);
    let at = match &url {
        Some(url) => ["--store", url],
        None => ["--data", text(data)],
    };
    let judged = command(&["verify", at[0], at[1]]).output().unwrap();
    assert!(judged.status.success(), "{judged:?}");
}

/// Dies at `point` when it is asked to pause; what was done is not done again.
fn dies_at(site: &Site, point: &str, key: &str, done: bool) {
    let mut server = site.server(point);
    assert_eq!(site.post(PAUSE, key, ""), None, "it dies of it: {point}");
    server.ended();
    let mut server = site.server("");
    if done {
        assert!(site.paused(), "{point}");
        // Somebody resumes it: a second pause would be a second effect.
        assert_eq!(site.answered(RESUME, &format!("{key}-r"), "").0, 200);
    }
    let (status, first) = site.answered(PAUSE, key, "");
    assert_eq!(status, 200, "{point}: {first}");
    assert_eq!(site.paused(), !done, "{point}");
    // And what was answered now is answered ever after.
    assert_eq!(site.answered(PAUSE, key, ""), (200, first));
    if !done {
        assert_eq!(site.answered(RESUME, &format!("{key}-r"), "").0, 200);
    }
    server.signal(nix::sys::signal::Signal::SIGTERM);
    server.ended();
}

fn a_repeat_after_a_death_does_nothing_twice(kind: Kind) {
    let Some(site) = Site::new(kind) else {
        return;
    };
    let mut server = site.server("");
    assert_eq!(site.answered("/api/v1/jobs:apply", "a", JOB).0, 200);
    server.signal(nix::sys::signal::Signal::SIGTERM);
    server.ended();
    for (n, (point, done)) in [
        ("after-commit:claim_key", false),
        ("before-commit:set_job_paused", false),
        ("after-commit:set_job_paused", true),
        ("before-commit:answer_key", true),
        ("before-answer:POST", true),
    ]
    .into_iter()
    .enumerate()
    {
        dies_at(&site, point, &format!("k{n}"), done);
    }
    verify(&site, &site.dir.path().join("server"));
}

#[test]
fn a_repeat_after_a_death_does_nothing_twice_on_sqlite() {
    a_repeat_after_a_death_does_nothing_twice(Kind::Sqlite);
}

#[test]
fn a_repeat_after_a_death_does_nothing_twice_on_postgres() {
    a_repeat_after_a_death_does_nothing_twice(Kind::Postgres);
}
