//! People are told without asking: real servers, real failures, notices counted at a receiver's socket.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sichen_server::alerts::signature;

use crate::cluster::Peers;
use crate::program::{out, until};
use crate::scene::{Kind, Scene, text};

const SECRET: &str = "q8Zt1mX0c5Vb7Nn2Kk9Jh4Gf6Dd3Ss1Aa";

/// One request.
#[derive(Clone, Debug)]
pub struct Got {
    head: BTreeMap<String, String>,
    pub body: Value,
    text: String,
    taken: bool,
}

/// Whoever is told: a socket that keeps what it gets.
pub struct Receiver {
    pub url: String,
    got: Arc<Mutex<Vec<Got>>>,
    refuses: Arc<AtomicBool>,
}

impl Receiver {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let refuses = Arc::<AtomicBool>::default();
        let (kept, refused) = (got.clone(), refuses.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, refused) = (kept.clone(), refused.clone());
                std::thread::spawn(move || take(stream, &kept, &refused));
            }
        });
        Self { url, got, refuses }
    }

    fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::SeqCst);
    }

    pub fn all(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    /// What was taken, each notice once: what happened, and the summary.
    fn notices(&self) -> Vec<(String, String)> {
        let mut seen = BTreeSet::new();
        let taken = self.all().into_iter().filter(|got| got.taken);
        let new = taken.filter(|got| seen.insert(got.body["id"].to_string()));
        new.map(|got| (word(&got.body["event"]), word(&got.body["summary"])))
            .collect()
    }

    fn events(&self) -> Vec<String> {
        self.notices().into_iter().map(|(event, _)| event).collect()
    }

    /// Each was signed with the secret, and says its id twice.
    fn are_signed(&self) {
        for got in self.all() {
            let header = &got.head["sichen-signature"];
            let seconds = header
                .strip_prefix("t=")
                .unwrap()
                .split(',')
                .next()
                .unwrap();
            let seconds: u64 = seconds.parse().unwrap();
            assert_eq!(*header, signature::header(SECRET, seconds, &got.text));
            assert_eq!(got.head["sichen-notice"], word(&got.body["id"]));
        }
    }
}

