//! The adapter by which a harness for job queues runs Sichen beside others: `setup`, `enqueue
//! bulk|single|light|sched N`, `worker N` (see `benches/peer`).
//!
//! # Not here
//! The other systems.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde_json::json;
use sichen_bench::api::Api;
use sichen_bench::clock::now_us;
use sichen_bench::measure::{beside, plain};
use sichen_bench::process::{Server, WorkerProcess};
use sichen_bench::worker::say;
use sichen_bench::{load, report};
use tokio::signal::unix::{SignalKind, signal};

/// Attempts at once.
const SLOTS: u32 = 1_000;

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["setup"] => setup().await,
        ["enqueue", mode, n] => enqueue(mode, n.parse()?).await,
        ["worker", n] => work(n.parse()?).await,
        _ => bail!("usage: sichen-peer setup | enqueue bulk|single|light|sched N | worker N"),
    }
}

fn database() -> Result<String> {
    std::env::var("DATABASE_URL").context("DATABASE_URL names the database")
}

/// Tokens, the address of a running server, the worker's journal: by database, beside no other's.
fn home() -> Result<PathBuf> {
    let url = database()?;
    let name: String = url
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    Ok(std::env::temp_dir().join(format!("sichen-peer-{name}")))
}

async fn server() -> Result<Server> {
    Server::start(&beside("sichen")?, &database()?, home()?.join("server")).await
}

async fn setup() -> Result<()> {
    let home = home()?;
    if home.exists() {
        std::fs::remove_dir_all(&home)?;
    }
    std::fs::create_dir_all(&home)?;
    let mut server = server().await?;
    server.api()?.apply(plain()).await?;
    server.process.stop().await
}

async fn enqueue(mode: &str, n: u64) -> Result<()> {
    let address = home()?.join("address");
    match std::fs::read_to_string(&address) {
        Ok(url) => {
            let token = std::fs::read_to_string(home()?.join("server/token"))?;
            produce(&Api::new(url.trim(), token.trim()), mode, n).await
        }
        Err(_) => {
            let mut server = server().await?;
            produce(&server.api()?, mode, n).await?;
            server.process.stop().await
        }
    }
}

async fn produce(api: &Api, mode: &str, n: u64) -> Result<()> {
    let rate = std::env::var("RATE").ok().and_then(|r| r.parse().ok());
    let begin = now_us();
    match mode {
        "bulk" => load::bulk(api, n).await?,
        "single" => load::one_by_one(api, n, callers()).await?,
        "light" => load::steady(api, n, rate.unwrap_or(20.0)).await?,
        "sched" => load::delayed(api, n).await?,
        _ => bail!("there is no mode {mode:?}"),
    }
    say(&json!({ "ev": "produced", "mode": mode, "n": n, "t0": begin, "t1": now_us() }));
    Ok(())
}

fn callers() -> u32 {
    let given = std::env::var("CALLERS").ok().and_then(|c| c.parse().ok());
    given.unwrap_or(16)
}

async fn work(n: u64) -> Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut server = server().await?;
    let home = home()?;
    let data = home.join("worker");
    let mut worker = WorkerProcess::start(&server, &data, SLOTS, n)?;
    registered().await?;
    std::fs::write(home.join("address"), &server.url)?;
    say(&json!({ "ev": "ready", "t": now_us() }));
    for event in ["first", "handled"] {
        tokio::select! {
            said = worker.said(event) => say(&said?),
            _ = term.recv() => break,
        }
        if event == "handled" {
            term.recv().await;
        }
    }
    let late = worker.drain().await?;
    say(&json!({ "ev": "lat", "n": late.len(), "lat": late }));
    // The harness may have taken the database away already.
    if let Err(error) = server.process.stop().await {
        report::note(&format!("the server: {error:#}"));
    }
    std::fs::remove_file(home.join("address"))?;
    Ok(())
}

/// Waits until the worker is registered.
async fn registered() -> Result<()> {
    let (client, connection) = tokio_postgres::connect(&database()?, tokio_postgres::NoTls).await?;
    let asking = async {
        let text = "select exists (select 1 from session where ended_at is null)";
        while !client.query_one(text, &[]).await?.get::<_, bool>(0) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        asked = asking => asked,
        broken = connection => Ok(broken?),
    }
}
