//! Trees of real processes, with and without cgroups.

use super::spawn::spawn;
use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// A shell that ignores TERM, with a child in a session of its own that ignores it too.
const STUBBORN: &str =
    "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 300' & echo ready; sleep 300; sleep 300";

async fn start(
    containment: &Containment,
    lease: &str,
    script: &str,
) -> (std::process::Child, Tree) {
    let leaf = containment.leaf(lease).unwrap();
    let argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let env = vec![
        ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
        ("SICHEN_LEASE".to_owned(), lease.to_owned()),
        ("SICHEN_WORKER_UID".to_owned(), format!("uid-{lease}")),
    ];
    let child = spawn(argv, "/".into(), env, leaf.as_ref()).await.unwrap();
    let tree = Tree::new(child.id(), leaf, lease);
    (child, tree)
}

/// Waits for the script to say that it is set up.
async fn ready(child: &mut std::process::Child) {
    let mut stdout = child.stdout.take().unwrap();
    let read = tokio::task::spawn_blocking(move || {
        let mut line = [0; 6];
        std::io::Read::read_exact(&mut stdout, &mut line).unwrap();
        stdout
    });
    child.stdout = Some(tokio::time::timeout(PATIENCE, read).await.unwrap().unwrap());
}

async fn dies(tree: &Tree) {
    tokio::time::timeout(PATIENCE, kill_until_dead(tree))
        .await
        .expect("the tree dies");
}

async fn a_stubborn_tree_dies_whole(containment: &Containment, lease: &str) {
    let (mut child, tree) = start(containment, lease, STUBBORN).await;
    ready(&mut child).await;
    tree.terminate();
    assert!(!tree.is_dead(), "it ignores TERM");
    dies(&tree).await;
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    tree.gone();
}

#[tokio::test]
async fn without_cgroups_a_daemonised_child_is_found_by_its_mark() {
    a_stubborn_tree_dies_whole(&Containment::without_cgroup(), "t1.0.1").await;
}

#[tokio::test]
async fn a_cgroup_holds_the_whole_tree_where_there_is_one() {
    let containment = Containment::detect("test-tree");
    a_stubborn_tree_dies_whole(&containment, "t2.0.1").await;
    containment.remove_if_empty();
}

#[tokio::test]
async fn term_reaches_the_whole_tree() {
    let (mut child, tree) = start(
        &Containment::without_cgroup(),
        "t3.0.1",
        "setsid sleep 300 & echo ready; sleep 300",
    )
    .await;
    ready(&mut child).await;
    tree.terminate();
    let dead = async {
        while !tree.is_dead() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(PATIENCE, dead)
        .await
        .expect("TERM is enough");
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    tree.gone();
}

#[tokio::test]
async fn a_sweep_kills_strangers_of_this_worker_and_no_others() {
    let containment = Containment::without_cgroup();
    let (mut ours, tree) = start(&containment, "t4.0.1", "echo ready; sleep 300").await;
    let (mut others, other_tree) = start(&containment, "t5.0.1", "echo ready; sleep 300").await;
    ready(&mut ours).await;
    ready(&mut others).await;
    sweep(&containment, "uid-t4.0.1").unwrap();
    assert!(tree.is_dead());
    assert!(!other_tree.is_dead());
    dies(&other_tree).await;
    ours.wait().unwrap();
    others.wait().unwrap();
    tree.gone();
    other_tree.gone();
}

#[test]
fn an_exit_status_has_a_code_that_rules_can_name() {
    let check = |raw, code: Option<&str>| {
        let verdict = judge(ExitStatus::from_raw(raw), "tail").err();
        assert_eq!(verdict.as_ref().map(HandlerError::code), code, "{raw:x}");
    };
    check(0, None);
    check(3 << 8, Some("exit-3"));
    check(9, Some("killed-by-signal-9"));
    check(11 | 0x80, Some("killed-by-signal-11"));
}