fn word(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn take(stream: TcpStream, got: &Mutex<Vec<Got>>, refuses: &AtomicBool) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = BTreeMap::new();
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            head.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        // A heartbeat has no body.
        let length = head.get("content-length").map_or(0, |n| n.parse().unwrap());
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let taken = !refuses.load(Ordering::SeqCst);
        let text = String::from_utf8(body).unwrap();
        let body = serde_json::from_str(&text).unwrap_or_default();
        got.lock().unwrap().push(Got {
            head,
            body,
            text,
            taken,
        });
        let status = if taken {
            "200 OK"
        } else {
            "503 Service Unavailable"
        };
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// A file of alerts that looks each second, for this receiver.
pub fn config(dir: &tempfile::TempDir, receiver: &Receiver, more: &str) -> String {
    let secret = dir.path().join("secret");
    std::fs::write(&secret, SECRET).unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let path = dir.path().join("alerts.yaml");
    let config = format!(
        "source: test\nevery: 1s\nreceivers:\n  - {{name: ops, url: '{}', secret_file: '{}'}}\n{more}",
        receiver.url,
        text(&secret)
    );
    std::fs::write(&path, config).unwrap();
    text(&path).to_owned()
}

/// A job that succeeds once the file `ok` is there.
fn flaky(scene: &Scene, name: &str) {
    let script = format!("[ -e {} ]", text(&scene.path("ok")));
    let spec = json!({
        "run": { "process": { "argv": ["/bin/sh", "-c", script] } },
        "retry": { "maxAttempts": 1 },
    });
    scene.apply_spec(name, &spec);
}

/// The number of the server that sends, one of these.
pub fn sender(peers: &Peers, among: &[usize]) -> usize {
    let mut found = None;
    until("the alerts have an owner among the living", || {
        let members = peers.nodes[among[0]].client.json("get members");
        let duties = members["duties"].as_array().unwrap();
        let duty = duties.iter().find(|duty| duty["key"] == "alerts");
        let nodes = members["nodes"].as_array().unwrap();
        let of = |n: &usize| {
            let at = |node: &&Value| node["address"] == *peers.address(*n);
            nodes.iter().find(at).map(|node| node["id"].clone())
        };
        let owner = duty.map(|duty| duty["node"].clone());
        found = among
            .iter()
            .copied()
            .find(|n| of(n).is_some() && of(n) == owner);
        found.is_some()
    });
    found.unwrap()
}

/// A job fails, the server that tells it is killed before the notice arrived, more of the same fails, and
/// the job is well again: one notice that it fails and one that it is over.
#[test]
fn a_failure_is_told_once_and_its_end_once_though_the_sender_is_killed() {
    let (dir, receiver) = (tempfile::tempdir().unwrap(), Receiver::new());
    let file = config(&dir, &receiver, "");
    let Some(mut peers) = Peers::new(2, &["--alerts", &file]) else {
        return;
    };
    peers.all_share(&[0, 1]);
    let first = sender(&peers, &[0, 1]);
    let other = 1 - first;
    let _worker = peers.worker("w1", 4);
    flaky(&peers.nodes[0], "nightly");
    // The script looks for its file beside the first server, whichever is asked.
    let ok = peers.nodes[0].path("ok");
    receiver.refuse(true);
    let node = &peers.nodes[other];
    node.client.ok("run nightly --key k0");
    node.settles("nightly:manual:k0", "failed");
    until("the first try was refused", || !receiver.all().is_empty());
    peers.kill(first);
    receiver.refuse(false);
    assert_eq!(sender(&peers, &[other]), other);
    until("the peer tells it", || !receiver.notices().is_empty());
    // A storm of the same is nothing new.
    let node = &peers.nodes[other];
    for n in 1..=20 {
        node.client.ok(&format!("run nightly --key k{n}"));
    }
    for n in 1..=20 {
        node.settles(&format!("nightly:manual:k{n}"), "failed");
    }
    std::fs::write(&ok, "").unwrap();
    node.client.ok("run nightly --key good");
    node.settles("nightly:manual:good", "succeeded");
    until("its end is told", || {
        receiver.events().contains(&"recovered".to_owned())
    });
    assert_eq!(receiver.events(), ["raised", "recovered"]);
    let ids: BTreeSet<String> = receiver
        .all()
        .iter()
        .map(|got| got.body["id"].to_string())
        .collect();
    assert_eq!(ids.len(), 2, "a repeat has the id of what it repeats");
    let raised = &receiver.all()[0].body;
    assert_eq!(raised["rule"], "failures");
    assert_eq!(raised["source"], "test");
    assert_eq!(raised["subjects"][0]["subject"], "nightly");
    receiver.are_signed();
    peers.nodes[other].client.ok("verify");
}

/// ALERT-001: nobody runs, so nothing fails, and it is told all the same: of a job that waits for a worker
/// that is gone, of one that was paused, and of one that is not there.
#[test]
fn what_never_ran_is_told_too() {
    let (dir, receiver) = (tempfile::tempdir().unwrap(), Receiver::new());
    let more = "rules:\n  no_worker: {hold: 2s, clear: 0s}\n\
                no_success:\n  - {job: backup, within: 4s}\n  - {job: paused, within: 4s}\n  - {job: gone, within: 4s}\n";
    let file = config(&dir, &receiver, more);
    let own = tempfile::tempdir().unwrap();
    let scene = Scene::on(own, None, &["--alerts", &file], Vec::new());
    let run = json!({ "process": { "argv": ["/bin/sh", "-c", "true"] } });
    scene.apply_spec("backup", &json!({ "run": run }));
    let yearly = json!([{ "cron": "0 0 1 1 *" }]);
    scene.apply_spec("paused", &json!({ "run": run, "schedules": yearly }));
    scene.client.ok("pause paused");
    scene.client.ok("run backup --key k");
    let told = || {
        let notices = receiver.notices();
        let mut told: Vec<String> = notices.iter().map(|(e, s)| format!("{e}: {s}")).collect();
        told.sort();
        told
    };
    let all = [
        "raised: no success for too long: backup (none within 4s)",
        "raised: no success for too long: gone (none within 4s)",
        "raised: no success for too long: paused (none within 4s)",
        "raised: shards wait and the pool has no worker: default",
    ];
    until("each is told", || told().len() >= all.len());
    assert_eq!(told(), all);
    let _worker = scene.worker("w1", &scene.server.url, 1);
    scene.settles("backup:manual:k", "succeeded");
    let over = |what: &str| told().iter().any(|line| line.starts_with(what));
    until("what is well is told", || {
        over("recovered: over: no success for too long: backup")
            && over("recovered: over: shards wait")
    });
    assert_eq!(told().len(), all.len() + 2, "{:?}", told());
    receiver.are_signed();
}

/// ALERT-004: whatever way an attempt ends, the server tells it, with the true reason; what was cancelled
/// is not told.
#[test]
fn a_failure_is_told_also_when_the_process_can_t_speak() {
    let (dir, receiver) = (tempfile::tempdir().unwrap(), Receiver::new());
    let file = config(&dir, &receiver, "");
    let own = tempfile::tempdir().unwrap();
    let words = ["--alerts", &file, "--beat", "500ms", "--session-ttl", "2s"];
    let scene = Scene::on(own, None, &words, Vec::new());
    let worker = scene.worker("w1", &scene.server.url, 8);
    let sh = |script: &str| json!({ "process": { "argv": ["/bin/sh", "-c", script] } });
    let ends = [
        ("exits", sh("exit 3"), json!({}), "exit-3"),
        ("killed", sh("kill -9 $$"), json!({}), "signal"),
        (
            "slow",
            sh("sleep 60"),
            json!({ "attempt": "500ms" }),
            "time",
        ),
        (
            "absent",
            json!({ "process": { "argv": ["/not/there"] } }),
            json!({}),
            "",
        ),
        ("lost", sh("sleep 60"), json!({}), "session"),
    ];
    for (name, run, timeouts, _) in &ends {
        let spec = json!({ "run": run, "timeouts": timeouts, "retry": { "maxAttempts": 1 } });
        scene.apply_spec(name, &spec);
    }
    scene.apply_spec(
        "stopped",
        &json!({ "run": sh("sleep 60"), "retry": { "maxAttempts": 1 } }),
    );
    for name in ["exits", "killed", "slow", "absent", "stopped"] {
        scene.client.ok(&format!("run {name} --key k"));
    }
    until("it runs", || {
        scene.run("stopped:manual:k")["state"] == "running"
    });
    scene.client.ok("cancel stopped:manual:k");
    scene.settles("stopped:manual:k", "cancelled");
    for name in ["exits", "killed", "slow", "absent"] {
        scene.settles(&format!("{name}:manual:k"), "failed");
    }
    scene.client.ok("run lost --key k");
    until("it runs", || {
        scene.run("lost:manual:k")["state"] == "running"
    });
    worker.signal(nix::sys::signal::Signal::SIGKILL);
    scene.settles("lost:manual:k", "failed");
    let causes = || {
        let mut causes = BTreeMap::<String, Vec<String>>::new();
        for got in receiver
            .all()
            .iter()
            .filter(|got| got.body["event"] == "raised")
        {
            for subject in got.body["subjects"].as_array().unwrap() {
                let cause = word(&subject["cause"]);
                causes
                    .entry(word(&subject["subject"]))
                    .or_default()
                    .push(cause);
            }
        }
        causes
    };
    until("each is told", || causes().len() >= ends.len());
    let causes = causes();
    for (name, .., reason) in ends {
        let told = &causes[name];
        assert_eq!(told.len(), 1, "{name}: {told:?}");
        assert!(told[0].contains(reason), "{name}: {told:?}");
    }
    assert!(!causes.contains_key("stopped"), "{causes:?}");
}

/// A file that can't be meant is refused by name.
#[test]
fn a_wrong_file_of_alerts_is_refused() {
    let scene = Scene::new(Kind::Sqlite).unwrap();
    let path = scene.path("wrong.yaml");
    std::fs::write(&path, "receivers: []\nrules: {failure: {}}\n").unwrap();
    let config = scene.path("server.yaml");
    std::fs::write(&config, format!("alerts: '{}'\n", text(&path))).unwrap();
    let said = scene
        .client
        .fails(&format!("config check {}", text(&config)), 2);
    assert!(
        said.contains("SC7008") && said.contains("did you mean `failures`?"),
        "{said}"
    );
    let help = out(&crate::program::command(&["server", "--help"])
        .output()
        .unwrap());
    assert!(help.contains("--alerts <FILE>"), "{help}");
}

/// A file that was changed is taken up at a signal, and one that can't be used changes nothing.
#[test]
fn a_changed_file_of_alerts_is_read_again_at_a_signal() {
    let (dir, first, second) = (
        tempfile::tempdir().unwrap(),
        Receiver::new(),
        Receiver::new(),
    );
    let file = config(&dir, &first, "");
    let own = tempfile::tempdir().unwrap();
    let scene = Scene::on(own, None, &["--alerts", &file], Vec::new());
    let _worker = scene.worker("w1", &scene.server.url, 1);
    flaky(&scene, "one");
    scene.client.ok("run one --key k");
    until("it is told", || first.events() == ["raised"]);
    std::fs::write(&file, "receivers: []\n").unwrap();
    scene.server.signal(nix::sys::signal::Signal::SIGHUP);
    std::fs::write(scene.path("ok"), "").unwrap();
    scene.client.ok("run one --key good");
    until("who was told is told its end", || {
        first.events() == ["raised", "recovered"]
    });
    config(&dir, &second, "");
    scene.server.signal(nix::sys::signal::Signal::SIGHUP);
    std::fs::remove_file(scene.path("ok")).unwrap();
    // Failures of another kind: an alert that is over is remembered.
    let script = json!({ "process": { "argv": ["/bin/sh", "-c", "echo otherwise >&2; exit 1"] } });
    scene.apply_spec(
        "two",
        &json!({ "run": script, "retry": { "maxAttempts": 1 } }),
    );
    scene.client.ok("run two --key k");
    until("the new receiver is told", || second.events() == ["raised"]);
    assert_eq!(first.events(), ["raised", "recovered"]);
}
