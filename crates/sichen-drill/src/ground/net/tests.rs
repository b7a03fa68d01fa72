//! Claims about the network, where it can be made.

use nix::unistd::geteuid;

use super::*;

/// Drills that need it say so where it can't be had; there is nothing to look at then.
async fn can() -> bool {
    geteuid().is_root() && ip(&["netns", "list"]).await.is_ok()
}

/// What it reaches the others by stays the same, whichever worker's cable is pulled.
#[tokio::test]
async fn pulling_a_workers_cable_moves_the_server_for_nobody() {
    if !can().await {
        return;
    }
    let net = Net::make(3).await.unwrap();
    let file = format!("/sys/class/net/{}/address", net.bridge);
    let address = || std::fs::read_to_string(&file).unwrap();
    let before = address();
    for worker in 0..3 {
        net.unplug(worker).await.unwrap();
        assert_eq!(address(), before);
        net.plug(worker).await.unwrap();
        assert_eq!(address(), before);
    }
}

#[tokio::test]
async fn two_networks_at_once_share_neither_names_nor_addresses() {
    if !can().await {
        return;
    }
    let (one, other) = (Net::make(1).await.unwrap(), Net::make(1).await.unwrap());
    assert_ne!(one.bridge, other.bridge);
    assert_ne!(one.prefix, other.prefix);
    assert_ne!(one.spaces, other.spaces);
}

/// How a connection from the first worker to the server ends that is tried for a second: refused by the
/// server, which listens nowhere, by the worker's own system, or not at all.
async fn tried(net: &Net) -> (Option<i32>, String) {
    let connect = format!("exec 3<>/dev/tcp/{}/9", net.server());
    let tried = Command::new("ip")
        .args(["netns", "exec", net.space(0).unwrap()])
        .args(["timeout", "1", "bash", "-c", &connect])
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&tried.stderr).into_owned();
    (tried.status.code(), said)
}

#[tokio::test]
async fn what_is_cut_one_way_vanishes_and_the_sender_is_not_told() {
    if !can().await || Command::new("iptables").arg("-V").output().await.is_err() {
        return;
    }
    let net = Net::make(1).await.unwrap();
    let (_, said) = tried(&net).await;
    assert!(said.contains("refused"), "{said}");
    net.cut(0).await.unwrap();
    let (code, said) = tried(&net).await;
    assert_eq!(
        code,
        Some(124),
        "it waits for an answer that never comes: {said}"
    );
    net.mend(0).await.unwrap();
    let (_, said) = tried(&net).await;
    assert!(said.contains("refused"), "{said}");
}
