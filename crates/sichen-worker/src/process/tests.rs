//! Trees of real processes, with and without cgroups.

use std::io::Read as _;
use std::os::fd::AsFd as _;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::*;
use crate::config;

const PATIENCE: Duration = Duration::from_secs(60);

/// Ignores TERM; below it are a child in a session of its own, and one that daemonised: forked
/// twice, in its own session, without its parents and without their environment. All ignore TERM
/// and hold the pipes. Each says its number.
const STUBBORN: &str = r#"trap '' TERM
    setsid sh -c 'trap "" TERM; echo $$; sleep 300; :' &
    env -i setsid sh -c 'trap "" TERM; sh -c "echo \$\$; sleep 300; :" & exit 0' &
    echo $$; sleep 300; sleep 300"#;

struct Running {
    tree: Tree,
    stdout: std::process::ChildStdout,
    _stderr: Option<std::process::ChildStderr>,
    attempts: tempfile::TempDir,
}

async fn start(containment: &Containment, lease: &str, script: &str) -> Running {
    let attempts = tempfile::tempdir().unwrap();
    let dir = attempts.path().join(lease);
    std::fs::create_dir(&dir).unwrap();
    let leaves = containment.leaves(lease, None).unwrap();
    let env = [
        ("PATH", "/usr/bin:/bin".to_owned()),
        ("SICHEN_LEASE", lease.to_owned()),
        ("SICHEN_WORKER_UID", format!("uid-{lease}")),
    ];
    let start = Start {
        argv: &["/bin/sh", "-c", script].map(str::to_owned),
        cwd: "/".into(),
        env: env.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        leaves: &leaves,
        alive: std::fs::File::create(dir.join("running")).unwrap(),
    };
    let mut started = start.start(std::future::pending()).await.unwrap().unwrap();
    let (stdout, stderr) = started.outputs();
    let tree = Tree::new(started, leaves, lease).unwrap();
    Running {
        tree,
        stdout: stdout.unwrap(),
        _stderr: stderr,
        attempts,
    }
}

impl Running {
    /// Waits for the script to say that many numbers of processes.
    async fn pids(&mut self, how_many: usize) -> Vec<Pid> {
        let pipe = self.stdout.as_fd().try_clone_to_owned().unwrap();
        let mut stdout = std::fs::File::from(pipe);
        let read = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            let mut byte = [0];
            while text.lines().count() < how_many || !text.ends_with('\n') {
                stdout.read_exact(&mut byte).unwrap();
                text.push(byte[0].into());
            }
            let pids = text.lines().map(|line| line.parse().unwrap());
            pids.map(Pid::from_raw).collect()
        });
        tokio::time::timeout(PATIENCE, read).await.unwrap().unwrap()
    }

    async fn dies(&mut self) {
        tokio::time::timeout(PATIENCE, kill_until_dead(&mut self.tree))
            .await
            .expect("the tree dies");
    }

    fn signal(&self) -> Option<i32> {
        self.tree.status().and_then(|status| status.signal())
    }
}

fn lives(pid: Pid) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// A way to hold trees together, if this machine has it.
fn containment(wanted: config::Containment, uid: &str) -> Option<Containment> {
    Containment::find(wanted, uid, false).ok()
}

async fn a_stubborn_tree_dies_whole(wanted: config::Containment, name: &str) {
    let Some(containment) = containment(wanted, name) else {
        // What this machine can't do, the worker refuses by name; auto takes what there is.
        assert_ne!(wanted, config::Containment::None);
        eprintln!("not tested: {wanted:?} can't be had here");
        return;
    };
    let lease = format!("{name}.0.1");
    let mut running = start(&containment, &lease, STUBBORN).await;
    let pids = running.pids(3).await;
    running.tree.terminate();
    assert!(!running.tree.is_dead(), "it ignores TERM");
    assert!(pids.iter().all(|pid| lives(*pid)));
    running.dies().await;
    assert!(!pids.iter().any(|pid| lives(*pid)), "dead means dead");
    assert_eq!(running.signal(), Some(9));
    running.tree.gone();
    containment.remove_if_empty();
}

