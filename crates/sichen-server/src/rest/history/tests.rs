//! An export and its client.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::*;

const LINES: usize = 4_000;

/// About 4 MB: far more than what waits ahead of the client.
fn lines() -> export::Lines {
    let line = format!("{}\n", "x".repeat(1_023));
    Box::new(std::iter::repeat_n(line, LINES))
}

#[tokio::test]
async fn an_export_that_is_not_read_gives_its_room_back_and_is_no_whole_one() {
    let room = Arc::new(Semaphore::new(1));
    let only = room.clone().try_acquire_owned().unwrap();
    let body = body(lines(), only, Duration::from_millis(20));
    let next = room.acquire().await.unwrap();
    drop(next);
    assert!(axum::body::to_bytes(body, usize::MAX).await.is_err());
}

#[tokio::test]
async fn an_export_that_is_read_comes_whole() {
    let room = Arc::new(Semaphore::new(1));
    let only = room.clone().try_acquire_owned().unwrap();
    let body = body(lines(), only, READS_WITHIN);
    let whole = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    assert_eq!(whole.len(), LINES * 1_024);
    assert_eq!(room.available_permits(), 1);
}

#[tokio::test]
async fn an_export_whose_client_hangs_up_gives_its_room_back() {
    let room = Arc::new(Semaphore::new(1));
    let only = room.clone().try_acquire_owned().unwrap();
    drop(body(lines(), only, READS_WITHIN));
    drop(room.acquire().await.unwrap());
}
