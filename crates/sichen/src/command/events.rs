//! `sichen events`, `sichen logs`: what happened, from the event log.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use sichen_server::rest::wire::{Event, EventPage, Run};

use super::run::is_closed;
use crate::client::{Client, Connection};
use crate::failure::{Exit, Failure};
use crate::output::{self, Form};

/// How often `--follow` looks for news.
const LOOK: Duration = Duration::from_millis(500);

/// Show the events of a run and its shards, or all events, oldest first.
#[derive(Debug, Args)]
pub struct Events {
    /// The run, by number or key; all events if left out.
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// Go on with what happens from now on, until the run has ended or Ctrl-C.
    #[arg(short, long)]
    follow: bool,
    /// After the event of this number.
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// At most this many.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    connection: Connection,
    /// The form of the answer; JSON is one object a line.
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,
}

/// Show the attempts of a run's shards: who held them, how far they came, how they ended.
///
/// What an attempt writes is kept by its worker, in `attempts` of its data directory.
#[derive(Debug, Args)]
pub struct Logs {
    /// The run, by number or key.
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Only this shard.
    #[arg(value_name = "SHARD", allow_negative_numbers = true)]
    shard: Option<i32>,
    /// Go on with what happens from now on, until the run has ended or Ctrl-C.
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    connection: Connection,
    /// The form of the answer; JSON is one object a line.
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,
}

/// Carries out `sichen events`.
pub async fn show(args: Events) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let run = resolve(&client, args.run.as_deref()).await?;
    let reader = Reader {
        client,
        run,
        follow: args.follow,
        after: args.after,
        left: args.limit.unwrap_or(u64::MAX),
        form: args.output,
    };
    reader.read(|_| true, event_line).await
}

/// Carries out `sichen logs`.
pub async fn logs(args: Logs) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let run = resolve(&client, Some(&args.run)).await?;
    let reader = Reader {
        client,
        run,
        follow: args.follow,
        after: None,
        left: u64::MAX,
        form: args.output,
    };
    let shard = args.shard;
    let wanted = |event: &Event| {
        let number = event.id.split_once('/').and_then(|(_, no)| no.parse().ok());
        event.entity == "shard" && (shard.is_none() || shard == number)
    };
    reader.read(wanted, attempt_line).await
}

/// The number of a run: following it needs no key any more.
async fn resolve(client: &Client, run: Option<&str>) -> Result<Option<String>, Failure> {
    let Some(run) = run else { return Ok(None) };
    let run: Run = client.get(&["runs", run], Vec::new()).await?;
    Ok(Some(run.id.to_string()))
}

struct Reader {
    client: Client,
    run: Option<String>,
    follow: bool,
    after: Option<u64>,
    left: u64,
    form: Form,
}

impl Reader {
    async fn read(
        mut self,
        wanted: impl Fn(&Event) -> bool,
        line: impl Fn(&Event) -> String,
    ) -> Result<ExitCode, Failure> {
        // Asked before the last look, so that nothing between the two is missed.
        let mut ended = !self.follow;
        loop {
            let page = self.page().await?;
            let full = page.items.len() == 1_000;
            for event in page.items.iter().filter(|e| wanted(e)) {
                if self.left == 0 || self.gone(event, &line)? {
                    return Ok(ExitCode::SUCCESS);
                }
                self.left -= 1;
            }
            self.after = page.items.last().map(|e| e.seq).or(self.after);
            if full {
                continue;
            }
            if ended {
                return Ok(ExitCode::SUCCESS);
            }
            ended = self.run_has_ended().await?;
            if !ended {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    async fn page(&self) -> Result<EventPage, Failure> {
        let mut query = vec![("limit", "1000".to_owned())];
        query.extend(self.after.map(|after| ("after", after.to_string())));
        match &self.run {
            Some(run) => self.client.get(&["runs", run, "events"], query).await,
            None => self.client.get(&["events"], query).await,
        }
    }

    async fn run_has_ended(&self) -> Result<bool, Failure> {
        let Some(run) = &self.run else {
            return Ok(false);
        };
        let run: Run = self.client.get(&["runs", run], Vec::new()).await?;
        Ok(is_closed(&run))
    }

    fn gone(&self, event: &Event, line: impl Fn(&Event) -> String) -> Result<bool, Failure> {
        let bad = |e: String| Failure::new(Exit::Failed, e);
        let text = match self.form {
            Form::Table => line(event),
            Form::Json => serde_json::to_string(event).map_err(|e| bad(e.to_string()))? + "\n",
            Form::Yaml => {
                let text = serde_saphyr::to_string(event).map_err(|e| bad(e.to_string()))?;
                format!("---\n{text}")
            }
        };
        output::print_or_gone(&text)
    }
}

fn event_line(e: &Event) -> String {
    let mut text = format!("{:<8} {}  {} {}  {}", e.seq, e.at, e.entity, e.id, e.kind);
    if !e.to.is_empty() {
        let from = if e.from.is_empty() { "-" } else { &e.from };
        text.push_str(&format!("  {from} → {}", e.to));
    }
    if let Some(attempt) = e.attempt {
        text.push_str(&format!("  attempt {attempt}"));
    }
    if let Some(token) = e.token {
        text.push_str(&format!("  token {token}"));
    }
    if !e.cause.is_empty() {
        text.push_str(&format!("  ({})", e.cause));
    }
    text.push_str(&format!("  by {}", e.actor));
    output::visible(&text) + "\n"
}

fn attempt_line(e: &Event) -> String {
    let field = |name: &str| match &e.data[name] {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let shard = e.id.rsplit('/').next().unwrap_or("?");
    let attempt = e
        .attempt
        .map_or_else(String::new, |a| format!(" attempt {a}"));
    let what = match e.kind.as_str() {
        "attempt_granted" => {
            let worker = field("worker")
                .or_else(|| field("session"))
                .unwrap_or_default();
            let token = output::or_dash(e.token);
            format!("started on {worker} with token {token}")
        }
        "checkpoint_saved" => {
            let (seq, done) = (field("seq"), field("done"));
            format!(
                "checkpoint {}, {} done",
                seq.unwrap_or_default(),
                done.unwrap_or_else(|| "0".to_owned())
            )
        }
        "attempt_ended" => {
            let end = field("end").unwrap_or_else(|| e.to.clone());
            let error = field("error").or_else(|| field("code"));
            let message = field("message").filter(|m| !m.is_empty());
            let why = [error, message].into_iter().flatten().collect::<Vec<_>>();
            let why = if why.is_empty() {
                e.cause.clone()
            } else {
                why.join(": ")
            };
            let why = if why.is_empty() {
                String::new()
            } else {
                format!(" ({why})")
            };
            format!("{end}{why}; the shard is {}", e.to)
        }
        "report_refused" => format!(
            "a report of {} with token {} was refused ({})",
            e.actor,
            output::or_dash(e.token),
            e.cause
        ),
        "shard_stopped" => format!("stopped while waiting ({})", e.cause),
        "shard_reopened" => "waits again, with a new budget".to_owned(),
        other => other.to_owned(),
    };
    output::visible(&format!("{}  shard {shard}{attempt}: {what}", e.at)) + "\n"
}
