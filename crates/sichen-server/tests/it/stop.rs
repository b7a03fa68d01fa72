//! How a node starts, and how it stops.

use std::time::Duration;

use reqwest::StatusCode;
use sichen_server::rest::wire;
use sichen_server::{STOP_GRACE_SECONDS, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::node::{Node, PATIENCE};

#[tokio::test]
async fn a_node_without_a_lease_is_not_ready() {
    let node = Node::without_duties().await;
    let answer = node.get("/readyz").await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(node.get("/healthz").await.status(), StatusCode::OK);
    node.stop().await;
}

#[tokio::test]
async fn the_clock_is_shown_and_nothing_is_accepted_that_did_not_step() {
    let node = Node::start().await;
    let shown: wire::Clock = node.read("/api/v1/clock").await;
    assert!(!shown.held, "{shown:?}");
    let accepted = node.post("/api/v1/clock/accept", "").await;
    let accepted: wire::Clock = crate::node::json(accepted).await;
    assert_eq!(accepted.accepted_seconds, None);
    node.stop().await;
}

#[tokio::test]
async fn nothing_but_loopback_unless_it_is_meant() {
    let error = Server::bind("0.0.0.0:0".parse().unwrap(), false).await;
    assert!(error.unwrap_err().to_string().starts_with("SC6020"));
    for address in ["127.0.0.1:0", "127.0.0.2:0"] {
        Server::bind(address.parse().unwrap(), false).await.unwrap();
    }
    Server::bind("0.0.0.0:0".parse().unwrap(), true)
        .await
        .unwrap();
}

#[tokio::test]
async fn idle_connections_do_not_hold_a_stop_up() {
    let node = Node::start().await;
    let mut silent = TcpStream::connect(node.address).await.unwrap();
    let mut kept = TcpStream::connect(node.address).await.unwrap();
    kept.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    let mut start = [0u8; 15];
    kept.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200 OK");
    let stop = tokio::time::timeout(Duration::from_secs(STOP_GRACE_SECONDS), node.stop());
    stop.await.expect("no request was open");
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, silent.read_to_end(&mut rest));
    assert_eq!(ended.await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_request_that_never_ends_is_cut_by_a_stop() {
    let node = Node::start().await;
    let mut half = TcpStream::connect(node.address).await.unwrap();
    let head = format!(
        "POST /api/v1/jobs:apply HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\n\
         content-length: 100\r\nexpect: 100-continue\r\n\r\n",
        node.token
    );
    half.write_all(head.as_bytes()).await.unwrap();
    // The server reads the body now, which will not come.
    let mut start = [0u8; 12];
    half.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 100");
    let grace = Duration::from_secs(STOP_GRACE_SECONDS + 3);
    let stop = tokio::time::timeout(grace, node.stop());
    stop.await.expect("the stop takes no longer than its grace");
}