#[tokio::test]
async fn the_supervisor_alone_finds_a_daemon_that_hid_its_environment() {
    a_stubborn_tree_dies_whole(config::Containment::None, "t1").await;
}

#[tokio::test]
async fn a_tree_in_a_cgroup_of_version_2_dies_whole() {
    a_stubborn_tree_dies_whole(config::Containment::CgroupV2, "t2").await;
}

#[tokio::test]
async fn a_tree_in_a_cgroup_of_version_1_dies_whole() {
    a_stubborn_tree_dies_whole(config::Containment::CgroupV1, "t3").await;
}

/// Each lives for a fraction of a millisecond and leaves another behind.
#[tokio::test]
async fn who_forks_faster_than_anybody_can_look_dies_all_the_same() {
    let script = "setsid sh -c 'echo $$; hop() { hop & exit 0; }; hop' & sleep 300";
    for wanted in [
        config::Containment::None,
        config::Containment::CgroupV2,
        config::Containment::CgroupV1,
    ] {
        let Some(containment) = containment(wanted, "t13") else {
            continue;
        };
        let mut running = start(&containment, "t13.0.1", script).await;
        running.pids(1).await;
        // A few hundred of them.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let asked = boot_ms();
        running.dies().await;
        let took = boot_ms() - asked;
        assert!(took < 5_000, "{wanted:?}: {took} ms");
        running.tree.gone();
        containment.remove_if_empty();
    }
}

#[tokio::test]
async fn auto_takes_a_cgroup_wherever_one_can_be_made() {
    let named = [config::Containment::CgroupV2, config::Containment::CgroupV1];
    let possible = named
        .into_iter()
        .any(|wanted| containment(wanted, "t4").is_some());
    let auto = containment(config::Containment::Auto, "t4").unwrap();
    assert_eq!(auto.is_cgroup(), possible);
    auto.remove_if_empty();
}

/// The last of the means: the supervisor is dead too.
async fn a_tree_without_its_supervisor_dies_whole(wanted: config::Containment, name: &str) {
    let Some(containment) = containment(wanted, name) else {
        return;
    };
    let script = "trap '' TERM; setsid sh -c 'echo $$; sleep 300; :' & echo $$; sleep 300; :";
    let mut running = start(&containment, &format!("{name}.0.1"), script).await;
    let pids = running.pids(2).await;
    kill(running.tree.supervisor_pid(), Signal::SIGKILL).unwrap();
    // Its main process dies with it, and that is told like its own end.
    tokio::time::timeout(PATIENCE, running.tree.leader_exit())
        .await
        .unwrap();
    running.dies().await;
    assert!(!pids.iter().any(|pid| lives(*pid)));
    assert_eq!(running.tree.status(), None);
    running.tree.gone();
    containment.remove_if_empty();
}

#[tokio::test]
async fn without_supervisor_and_cgroup_a_child_is_found_by_its_mark() {
    a_tree_without_its_supervisor_dies_whole(config::Containment::None, "t5").await;
}

#[tokio::test]
async fn without_its_supervisor_a_tree_is_held_by_its_cgroup() {
    a_tree_without_its_supervisor_dies_whole(config::Containment::CgroupV2, "t6").await;
    a_tree_without_its_supervisor_dies_whole(config::Containment::CgroupV1, "t7").await;
}

