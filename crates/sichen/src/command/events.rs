//! `sichen events`: what happened, from the event log.
//!
//! # Invariants
//! - Following outlasts a server that is restarted, and leaves nothing out.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use sichen_server::rest::wire::{Event, EventPage, Run};

use super::waiting::{Absence, is_closed};
use super::which;
use crate::client::{Client, Connection};
use crate::failure::{Exit, Failure};
use crate::output::{self, Form};

/// How often `--follow` looks for news.
const LOOK: Duration = Duration::from_millis(500);

/// Show the events of a run and its shards, or all events, oldest first.
#[derive(Debug, Args)]
pub struct Events {
    /// The run, by number, key or trace id, or a job for its newest run; all events if left out.
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
    reader.read(event_line).await
}

/// The number of a run: following it needs no key any more.
async fn resolve(client: &Client, run: Option<&str>) -> Result<Option<String>, Failure> {
    let Some(run) = run else { return Ok(None) };
    let named = which::run(client, run).await?;
    let run: Run = client.get(&["runs", &named], Vec::new()).await?;
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
    async fn read(mut self, line: impl Fn(&Event) -> String) -> Result<ExitCode, Failure> {
        // Asked before the last look, so that nothing between the two is missed.
        let mut ended = !self.follow;
        let mut absence = Absence::new();
        loop {
            let page = match self.page().await {
                Ok(page) => page,
                Err(failure) if self.follow => {
                    absence.bear(failure)?;
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            absence.over();
            let full = page.items.len() == 1_000;
            for event in &page.items {
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
            match self.run_has_ended().await {
                Ok(has) => ended = has,
                Err(failure) => absence.bear(failure)?,
            }
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
