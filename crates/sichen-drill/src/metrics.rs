//! What a server counts, as a monitoring system would read it.
//!
//! # Not here
//! Any judgement: it is kept as evidence.

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The longest that an answer may take.
const LIMIT: Duration = Duration::from_secs(10);
/// The longest answer that is kept.
const MAX_METRICS_BYTES: u64 = 8 << 20;

/// The counts of the server at `address`; of one that does not give them, why.
pub(crate) async fn read(address: &str, token_file: &Path) -> String {
    match tokio::time::timeout(LIMIT, get(address, "/metrics", token_file)).await {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => format!("# {address}: {error}\n"),
        Err(_) => format!("# {address}: no answer within {} s\n", LIMIT.as_secs()),
    }
}

/// What the server at `address` answers to a question without words of its own.
pub(crate) async fn get(address: &str, path: &str, token_file: &Path) -> std::io::Result<String> {
    let token = std::fs::read_to_string(token_file)?;
    let host = address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).await?;
    // The old version: its answer is not cut in pieces.
    let request = format!(
        "GET {path} HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {}\r\n\r\n",
        token.trim()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream
        .take(MAX_METRICS_BYTES)
        .read_to_end(&mut bytes)
        .await?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.lines().next().unwrap_or_default();
    if status.contains(" 200") {
        return Ok(body.to_owned());
    }
    Err(std::io::Error::other(format!("it answered {status:?}")))
}