#[tokio::test]
async fn term_reaches_the_whole_tree_and_each_of_it_once() {
    let containment = containment(config::Containment::None, "t8").unwrap();
    // Ends with the number of TERMs that it has seen: the main process, a child in its group, and
    // one in a session of its own.
    let dir = tempfile::tempdir().unwrap();
    let count = dir.path().join("count.sh");
    let text = "n=0; trap 'n=$((n+1))' TERM; echo $$\nwhile [ $n = 0 ]; do sleep 0.05; done; sleep 0.2; exit $n";
    std::fs::write(&count, text).unwrap();
    let count = count.display();
    let script = format!("setsid sh {count} & sh {count} & exec sh {count}");
    let mut running = start(&containment, "t8.0.1", &script).await;
    let pids = running.pids(3).await;
    assert_eq!(pids.len(), 3);
    running.tree.terminate();
    let dead = async {
        while !running.tree.is_dead() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(PATIENCE, dead)
        .await
        .expect("TERM is enough");
    running.tree.leader_exit().await;
    let status = running.tree.status().unwrap();
    assert_eq!(status.code(), Some(1), "one TERM, not two: {status}");
    running.tree.gone();
}

#[tokio::test]
async fn a_supervisor_holds_nothing_of_the_worker() {
    let containment = containment(config::Containment::None, "t9").unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut running = start(&containment, "t9.0.1", "echo $$; sleep 300").await;
    running.pids(1).await;
    let supervisor = running.tree.supervisor_pid();
    let held: Vec<String> = std::fs::read_dir(format!("/proc/{supervisor}/fd"))
        .unwrap()
        .map(|fd| std::fs::read_link(fd.unwrap().path()).unwrap())
        .map(|link| link.display().to_string())
        .collect();
    assert_eq!(held.len(), 4, "{held:?}");
    assert!(!held.iter().any(|link| link.starts_with("socket:")));
    drop(listener);
    running.dies().await;
}

#[tokio::test]
async fn a_sweep_kills_strangers_of_this_worker_and_no_others() {
    let containment = containment(config::Containment::None, "t10").unwrap();
    let mut ours = start(&containment, "t10.0.1", "echo $$; sleep 300").await;
    let mut others = start(&containment, "t11.0.1", "echo $$; sleep 300").await;
    let (our_pids, other_pids) = (ours.pids(1).await, others.pids(1).await);
    let nothing = tempfile::tempdir().unwrap();
    sweep(&containment, "uid-t10.0.1", nothing.path()).unwrap();
    assert!(!lives(our_pids[0]) && lives(other_pids[0]));
    ours.dies().await;
    others.dies().await;
}

#[tokio::test]
async fn a_sweep_waits_for_a_supervisor_that_still_kills() {
    let containment = containment(config::Containment::None, "t12").unwrap();
    let script = "env -i setsid sh -c 'sleep 300; :' & env -i sh -c 'echo $$; sleep 300; :' & exec env -i sleep 300";
    let mut running = start(&containment, "t12.0.1", script).await;
    let pids = running.pids(1).await;
    // As somebody may have left it; then its worker is gone.
    let supervisor = running.tree.supervisor_pid();
    kill(supervisor, Signal::SIGSTOP).unwrap();
    running.tree.kill();
    assert!(lives(pids[0]));
    sweep(&containment, "nobody", running.attempts.path()).unwrap();
    assert!(!lives(pids[0]) && !lives(supervisor));
    running.dies().await;
}

#[test]
fn an_exit_status_has_a_code_that_rules_can_name() {
    let check = |raw, code: Option<&str>| {
        let verdict = judge(Some(ExitStatus::from_raw(raw)), "tail", None).err();
        assert_eq!(verdict.as_ref().map(HandlerError::code), code, "{raw:x}");
    };
    check(0, None);
    check(3 << 8, Some("exit-3"));
    check(9, Some("killed-by-signal-9"));
    check(11 | 0x80, Some("killed-by-signal-11"));
    assert_eq!(
        judge(None, "", None).unwrap_err().code(),
        "killed-by-signal-9"
    );
    let starved = judge(Some(ExitStatus::from_raw(9)), "", Some(1 << 26)).unwrap_err();
    let said = format!("{starved:?}");
    assert!(
        said.contains("killed by signal 9; memory limit reached (67108864 bytes)"),
        "{said}"
    );
    assert!(judge(Some(ExitStatus::from_raw(0)), "", Some(1)).is_ok());
}
