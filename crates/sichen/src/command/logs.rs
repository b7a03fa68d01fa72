//! `sichen logs`: what the processes of attempts wrote.
//!
//! # Invariants
//! - What a process wrote comes out as it went in: its stdout on ours, its stderr on ours, any
//!   bytes. Remarks go to the error output and begin with `sichen:`.
//! - Where it can't be read any more that is said, with what the store has.
//!
//! # Not here
//! Keeping and reading it (the worker), the life of a run (`sichen trace`).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use reqwest::header::HeaderMap;
use sichen_server::rest::wire::{Attempt, Attempts, Run, Shard, ShardPage};

use super::shards::{self, why};
use super::waiting::{Absence, is_closed};
use super::which;
use crate::client::{Client, Connection, Query};
use crate::failure::{Exit, Failure};
use crate::output;

/// How often `--follow` looks for news.
const LOOK: Duration = Duration::from_millis(700);
/// Bytes of one question.
const CHUNK: u64 = 64 * 1024;
/// The most that `--tail` looks at from the end.
const MAX_TAIL_BYTES: u64 = 1024 * 1024;
/// The most shards whose output is shown at once.
const MAX_LOG_SHARDS: usize = 50;

/// Show what the processes of a run's shards wrote, from the workers that keep it.
///
/// Handlers in a worker program of your own log where that program logs.
#[derive(Debug, Args)]
pub struct Logs {
    /// The run, by number, key or trace id; or a job, for its newest run.
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Only this shard; -1 is the plan step.
    #[arg(value_name = "SHARD", allow_negative_numbers = true)]
    shard: Option<i32>,
    /// This attempt [default: the last one of each shard].
    #[arg(long, value_name = "N", requires = "shard")]
    attempt: Option<u32>,
    /// Only the last so many lines of each output.
    #[arg(long, value_name = "N")]
    tail: Option<usize>,
    /// Which of the two.
    #[arg(long, value_enum, default_value_t)]
    stream: Which,
    /// Go on with what is written from now on, until the run has ended or Ctrl-C.
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Which {
    #[default]
    All,
    Stdout,
    Stderr,
}

impl Which {
    fn names(self) -> &'static [&'static str] {
        match self {
            Which::All => &["stdout", "stderr"],
            Which::Stdout => &["stdout"],
            Which::Stderr => &["stderr"],
        }
    }
}

/// Where the reading of one output stands.
#[derive(Debug, Default)]
struct Place {
    offset: u64,
    ended: bool,
    /// The last byte shown was no line's end.
    mid_line: bool,
}

/// Carries out `sichen logs`.
pub async fn show(args: Logs) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let named = which::run(&client, &args.run).await?;
    let run: Run = client.get(&["runs", &named], Query::new()).await?;
    let mut reader = Reader {
        client,
        run: run.id.to_string(),
        handler: run.handler.clone(),
        args,
        several: false,
        places: BTreeMap::new(),
        told: BTreeMap::new(),
        silent: BTreeMap::new(),
        earlier: BTreeMap::new(),
        missed: BTreeSet::new(),
        cut: None,
    };
    let mut closed = is_closed(&run);
    let mut absence = Absence::new();
    loop {
        match reader.look().await {
            Ok(open) if !reader.args.follow || (closed && !open) => {
                reader.say_of_silent();
                reader.say_where_else();
                reader.say_of_earlier();
                return Ok(reader.exit());
            }
            Ok(_) => absence.over(),
            Err(failure) if reader.args.follow => absence.bear(failure)?,
            Err(failure) => return Err(failure),
        }
        // Asked after the look, so that what was written before the end is looked for once more.
        tokio::time::sleep(LOOK).await;
        let path = ["runs", reader.run.as_str()];
        match reader.client.get::<Run>(&path, Query::new()).await {
            Ok(run) => closed = is_closed(&run),
            Err(failure) => absence.bear(failure)?,
        }
    }
}

