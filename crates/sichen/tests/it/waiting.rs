//! Commands that wait for a run or follow it, whatever becomes of the server meanwhile.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::program::{Client, until};
use crate::scene::{Kind, Scene, text};

/// A command that goes on beside the test; what it says is read while it says it.
struct Beside {
    child: Child,
    dir: tempfile::TempDir,
}

impl Beside {
    fn start(client: &Client, words: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(dir.path().join(name)).unwrap();
        let mut command = client.command(words);
        command.stdout(file("out")).stderr(file("err"));
        Self {
            child: command.spawn().unwrap(),
            dir,
        }
    }

    fn said(&self, stream: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(stream)).unwrap()
    }

    fn says(&self, stream: &str, part: &str) {
        until(&format!("{part:?} is said"), || {
            self.said(stream).contains(part)
        });
    }

    fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        until("the command ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server is killed while one waits and others follow, and comes back: all of them learn the end, and
/// nothing is left out. Whoever is interrupted leaves the run as it is.
#[test]
fn who_waits_or_follows_outlasts_a_killed_server() {
    let mut scene = Scene::new(Kind::Sqlite).unwrap();
    let worker = scene.worker("w1", &scene.server.url, 1);
    let go = scene.path("go");
    let script = format!(
        "echo before; while [ ! -e {} ]; do sleep 0.02; done; echo after",
        text(&go)
    );
    let run = serde_json::json!({ "process": { "argv": ["/bin/sh", "-c", script] } });
    scene.apply("long", &run, &serde_json::json!({}), 1);
    let mut waits = Beside::start(&scene.client, "run long --key k --wait -o json");
    until("the run is there", || {
        let runs = scene.client.json("runs long");
        runs["items"][0]["state"] == "running"
    });
    let mut logs = Beside::start(&scene.client, "logs long:manual:k -f");
    let mut events = Beside::start(&scene.client, "events long:manual:k -f");
    let mut interrupted = Beside::start(&scene.client, "run long --key k --wait");
    logs.says("out", "before\n");
    events.says("out", "run_created");
    interrupted.says("err", "waiting for its end");

    scene.server.signal(Signal::SIGKILL);
    scene.server.ended();
    for follower in [&waits, &logs, &events, &interrupted] {
        follower.says("err", "waiting for it, 5 minutes at most");
    }
    scene.start_server_again();
    for follower in [&waits, &logs, &events, &interrupted] {
        follower.says("err", "the server answers again");
    }
    kill(
        Pid::from_raw(interrupted.child.id().cast_signed()),
        Signal::SIGINT,
    )
    .unwrap();
    assert_eq!(interrupted.ended().code(), Some(130));
    assert!(interrupted.said("err").contains("goes on without this"));
    assert_eq!(scene.run("long:manual:k")["state"], "running");

    scene.go();
    for follower in [&mut waits, &mut logs, &mut events] {
        assert_eq!(follower.ended().code(), Some(0), "{}", follower.said("err"));
    }
    let run: serde_json::Value = serde_json::from_str(&waits.said("out")).unwrap();
    assert_eq!(run["state"], "succeeded", "{run}");
    assert_eq!(logs.said("out"), "before\nafter\n");
    for kind in ["run_created", "run_settled"] {
        assert_eq!(events.said("out").matches(kind).count(), 1, "{kind}");
    }
    scene.each_shard_took_one_attempt("long:manual:k");
    drop(worker);
}

/// A server that answers the start of a run or not, and every later question with `answer` or not at all.
fn odd_server(dir: &Path, starts: bool, answer: Option<&'static str>) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let body = match is_start(&mut stream) {
                true if starts => Some(("200 OK", r#"{"id":7,"key":"j:manual:k","created":true}"#)),
                true => None,
                false => answer.map(|body| ("404 Not Found", body)),
            };
            if let Some((status, body)) = body {
                let length = body.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
            } else {
                held.push(stream);
            }
        }
    });
    let token: PathBuf = dir.join("token");
    let mut file = File::create(&token).unwrap();
    writeln!(file, "3f9c0a7be5d14286a07c9e51bd38f264").unwrap();
    let mine = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&token, mine).unwrap();
    Client::new(&url, dir)
}

/// Reads a request's head; whether it asks for a run.
fn is_start(stream: &mut TcpStream) -> bool {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
        head.push(byte[0]);
    }
    head.starts_with(b"POST")
}

/// Such as one that stands still, or whose machine does: the time limit holds all the same.
#[test]
fn a_server_that_answers_nothing_holds_nobody_beyond_the_time_limit() {
    let dir = tempfile::tempdir().unwrap();
    let client = odd_server(dir.path(), true, None);
    let asked = Instant::now();
    let told = client.fails("run j --key k --wait --timeout 2s", 7);
    // One look is a second at least; without a limit of its own it would be forty.
    assert!(asked.elapsed() < Duration::from_secs(20), "{asked:?}");
    assert!(told.contains("SC7007: run 7 was not seen to end"), "{told}");
    assert!(told.contains("does not answer now"), "{told}");
}

/// The key that was drawn is told, so that asking again starts no second run.
#[test]
fn a_start_without_an_answer_says_how_to_find_out_what_became_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let client = odd_server(dir.path(), false, None);
    let asked = Instant::now();
    let told = client.fails("run j --wait --timeout 1s", 5);
    assert!(asked.elapsed() < Duration::from_secs(20), "{asked:?}");
    assert!(told.contains("SC7003"), "{told}");
    let (_, rest) = told
        .split_once("`sichen run j --key ")
        .expect("what to ask again");
    assert_eq!(rest.split('`').next().unwrap().len(), 16, "{told}");
}

#[test]
fn a_run_that_is_gone_while_it_is_waited_for_is_said_to_be() {
    let dir = tempfile::tempdir().unwrap();
    let gone = r#"{"type":"about:blank","status":404,"code":"SC5001","title":"not found","detail":"SC5001: there is no run 7","problems":[]}"#;
    let client = odd_server(dir.path(), true, Some(gone));
    let told = client.fails("run j --key k --wait", 3);
    assert!(told.contains("SC5001"), "{told}");
    assert!(told.contains("was there when the waiting began"), "{told}");
}
