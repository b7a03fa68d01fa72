//! The worker of docs/guide/workers.md: counts, and says how far it is.

use sichen_sdk::{Context, Counters, Worker};

#[derive(serde::Deserialize)]
struct Count {
    to: u64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let token = std::fs::read_to_string(std::env::var("SICHEN_JOIN_TOKEN_FILE")?)?;
    Worker::builder()
        .server("http://127.0.0.1:7070")
        .join_token(token.trim())
        .data_dir("my-worker")
        .handler("count", |ctx: Context, count: Count| async move {
            for n in 1..=count.to {
                ctx.checkpoint(n.to_string(), Counters::done(n).of(count.to))
                    .await?;
            }
            Ok(count.to)
        })
        .run()
        .await?;
    Ok(())
}