struct Reader {
    client: Client,
    run: String,
    handler: String,
    args: Logs,
    /// More than one shard is shown: each line says whose it is.
    several: bool,
    places: BTreeMap<(i32, u32, &'static str), Place>,
    /// Attempts of which it was said that there is nothing, and how that ends the command: what
    /// ran no process is no failure.
    told: BTreeMap<(i32, u32), Option<Exit>>,
    /// Shards whose attempt has no output, by what the store has of it; said at the end, together.
    silent: BTreeMap<String, Vec<i32>>,
    /// Shards that had earlier attempts, and the number of the one shown.
    earlier: BTreeMap<i32, u32>,
    /// Running attempts of which it was said that their worker can't be asked just now.
    missed: BTreeSet<(i32, u32)>,
    /// How the command ends since the rest of something that was begun could not be had.
    cut: Option<Exit>,
}

impl Reader {
    /// Shows what is new; whether more may come from an attempt that has ended.
    async fn look(&mut self) -> Result<bool, Failure> {
        let mut open = false;
        for shard in self.shards().await? {
            let number = match self.args.attempt {
                Some(number) => number,
                None => shard.attempt,
            };
            if number == 0 {
                continue;
            }
            if self.args.attempt.is_none() && number > 1 {
                self.earlier.insert(shard.no, number);
            }
            for stream in self.args.stream.names() {
                open |= self.read(&shard, number, stream).await?;
            }
        }
        Ok(open)
    }

    /// 0 if something was there to show, or nobody said that it was not; not if it was shown in part.
    fn exit(&self) -> ExitCode {
        let missing = self.told.values().flatten().next();
        if let Some(exit) = self.cut {
            return exit.into();
        }
        match missing {
            Some(exit) if self.places.is_empty() => (*exit).into(),
            Some(_) | None => ExitCode::SUCCESS,
        }
    }

    /// Which attempts have no output, those of one end in one line.
    fn say_of_silent(&self) {
        for (end, shards) in &self.silent {
            output::remark(&format!(
                "sichen: {} wrote no output that is kept (SC5031); {end}",
                named(shards)
            ));
        }
    }

    /// That what was shown is not all that there was.
    fn say_of_earlier(&self) {
        let Some((no, shown)) = self.earlier.first_key_value() else {
            return;
        };
        let shards: Vec<i32> = self.earlier.keys().copied().collect();
        let had = named(&shards);
        output::remark(&format!(
            "sichen: {had} had earlier attempts; `sichen logs {} {no} --attempt {}` shows what one wrote",
            self.run,
            shown - 1
        ));
    }

    /// Where to look if not one attempt has output.
    fn say_where_else(&self) {
        let Self { run, handler, .. } = self;
        if self.places.is_empty() && self.told.values().any(Option::is_none) {
            output::remark(&format!(
                "sichen: output is kept of processes alone; the handler {handler} runs in a worker \
                 program and logs where that one does (`sichen trace {run}` shows what happened)"
            ));
        } else if self.places.is_empty() && self.told.is_empty() {
            output::remark(&format!(
                "sichen: run {run} has no attempt yet; `sichen explain {run}` says why"
            ));
        }
    }

    async fn shards(&mut self) -> Result<Vec<Shard>, Failure> {
        let mut items = match self.args.shard {
            Some(no) => vec![shards::one(&self.client, &self.run, no).await?],
            None => {
                let path = ["runs", self.run.as_str(), "shards"];
                let query = vec![("limit", (MAX_LOG_SHARDS + 1).to_string())];
                self.client.get::<ShardPage>(&path, query).await?.items
            }
        };
        if items.len() > MAX_LOG_SHARDS {
            items.truncate(MAX_LOG_SHARDS);
            if self
                .told
                .insert((i32::MIN, 0), Some(Exit::Failed))
                .is_none()
            {
                output::remark(&format!(
                    "sichen: only the first {MAX_LOG_SHARDS} shards are shown; name one: sichen \
                     logs {} SHARD",
                    self.run
                ));
            }
        }
        self.several = items.len() > 1;
        Ok(items)
    }

