//! Trees that do not want to die, and workers that do: what is killed, when, and the proof.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sichen_proto::v1;
use sichen_worker::{Config, Containment};
use v1::server_message::Message as FromServer;
use v1::worker_message::Message as ToServer;

use crate::fake::{Fake, grant, patiently};
use crate::process::{alive, config, pids, shell, start};

/// Says the numbers of its tree: itself, a child in a session of its own, and a daemon that forked
/// twice, has its own session and nothing of the environment. All ignore TERM and hold the pipes.
const STUBBORN: &str = r#"trap '' TERM
    setsid sh -c 'trap "" TERM; echo $$; sleep 300; sleep 300' &
    env -i setsid sh -c 'trap "" TERM; sh -c "echo \$\$; sleep 300; :" & exit 0' &
    echo $$; while true; do sleep 1; done"#;
const TREE: usize = 3;
const ALL: [Containment; 2] = [Containment::Auto, Containment::None];

fn cancel(grace_ms: u64) -> FromServer {
    FromServer::Cancel(v1::Cancel {
        shard: Some(v1::ShardRef { run_id: 7, no: 0 }),
        token: 5,
        reason: v1::Reason::CancelRequested.into(),
        grace_ms,
    })
}

/// Of a job whose attempts may take long to stop, so that the cancellation alone says how long.
fn patient(grant: v1::Grant) -> v1::Grant {
    v1::Grant {
        grace_ms: 60_000,
        ..grant
    }
}

#[tokio::test]
async fn a_stubborn_tree_is_gone_before_its_cancellation_is_reported() {
    for containment in ALL {
        let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
        let config = Config {
            containment,
            ..config(&fake, dir.path(), STUBBORN)
        };
        let (_workers, mut conn) = start(&mut fake, config).await;
        conn.grant(patient(grant("script", 5, "{}"))).await;
        let tree = pids(&dir.path().join("attempts/7.0.1.5"), TREE).await;
        assert!(tree.iter().all(|pid| alive(pid)));
        let asked = Instant::now();
        conn.send(cancel(300)).await;
        let finish = conn.finish().await;
        assert_eq!(finish.outcome(), v1::Outcome::Cancelled);
        assert!(
            !tree.iter().any(|pid| alive(pid)),
            "proved dead before it is said"
        );
        let took = asked.elapsed().as_millis();
        assert!(
            (300..5_300).contains(&took),
            "within grace + 5 s, not before the grace: {took} ms"
        );
    }
}

#[tokio::test]
async fn the_rest_of_a_tree_has_its_grace_when_the_main_process_ends_first() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let script = "sh -c 'trap \"sleep 0.3; echo tidied; exit 0\" TERM; echo $$; while :; do sleep 0.05; done' & \
                  echo $$; exec sleep 300";
    let config = config(&fake, dir.path(), script);
    let (_workers, mut conn) = start(&mut fake, config).await;
    conn.grant(patient(grant("script", 5, "{}"))).await;
    let attempt = dir.path().join("attempts/7.0.1.5");
    pids(&attempt, 2).await;
    conn.send(cancel(60_000)).await;
    assert_eq!(conn.finish().await.outcome(), v1::Outcome::Cancelled);
    let text = std::fs::read_to_string(attempt.join("stdout.log")).unwrap();
    assert!(text.ends_with("tidied\n"), "{text}");
}

/// A worker in a process of its own, this test binary, so that it can be killed.
pub(crate) struct Worker(Child);

impl Worker {
    pub(crate) fn spawn(fake: &Fake, dir: &Path, script: &str) -> Worker {
        Worker::contained(fake, dir, script, Containment::Auto)
    }

    fn contained(fake: &Fake, dir: &Path, script: &str, containment: Containment) -> Worker {
        let cgroup = containment == Containment::Auto;
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "kill::a_worker_process",
                "--ignored",
                "--nocapture",
            ])
            .env("TEST_SERVER", &fake.address)
            .env("TEST_DIR", dir)
            .env("TEST_SCRIPT", script)
            .env("TEST_CGROUP", cgroup.to_string())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Worker(child)
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.0.id().cast_signed());
        nix::sys::signal::kill(pid, signal).unwrap();
        // It is stopped a moment later, and may see in that what is done next.
        let begun = Instant::now();
        while signal == nix::sys::signal::Signal::SIGSTOP && !is_stopped(pid) {
            assert!(begun.elapsed() < Duration::from_secs(20), "{pid} goes on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) async fn end(mut self) -> std::process::ExitStatus {
        patiently(tokio::task::spawn_blocking(move || self.0.wait().unwrap()))
            .await
            .unwrap()
    }
}

#[tokio::test]
#[ignore = "run by other tests as a process"]
async fn a_worker_process() {
    let Ok(server) = std::env::var("TEST_SERVER") else {
        return;
    };
    let script = std::env::var("TEST_SCRIPT").unwrap();
    let containment = match std::env::var("TEST_CGROUP").as_deref() {
        Ok("true") => Containment::Auto,
        _ => Containment::None,
    };
    let config = Config {
        containment,
        servers: vec![server],
        data_dir: std::env::var_os("TEST_DIR").map(Into::into),
        processes: BTreeMap::from([("script".to_owned(), shell(&script))]),
        drain_grace_ms: 2_000,
        builtin: true,
        ..Config::default()
    };
    sichen_worker::run(config).await.unwrap();
}

