//! Claims about the look beside a drill.

use super::*;
use crate::cluster::Member;

/// A process that stands for a server: `sh` with a script.
fn member(home: &Home, living: &Living, script: &str) -> Member {
    let mut member = Member::new(Path::new("/bin/sh"), "server", &home.logs(), living);
    member.words(["-c", script]);
    member
}

/// What it says within ten seconds, while whoever plays the drill does nothing but wait.
async fn said(home: &Home, living: &Living) -> Option<String> {
    let guard = Guard::new(home, living, &Calm::default());
    let said = tokio::time::timeout(Duration::from_secs(10), guard.until_harm());
    said.await.ok()
}

#[tokio::test]
async fn a_process_that_ends_by_itself_is_seen_whatever_the_drill_waits_for() {
    let (home, living) = (Home::make().unwrap(), Living::default());
    let mut server = member(&home, &living, "exit 7");
    server.start().unwrap();
    let said = said(&home, &living).await.unwrap();
    assert!(
        said.contains("server ended by itself: exit code 7"),
        "{said}"
    );
    // Its own status is still there for whoever waits for it.
    server.kill().await.unwrap();
    assert!(living.deaths().is_empty());
}

#[tokio::test]
async fn a_process_that_was_told_to_end_is_no_harm() {
    let (home, living) = (Home::make().unwrap(), Living::default());
    let mut server = member(&home, &living, "exec sleep 60");
    server.start().unwrap();
    let mut guard = Guard::new(&home, &living, &Calm::default());
    assert_eq!(guard.look(), None);
    server.end().await.unwrap();
    assert_eq!(guard.look(), None);
    server.start().unwrap();
    server.kill().await.unwrap();
    assert_eq!(guard.look(), None);
}

#[test]
fn silence_counts_only_while_the_load_is_on_and_no_fault_is() {
    let (home, living, calm) = (Home::make().unwrap(), Living::default(), Calm::default());
    let mut guard = Guard::new(&home, &living, &calm);
    assert_eq!(guard.look(), None);
    calm.begins();
    assert_eq!(guard.look(), None);
    calm.0.store(wall_us() - 31_000_000, Ordering::Relaxed);
    let said = guard.look().unwrap();
    assert!(said.contains("no task has begun"), "{said}");
    calm.ends();
    assert_eq!(guard.look(), None);
}