    /// Shows the news of one output. Whether it is still open.
    async fn read(
        &mut self,
        shard: &Shard,
        attempt: u32,
        stream: &'static str,
    ) -> Result<bool, Failure> {
        if self.told.contains_key(&(shard.no, attempt)) {
            return Ok(false);
        }
        let key = (shard.no, attempt, stream);
        let known = self.places.remove(&key);
        let mut begun = known.is_some();
        let mut place = match known {
            Some(place) => place,
            None => match self.begin(shard, attempt, stream).await? {
                Some(place) => place,
                None => return Ok(false),
            },
        };
        while !place.ended {
            let asked = self
                .ask(shard.no, attempt, stream, place.offset, CHUNK)
                .await;
            let (headers, bytes) = match asked {
                Ok(answer) => answer,
                Err(failure) => {
                    let explained = self.explain(shard, attempt, &failure).await;
                    if explained.is_err() {
                        // Who asks again goes on where it was.
                        self.places.insert(key, place);
                        return explained.map(|()| true);
                    }
                    // Not while its worker is waited for: then the rest comes yet.
                    if begun && self.told.contains_key(&(shard.no, attempt)) {
                        self.cut.get_or_insert(failure.exit);
                    }
                    break;
                }
            };
            let skipped = number(&headers, "sichen-skipped");
            if skipped > 0 {
                output::remark(&format!(
                    "sichen: {} of {stream} were not kept here",
                    output::count(skipped, "byte")
                ));
            }
            place.offset = number(&headers, "sichen-next");
            if bytes.is_empty() {
                place.ended = headers.get("sichen-ended").is_some_and(|v| v == "true");
                break;
            }
            begun = true;
            if self.write(shard.no, stream, &bytes, &mut place)? {
                place.ended = true;
            }
        }
        if place.ended && place.mid_line {
            // What another one writes begins a line of its own.
            self.put(stream, b"\n")?;
            place.mid_line = false;
        }
        let open = !place.ended;
        self.places.insert(key, place);
        Ok(open)
    }

    /// Where to begin: at the beginning, or so many lines before the end.
    async fn begin(
        &mut self,
        shard: &Shard,
        attempt: u32,
        stream: &'static str,
    ) -> Result<Option<Place>, Failure> {
        let asked = self.ask(shard.no, attempt, stream, 0, 0).await;
        let end = match asked {
            Ok((headers, _)) => number(&headers, "sichen-end"),
            Err(failure) => {
                self.explain(shard, attempt, &failure).await?;
                return Ok(None);
            }
        };
        if attempt > 1 && self.args.follow && stream == self.args.stream.names()[0] {
            let no = shards::number(shard.no);
            output::remark(&format!("sichen: shard {no}, attempt {attempt}"));
        }
        let Some(lines) = self.args.tail else {
            return Ok(Some(Place::default()));
        };
        let (mut offset, mut seen) = (end, 0);
        let floor = end.saturating_sub(MAX_TAIL_BYTES);
        while offset > floor {
            let start = offset.saturating_sub(CHUNK).max(floor);
            let length = offset - start;
            let (headers, bytes) = self.ask(shard.no, attempt, stream, start, length).await?;
            let first = number(&headers, "sichen-offset");
            for (i, byte) in bytes.iter().enumerate().rev() {
                let at = first + i as u64;
                // The end of the last line begins no other one.
                if *byte == b'\n' && at + 1 < end {
                    seen += 1;
                    if seen == lines {
                        return Ok(Some(Place {
                            offset: at + 1,
                            ..Place::default()
                        }));
                    }
                }
            }
            // What was not kept is not looked for.
            offset = if first > start { floor } else { start };
        }
        let offset = if lines == 0 { end } else { offset };
        Ok(Some(Place {
            offset,
            ..Place::default()
        }))
    }

    async fn ask(
        &self,
        no: i32,
        attempt: u32,
        stream: &str,
        offset: u64,
        limit: u64,
    ) -> Result<(HeaderMap, Vec<u8>), Failure> {
        let (no, attempt) = (no.to_string(), attempt.to_string());
        let path = [
            "runs",
            self.run.as_str(),
            "shards",
            &no,
            "attempts",
            &attempt,
            "output",
        ];
        let query = vec![
            ("stream", stream.to_owned()),
            ("offset", offset.to_string()),
            ("limit", limit.to_string()),
        ];
        self.client.get_bytes(&path, query).await
    }

