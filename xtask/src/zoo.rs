//! The bug zoo: each known-bad variant must be caught by simulation within its budget of seeds.
//!
//! # Not here
//! Those of the schedule's rules: the differential test of `sichen-core` plants and finds them.
//! The variants: each stands where the rule stands that it leaves out (`sichen_core::zoo`,
//! `sichen_sdk::session::zoo`).

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;

/// A variant: its name, what it leaves out, and the seeds within which it must be caught.
struct Variant {
    name: &'static str,
    leaves_out: &'static str,
    seeds: u32,
    /// Rare, so that it is sought where a seed costs least: on two servers and with little work.
    rare: bool,
}

const fn variant(name: &'static str, leaves_out: &'static str, seeds: u32) -> Variant {
    Variant {
        name,
        leaves_out,
        seeds,
        rare: false,
    }
}

const fn rare(name: &'static str, leaves_out: &'static str, seeds: u32) -> Variant {
    Variant {
        rare: true,
        ..variant(name, leaves_out, seeds)
    }
}

/// Those of a quick look: variants that a few seeds find.
const QUICK: u32 = 20;

/// The budgets are a few times what each needed when it was written.
const ZOO: &[Variant] = &[
    variant("term-unchecked", "a duty's write checks its term", 200),
    variant("takeover-keeps-term", "a takeover raises the term", 20),
    variant("no-incarnation", "a new process is a new session", 60),
    variant(
        "session-ends-silently",
        "the end of a session is an event",
        20,
    ),
    variant("reap-keeps-token", "reaping raises the token", 20),
    variant("reap-early", "only an expired session is reaped", 60),
    variant("grant-keeps-token", "each grant raises the token", 20),
    variant("attempt-not-counted", "each grant is the next attempt", 20),
    variant(
        "retry-forgets-checkpoint",
        "an attempt starts from the newest checkpoint",
        20,
    ),
    variant(
        "stale-finish-accepted",
        "a finish needs the current token",
        40,
    ),
    variant(
        "finish-not-idempotent",
        "a repeated finish changes nothing",
        40,
    ),
    variant(
        "checkpoint-moves-back",
        "a checkpoint only moves forward",
        20,
    ),
    variant("decision-without-row", "a decision has its row", 20),
    variant("mark-before-runs", "mark and runs are one transaction", 20),
    variant("occasion-not-unique", "one run for an occasion", 20),
    variant(
        "cancel-leaks-active-run",
        "a cancelled run is not active",
        20,
    ),
    variant("run-counted-twice", "an open run counts once", 20),
    variant("stop-without-event", "each change has its event", 20),
    variant(
        "partial-is-success",
        "the outcome follows from the shards",
        20,
    ),
    variant("settles-early", "a run ends after its last shard", 20),
    variant(
        "retry-after-stop",
        "a stopped run's shards are not retried",
        20,
    ),
    variant("ack-before-commit", "an answer comes after its commit", 200),
    variant(
        "capacity-unchecked",
        "a grant takes what a capacity has left",
        100,
    ),
    variant(
        "rate-untaken",
        "a grant takes its tokens out of the bucket",
        100,
    ),
    variant(
        "hold-kept-at-end",
        "an attempt's end gives back what it held",
        100,
    ),
    variant(
        "hold-ends-at-once",
        "what a lost attempt held counts until it is surely dead",
        100,
    ),
    variant("namespace-unchecked", "a namespace's limit holds", 100),
    variant(
        "lost-grant-stays-lost",
        "a grant that was lost is sent again",
        40,
    ),
    variant(
        "no-self-fencing",
        "a worker stops before its session ends",
        100,
    ),
    variant("grant-taken-again", "a lease is started once", 400),
];

/// Rules whose variants a few thousand seeds do not find, so that the zoo says nothing of them. Sought
/// only by name.
const UNSHOWN: &[Variant] = &[
    rare(
        "hellos-unordered",
        "an overtaken Hello ends no later session",
        2_500,
    ),
    rare(
        "grants-follow-hello",
        "grants go to the stream that beats, not to the last Hello",
        2_500,
    ),
];

/// As many as there must be in all, and in a quick look: the zoo fails before it shrinks.
const LEAST: usize = 25;
const LEAST_QUICK: usize = 12;
const _: () = assert!(ZOO.len() >= LEAST, "variants were taken out of the zoo");

