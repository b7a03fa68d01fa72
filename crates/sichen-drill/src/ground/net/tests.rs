//! Claims about the network, where it can be made.

use nix::unistd::geteuid;

use super::*;

/// What it reaches the others by stays the same, whichever worker's cable is pulled.
#[tokio::test]
async fn pulling_a_workers_cable_moves_the_server_for_nobody() {
    if !geteuid().is_root() || ip(&["netns", "list"]).await.is_err() {
        // Drills that need it say so; here there is nothing to look at.
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
