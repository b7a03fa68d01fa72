//! The demo: a real settlement on real processes, with one worker killed and one frozen.
//!
//! # Invariants
//! - The demo is a user of the product: it starts the same binary, applies a document that a user
//!   would write, and judges by the business data alone.
//! - It succeeds only if everything that it claims was seen to hold.
//!
//! # Code map
//! - business: `ledger`, `csv_input`, `settle`, `verify`, in either database (`database`, `fence`,
//!   `schemas`); the worker's program: `worker`
//! - staging: `crew` (processes), `director`, `chaos`, `screen`; outcome: `facts`, `report`
//!
//! # Not here
//! Anything that the product itself needs.

mod chaos;
mod crew;
pub mod csv_input;
mod database;
mod director;
mod facts;
mod fence;
pub mod ledger;
mod protocol;
mod report;
mod schemas;
mod screen;
pub mod settle;
#[cfg(test)]
mod tests;
pub mod verify;
pub mod worker;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use sichen_check::{Options, Sight, check_dump};
use sichen_server::rest::wire;

use crate::client::{self, Client};
use crate::clock;
use crate::store_at::StoreAt;
use chaos::{Chaos, Scene};
use crew::{Crew, Hire};
use csv_input::{Loaded, OnBadRow};
use database::{At, Database};
use director::{Director, Order, Stopwatch};
use report::{Found, History, Report};
use schemas::Schemas;
use screen::Screen;
use settle::Zoo;

/// The job, as a user would write it.
const DOCUMENT: &str = include_str!("../../../../examples/daily-settlement.yaml");
/// The example's zone, in which its planned instants are midnights.
const ZONE: &str = "Asia/Shanghai";
/// Fewer entries leave no time to do damage.
const FEWEST_FOR_CHAOS: u64 = 2_000;
/// How long the damaged run should take, so that it can be watched.
const SHOW_MS: u64 = 6_000;

/// See a settlement survive a killed and a frozen worker, and prove its totals.
///
/// Starts a server and three workers as processes of their own, settles a ledger in 12 shards,
/// kills one worker and freezes another in the middle of a batch, and verifies the totals against
/// the input alone. Needs nothing but this program, or a PostgreSQL database with `--store`. Exit
/// code 0 only if everything holds.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Entries of the generated ledger.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 200_000,
        conflicts_with = "input"
    )]
    pub entries: u64,
    /// Settle your own ledger: CSV with the columns id,account,amount_minor,occurred_at.
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// What to do with a row of --input that can't be loaded.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub on_bad_row: OnBadRow,
    /// Play it in this PostgreSQL database, server and business alike, in schemas of its own
    /// (sichen_demo, sichen_demo_store) that are dropped at the end: postgres://USER@HOST/DATABASE.
    #[arg(long, value_name = "URL", value_parser = postgres_url)]
    pub store: Option<StoreAt>,
    /// Leave the workers alone.
    #[arg(long)]
    pub no_chaos: bool,
    /// Other damage than the usual.
    #[arg(
        long,
        hide = true,
        value_enum,
        default_value_t,
        conflicts_with = "no_chaos"
    )]
    pub scene: Scene,
    /// Keep all files here: the ledger, the server's data, logs, what each worker did; with
    /// `--store` the schemas too.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
    /// Make a deliberate mistake, which the verification must find.
    #[arg(long, value_name = "MISTAKE", value_enum)]
    pub zoo: Option<Zoo>,
}

impl Args {
    fn scene(&self) -> Scene {
        if self.no_chaos {
            Scene::Gentle
        } else {
            self.scene
        }
    }
}

fn postgres_url(text: &str) -> Result<StoreAt, String> {
    match text.parse()? {
        StoreAt::Postgres(url) => Ok(StoreAt::Postgres(url)),
        StoreAt::Directory(_) => Err(
            "the demo plays on SQLite by itself, in the directory of --keep; --store names a \
             PostgreSQL database, postgres://USER@HOST/DATABASE"
                .to_owned(),
        ),
    }
}