/// Which variants to run.
#[derive(Debug, Default, clap::Args)]
pub struct Options {
    /// Only this variant
    #[arg(long)]
    only: Option<String>,
    /// Only those that a few seeds find
    #[arg(long, conflicts_with = "only")]
    quick: bool,
}

/// Builds the simulator with the variants in it and runs each.
///
/// # Errors
/// When it can't be built, when the simulator without a variant finds fault, or when a variant is
/// not caught.
pub fn run(options: &Options) -> Result<()> {
    let wanted = |v: &Variant| match &options.only {
        Some(only) => v.name == only,
        None => !options.quick || v.seeds <= QUICK,
    };
    let named = UNSHOWN.iter().filter(|_| options.only.is_some());
    let wanted: Vec<&Variant> = ZOO.iter().chain(named).filter(|v| wanted(v)).collect();
    if wanted.is_empty() {
        let only = options.only.as_deref().unwrap_or_default();
        bail!("there is no variant {only:?}");
    }
    let n = wanted.len();
    ensure!(
        !options.quick || n >= LEAST_QUICK,
        "a quick look has {n} variants, and must have {LEAST_QUICK}"
    );
    let escaped = simulation(&wanted)?;
    if !escaped.is_empty() {
        bail!("not caught within their budgets: {}", escaped.join(", "));
    }
    println!("zoo: {n} of {n} variants caught ({} in all)", ZOO.len());
    for v in UNSHOWN.iter().filter(|_| options.only.is_none()) {
        println!("not shown {:22} {}", v.name, v.leaves_out);
    }
    Ok(())
}

/// The variants that simulation does not find.
fn simulation(wanted: &[&Variant]) -> Result<Vec<&'static str>> {
    let root = workspace::root();
    let mut build = Command::new(workspace::cargo());
    build
        .current_dir(&root)
        .args(["build", "--locked", "--profile", "sim", "-p", "sichen-sim"]);
    build.args(["--features", "zoo", "--bin", "sichen-sim"]);
    if !build.status().context("starting cargo")?.success() {
        bail!("the simulator could not be built");
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let binary = target.join("sim").join("sichen-sim");
    let play = |seeds: u32, zoo: Option<&Variant>| -> Result<(bool, String)> {
        let mut command = Command::new(&binary);
        command.current_dir(&root).env("RUST_BACKTRACE", "0");
        command.args(["--seeds", &format!("1..{seeds}")]);
        if zoo.is_some_and(|v| v.rare) {
            command.arg("--two-servers");
        }
        command.args(zoo.into_iter().flat_map(|v| ["--zoo", v.name]));
        let output = command
            .output()
            .with_context(|| format!("starting {}", binary.display()))?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Ok((output.status.success(), text))
    };
    let (ok, text) = play(20, None)?;
    if !ok {
        bail!("without a variant the simulator finds fault:\n{text}");
    }
    let mut escaped = Vec::new();
    for v in wanted {
        let (survived, text) = play(v.seeds, Some(v))?;
        if !survived && !text.lines().any(|l| l.starts_with("seed ")) {
            bail!("{} ended and named no seed:\n{text}", v.name);
        }
        if survived {
            println!("ESCAPED {:24} {} ({} seeds)", v.name, v.leaves_out, v.seeds);
            escaped.push(v.name);
        } else {
            println!("caught  {:24} {}: {}", v.name, v.leaves_out, by_what(&text));
        }
    }
    Ok(escaped)
}

/// The seed and the first promise it names.
fn by_what(text: &str) -> String {
    let line = |pick: fn(&&str) -> bool| text.lines().find(pick).unwrap_or("").trim();
    let seed = line(|l| l.starts_with("seed "))
        .split(" after")
        .next()
        .unwrap_or("");
    let promise = line(|l| {
        let l = l.trim();
        (l.starts_with('I') && l[1..].starts_with(|c: char| c.is_ascii_digit()))
            || l.contains("second time")
            || l.contains("panicked")
            || l.starts_with("item ")
            || l.starts_with("event ")
    });
    let end = promise.floor_char_boundary(100);
    format!("{seed}, {}", &promise[..end])
}