    /// Says why there is no output, and what the store has of the attempt.
    async fn explain(
        &mut self,
        shard: &Shard,
        attempt: u32,
        failure: &Failure,
    ) -> Result<(), Failure> {
        let known = ["SC5030", "SC5031", "SC5033"];
        if !known.iter().any(|code| failure.text.starts_with(code)) {
            return Err(Failure::new(failure.exit, failure.text.clone()));
        }
        let running = shard.state == "running" && shard.attempt == attempt;
        if self.args.follow && running && !failure.text.starts_with("SC5033") {
            // Its process may not be there yet, or its worker not back at a server that was restarted.
            if failure.text.starts_with("SC5030") && self.missed.insert((shard.no, attempt)) {
                output::remark(&format!("sichen: {}; waiting for it", failure.line()));
            }
            return Ok(());
        }
        let none = failure.text.starts_with("SC5031");
        let exit = (!none).then_some(failure.exit);
        self.told.insert((shard.no, attempt), exit);
        let no = shard.no.to_string();
        let path = ["runs", self.run.as_str(), "shards", &no, "attempts"];
        let attempts: Attempts = self.client.get(&path, Query::new()).await?;
        let found = attempts.items.iter().find(|a| a.number == attempt);
        if none {
            let end = found.map_or_else(|| "the store has nothing of it".to_owned(), ended);
            self.silent.entry(end).or_default().push(shard.no);
            return Ok(());
        }
        let text = format!(
            "sichen: shard {}: {}{}",
            shards::number(shard.no),
            failure.text,
            found.map_or_else(String::new, |found| format!("\n{}", ended(found)))
        );
        for line in text.lines() {
            output::remark(line);
        }
        Ok(())
    }

    /// Writes a chunk; whether its reader is gone.
    fn write(
        &self,
        no: i32,
        stream: &str,
        bytes: &[u8],
        place: &mut Place,
    ) -> Result<bool, Failure> {
        let mut out = Vec::with_capacity(bytes.len());
        if self.several {
            for line in bytes.split_inclusive(|b| *b == b'\n') {
                if !place.mid_line {
                    out.extend_from_slice(format!("{}| ", shards::number(no)).as_bytes());
                }
                out.extend_from_slice(line);
                place.mid_line = line.last() != Some(&b'\n');
            }
        } else {
            out.extend_from_slice(bytes);
        }
        self.put(stream, &out)
    }

    /// Writes bytes where they belong; whether the reader is gone.
    fn put(&self, stream: &str, out: &[u8]) -> Result<bool, Failure> {
        let written = if stream == "stderr" {
            let mut to = io::stderr().lock();
            to.write_all(out).and_then(|()| to.flush())
        } else {
            let mut to = io::stdout().lock();
            to.write_all(out).and_then(|()| to.flush())
        };
        match written {
            Ok(()) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// What the store has of an attempt.
fn ended(attempt: &Attempt) -> String {
    let end = attempt.end.as_deref().unwrap_or("is running");
    let mut text = format!("the store has of it: {end}");
    if let Some(f) = &attempt.failure {
        text.push_str(&format!(", {}", why(&f.code, &f.message)));
    }
    text
}

/// The most shards that are named one by one.
const MAX_NAMED: usize = 8;

/// `shard 3`, `shards 0, 1, 4`, `50 shards`.
fn named(shards: &[i32]) -> String {
    let numbers: Vec<String> = shards.iter().map(|no| shards::number(*no)).collect();
    match numbers.as_slice() {
        [one] => format!("shard {one}"),
        some if some.len() <= MAX_NAMED => format!("shards {}", some.join(", ")),
        many => format!("{} shards", many.len()),
    }
}

fn number(headers: &HeaderMap, name: &str) -> u64 {
    let value = headers.get(name).and_then(|v| v.to_str().ok());
    value.and_then(|v| v.parse().ok()).unwrap_or(0)
}
