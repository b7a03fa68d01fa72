//! Handlers for trying things out: `noop`, `sleep`, `echo`, `fail`.

use std::time::Duration;

use serde::Deserialize;
use sichen_sdk::worker::Builder;
use sichen_sdk::{Context, Counters, HandlerError};

/// Longest `sleep`, a day.
const MAX_SLEEP_MS: u64 = 86_400_000;

#[derive(Deserialize)]
struct Sleep {
    ms: u64,
}

#[derive(Deserialize)]
struct Fail {
    #[serde(default = "default_code")]
    code: String,
    #[serde(default)]
    message: String,
    /// Attempts that fail; later ones succeed. Absent: all of them.
    attempts: Option<u32>,
}

fn default_code() -> String {
    "asked-to-fail".to_owned()
}

pub(crate) fn add(builder: Builder) -> Builder {
    builder
        .handler("noop", |_, _: serde_json::Value| async { Ok(()) })
        .handler("echo", |_, parameters: serde_json::Value| async {
            Ok(parameters)
        })
        .handler("sleep", sleep)
        .handler("fail", |ctx: Context, fail: Fail| async move {
            if fail
                .attempts
                .is_none_or(|attempts| ctx.attempt() <= attempts)
            {
                return Err(HandlerError::retryable(fail.code, fail.message));
            }
            Ok(())
        })
}

/// Sleeps in steps and shows how far it is; goes on from there after a takeover. It has no data of
/// its own, so Sichen's copy of its checkpoint is the only one.
async fn sleep(ctx: Context, sleep: Sleep) -> Result<(), HandlerError> {
    let total = sleep.ms.min(MAX_SLEEP_MS);
    let before = ctx.display_checkpoint().and_then(|at| at.parse().ok());
    let mut slept = before.unwrap_or(0).min(total);
    while slept < total {
        let step = (total - slept).min(200);
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(step)) => slept += step,
            () = ctx.cancelled() => {}
        }
        ctx.checkpoint(slept.to_string(), Counters::done(slept).of(total))
            .await?;
    }
    Ok(())
}