/// Runs the demo. An error is a demo that could not be brought to its end.
pub async fn run(args: &Args) -> anyhow::Result<Report> {
    let home = Home::open(args.keep.as_deref())?;
    let screen = Screen::new(args.json);
    let Some(StoreAt::Postgres(url)) = &args.store else {
        let place = Place {
            business: At::File(home.path().join("business.db")),
            store: None,
        };
        return play(args, &home, screen, &place).await;
    };
    let schemas = Schemas::make(url, &screen).await?;
    let place = Place {
        business: At::Postgres(url.clone()),
        store: Some(schemas.store()),
    };
    let mut played = play(args, &home, screen, &place).await;
    if args.keep.is_none() {
        let removed = schemas.remove().await;
        // What stopped the demo matters more than what it left.
        return played.and_then(|report| removed.map(|()| report));
    }
    schemas.keep().await?;
    if let Ok(report) = &mut played {
        report.kept_schemas = Some(schemas.shown());
    }
    played
}

/// Where the demo plays.
struct Place {
    business: At,
    /// The server's store, if it is not in the server's own directory.
    store: Option<String>,
}

async fn play(args: &Args, home: &Home, screen: Screen, place: &Place) -> anyhow::Result<Report> {
    let took = Stopwatch::start();
    let scene = args.scene();
    let ledger = Database::open(&place.business)?;
    ledger::create(&ledger)?;
    let input = fill(args, &ledger, &screen)?;
    let (entries, _) = ledger::extent(&ledger)?;
    anyhow::ensure!(
        args.no_chaos || entries >= FEWEST_FOR_CHAOS,
        "{entries} entries are settled before any damage can be done: use at least \
         {FEWEST_FOR_CHAOS}, or --no-chaos"
    );
    let facts = tokio::select! {
        staged = stage(args, home.path(), place, entries, screen) => staged?,
        // Dropping the stage kills its processes.
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
    };
    let store = match &place.store {
        Some(url) => StoreAt::Postgres(url.clone()),
        None => StoreAt::Directory(home.path().join("server")),
    };
    let history = judge_history(&store, scene).await?;
    let business = verify::verify(&ledger)?;
    let late_marks = facts
        .late_entries
        .iter()
        .map(|id| Ok((*id, ledger::mark(&ledger, *id)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let checks = report::checks(&Found {
        facts: &facts,
        business: &business,
        history: &history,
        late_marks: &late_marks,
        scene,
    });
    Ok(Report {
        ok: business.ok() && checks.iter().all(|check| check.ok),
        zoo: args.zoo.map(report::zoo_name),
        checks,
        facts,
        business,
        history,
        input,
        took_ms: took.milliseconds(),
        kept: args.keep.clone(),
        kept_schemas: None,
    })
}

/// The play itself: two runs on real processes. Everything has ended when it returns.
async fn stage(
    args: &Args,
    home: &Path,
    place: &Place,
    entries: u64,
    screen: Screen,
) -> anyhow::Result<facts::Facts> {
    let mut crew = Crew::start_server(home, place.store.as_deref()).await?;
    let client = Client::new(&client::Connection {
        server: crew.address.clone(),
        token_file: Some(crew.server_data().join(sichen_server::auth::TOKEN_FILE)),
        ca_file: None,
        tls_cert: None,
        tls_key: None,
    })
    .map_err(|failure| anyhow!("{}", failure.text))?;
    let hire = Hire {
        ledger: place.business.clone(),
        zoo: args.zoo,
    };
    let told = crew.start_workers(&hire)?;
    let crewmen = crew
        .workers
        .iter()
        .map(|one| format!("{} (pid {})", one.name, one.pid));
    screen.event(&format!(
        "server {} and {}",
        crew.address,
        crewmen.collect::<Vec<_>>().join(", ")
    ));
    let connection = Database::open(&place.business)?;
    let mut director = Director::new(crew, told, client, connection, screen);
    director.apply(DOCUMENT).await?;
    let [first, second] = orders(entries, args.scene() == Scene::Gentle)?;
    let mut chaos = Some(Chaos::new(args.scene()));
    director.see_through(&first, &mut chaos).await?;
    if let Some(mut chaos) = chaos {
        chaos.finish(&mut director)?;
    }
    director.see_through(&second, &mut None).await?;
    let facts = std::mem::take(&mut director.facts);
    director.crew.dismiss().await?;
    Ok(facts)
}

/// The runs of the last two midnights.
fn orders(entries: u64, gentle: bool) -> anyhow::Result<[Order; 2]> {
    let today = clock::now().in_tz(ZONE)?.start_of_day()?;
    let yesterday = today.yesterday()?;
    let before = yesterday.yesterday()?;
    let text =
        |midnight: &jiff::ZonedDateTime| midnight.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    let batch = if gentle {
        settle::BATCH
    } else {
        batch_for(entries)
    };
    let batches = (entries / u64::from(batch)).max(1);
    // Two shards at once on each worker.
    let pace = (SHOW_MS * 2 * crew::WORKERS as u64 / batches).min(250);
    let length = Duration::from_secs(90 + entries / 2_000);
    Ok([
        Order {
            title: "settling",
            planned_at: text(&yesterday),
            period: wire::Period {
                start: text(&before),
                end: text(&yesterday),
            },
            batch,
            pace_ms: if gentle { 0 } else { pace },
            limit: length,
        },
        Order {
            title: "the next run",
            planned_at: text(&today),
            period: wire::Period {
                start: text(&yesterday),
                end: text(&today),
            },
            batch: settle::BATCH,
            pace_ms: 0,
            limit: length,
        },
    ])
}

/// About 400 batches in all, however small the ledger.
fn batch_for(entries: u64) -> u32 {
    u32::try_from(entries / 400)
        .unwrap_or(settle::BATCH)
        .clamp(1, settle::BATCH)
}

/// Fills the ledger with what was asked for.
fn fill(args: &Args, ledger: &Database, screen: &Screen) -> anyhow::Result<Option<Loaded>> {
    let mut shown = 0;
    let mut progress = |entries: u64| {
        if entries / 1_000_000 > shown {
            shown = entries / 1_000_000;
            screen.event(&format!("{entries} entries loaded"));
        }
    };
    let Some(path) = &args.input else {
        ledger::generate(ledger, args.entries, &mut progress)?;
        screen.event(&format!(
            "generated {} entries over {} accounts",
            args.entries,
            ledger::ACCOUNTS
        ));
        return Ok(None);
    };
    let file = std::fs::File::open(path)
        .with_context(|| format!("SC7005: can't open {}, given by --input", path.display()))?;
    let loaded = csv_input::load(ledger, file, args.on_bad_row, &mut progress)
        .with_context(|| path.display().to_string())?;
    screen.event(&format!(
        "loaded {} entries from {}, {} bad rows skipped",
        loaded.entries,
        path.display(),
        loaded.skipped
    ));
    Ok(Some(loaded))
}

/// Gives the stopped server's whole history to the checker.
async fn judge_history(store: &StoreAt, scene: Scene) -> anyhow::Result<History> {
    let dump = store.dump().await;
    let dump = dump.map_err(|failure| anyhow!("{}", failure.text))?;
    let damage = u64::from(scene != Scene::Gentle);
    let options = Options {
        seq_is_commit_order: store.seq_is_commit_order(),
        seq_is_lock_order: true,
        quiescent: true,
        minimums: vec![
            (Sight::RunSettled, 2),
            (Sight::Granted, 2),
            (Sight::Takeover, damage),
            (Sight::Lost, damage),
        ],
        ..Options::default()
    };
    Ok(History::of(&check_dump(&dump, options, &[])))
}

/// Where the demo's files are: kept where the user says, or gone at the end.
enum Home {
    Kept(PathBuf),
    Passing(tempfile::TempDir),
}

impl Home {
    fn open(keep: Option<&Path>) -> anyhow::Result<Home> {
        let Some(dir) = keep else {
            let dir = tempfile::Builder::new().prefix("sichen-demo-").tempdir()?;
            return Ok(Home::Passing(dir));
        };
        let shown = dir.display();
        std::fs::create_dir_all(dir).with_context(|| format!("can't make {shown}"))?;
        let mut files = std::fs::read_dir(dir).with_context(|| format!("can't read {shown}"))?;
        anyhow::ensure!(
            files.next().is_none(),
            "{shown} is not empty: --keep wants a new place"
        );
        Ok(Home::Kept(dir.to_owned()))
    }

    fn path(&self) -> &Path {
        match self {
            Home::Kept(dir) => dir,
            Home::Passing(dir) => dir.path(),
        }
    }
}