/// Nothing is started again: the supervisors do it.
#[tokio::test]
async fn the_trees_of_a_killed_worker_are_gone_within_two_seconds() {
    for containment in ALL {
        let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
        let worker = Worker::contained(&fake, dir.path(), STUBBORN, containment);
        let (mut conn, _) = fake.welcomed(1).await;
        conn.grant(patient(grant("script", 5, "{}"))).await;
        let tree = pids(&dir.path().join("attempts/7.0.1.5"), TREE).await;
        let killed = Instant::now();
        worker.signal(nix::sys::signal::Signal::SIGKILL);
        worker.end().await;
        patiently(async {
            while tree.iter().any(|pid| alive(pid)) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let took = killed.elapsed();
        assert!(took < Duration::from_secs(2), "{containment:?}: {took:?}");
        // Nor is anything of a cgroup, whatever becomes of this worker.
        let left = "find /sys/fs/cgroup -path \"*/sichen-$(cat worker-uid)/*\" -type d";
        patiently(async {
            let find = || {
                Command::new("sh")
                    .args(["-c", left])
                    .current_dir(dir.path())
                    .output()
            };
            while !find().unwrap().stdout.is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    }
}

/// The worst case: the supervisor was killed together with its worker.
fn is_stopped(pid: nix::unistd::Pid) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "))
}

#[tokio::test]
async fn strangers_without_a_supervisor_are_killed_before_the_worker_registers() {
    const MARKED: &str = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$; sleep 300; :' & echo $$; sleep 300; :";
    for containment in ALL {
        let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
        let worker = Worker::contained(&fake, dir.path(), MARKED, containment);
        let (mut conn, _) = fake.welcomed(1).await;
        conn.grant(grant("script", 5, "{}")).await;
        let attempt = dir.path().join("attempts/7.0.1.5");
        let tree = pids(&attempt, 2).await;
        let supervisor = std::fs::read_to_string(attempt.join("running")).unwrap();
        let supervisor = nix::unistd::Pid::from_raw(supervisor.parse().unwrap());
        worker.signal(nix::sys::signal::Signal::SIGSTOP);
        nix::sys::signal::kill(supervisor, nix::sys::signal::Signal::SIGKILL).unwrap();
        worker.signal(nix::sys::signal::Signal::SIGKILL);
        worker.end().await;
        assert!(tree.iter().any(|pid| alive(pid)), "{containment:?}");
        let again = Worker::contained(&fake, dir.path(), MARKED, containment);
        fake.welcomed(2).await;
        assert!(!tree.iter().any(|pid| alive(pid)), "{containment:?}");
        again.signal(nix::sys::signal::Signal::SIGTERM);
        assert!(again.end().await.success());
    }
}

#[tokio::test]
async fn a_killed_worker_started_again_has_killed_its_strangers_before_it_registers() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::spawn(&fake, dir.path(), STUBBORN);
    let (mut conn, first) = fake.welcomed(1).await;
    conn.grant(grant("script", 5, "{}")).await;
    let tree = pids(&dir.path().join("attempts/7.0.1.5"), TREE).await;
    worker.signal(nix::sys::signal::Signal::SIGKILL);
    worker.end().await;
    let again = Worker::spawn(&fake, dir.path(), STUBBORN);
    let (_conn, hello) = fake.welcomed(2).await;
    assert!(
        tree.iter().all(|pid| !alive(pid)),
        "nothing of before is alive"
    );
    assert_eq!(
        (hello.worker_uid, hello.boot_id),
        (first.worker_uid, first.boot_id)
    );
    assert_ne!(hello.incarnation, first.incarnation);
    assert_eq!(hello.journal.len(), 1);
    assert!(matches!(
        hello.journal[0].state,
        Some(v1::journaled_attempt::State::RunningDead(_))
    ));
    again.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(again.end().await.success());
}

#[tokio::test]
async fn sigterm_releases_what_does_not_end_and_exits_with_success() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::spawn(&fake, dir.path(), "echo $$; sleep 300");
    let (mut conn, _) = fake.welcomed(1).await;
    conn.grant(grant("script", 5, "{}")).await;
    let tree = pids(&dir.path().join("attempts/7.0.1.5"), 1).await;
    worker.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(matches!(conn.next().await, Some(ToServer::Draining(_))));
    let finish = conn.finish().await;
    assert_eq!(finish.outcome(), v1::Outcome::Released);
    assert!(!alive(&tree[0]));
    conn.ack(&finish, v1::Verdict::Accepted).await;
    assert!(worker.end().await.success());
}

#[tokio::test]
async fn a_worker_frozen_past_its_session_kills_its_work_before_it_comes_back() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::spawn(&fake, dir.path(), STUBBORN);
    let mut conn = fake.conn().await;
    conn.ttl_ms = 1_500;
    conn.hello().await;
    conn.welcome(1, Vec::new()).await;
    conn.grant(grant("script", 5, "{}")).await;
    let tree = pids(&dir.path().join("attempts/7.0.1.5"), TREE).await;
    worker.signal(nix::sys::signal::Signal::SIGSTOP);
    tokio::time::sleep(Duration::from_millis(conn.ttl_ms)).await;
    assert!(
        tree.iter().all(|pid| alive(pid)),
        "the work itself was not frozen"
    );
    worker.signal(nix::sys::signal::Signal::SIGCONT);
    let mut conn = fake.conn().await;
    let hello = conn.hello().await;
    assert!(
        tree.iter().all(|pid| !alive(pid)),
        "nothing of the old session is alive"
    );
    assert_eq!((hello.resume_session, hello.registration), (None, 2));
    assert_eq!(hello.journal.len(), 1);
    conn.welcome(2, Vec::new()).await;
    worker.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(worker.end().await.success());
}
