//! Store calls at once on a real PostgreSQL, their statements in an order that a seed chooses, with
//! deadlocks, serialization failures and lost connections forced among them.
//!
//! Afterwards the answers and rows must be those of some serial order of the same calls on the memory
//! store (a call that answered with an error may have happened or not), and the checker must accept
//! the history.
//!
//! A failing seed is played again with
//! `SICHEN_SEED=N cargo nextest run -p sichen-store --features postgres one_interleaving --run-ignored all`.
//!
//! # Not here
//! The store's claims one call at a time (`conformance`).

mod calls;
mod proxy;
mod schedule;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sichen_check::{Checker, Options as Checking, Outcome};
use sichen_core::model::Dump;
use sichen_core::port::{Error, Store};
use sichen_store::clock::ManualClock;
use sichen_store::memory::MemoryStore;
use sichen_store::postgres::{Options, PostgresStore};

use super::Server;
use super::server::runtime;
use crate::bench::{Bench, at, wait};
use crate::fold;
use calls::{CLAIM_AND_LEASE, Call, calls, summary};
use proxy::Gate;
use schedule::{Dice, Faults, Played};

/// Seeds of one test run.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=300;
const _: () = assert!(*SEEDS.end() >= 300, "fewer seeds than are promised");
/// Seeds within which a planted bug must be found.
const BUDGET: std::ops::RangeInclusive<u64> = 1..=60;
/// Calls made at once, at most.
const LANES: usize = 4;
/// Operations of calls that are made at once; those of the setting are below.
const FIRST_OP: u128 = 1_000_000;
/// Longer than a schedule takes on any machine: nothing is to end by the clock.
const LONG: Duration = Duration::from_secs(100);

/// A guard that is left out: the statement's name, and what is taken from it.
type Planted = (&'static str, &'static str);

/// A server with a gate before it.
struct Ground {
    server: Server,
    gate: Arc<Gate>,
    /// Where each lane connects.
    ports: Vec<u16>,
    schema: String,
    empty: String,
    observer: tokio_postgres::Client,
}

impl Ground {
    fn new(pause: Duration) -> Option<Self> {
        let server = Server::start()?;
        server.execute("public", "alter system set deadlock_timeout = '20ms'");
        server.execute("public", "select pg_reload_conf()");
        let schema = server.new_schema();
        drop(server.open(&schema, None));
        server.execute(&schema, "create table meta_at_first as table meta");
        let gate = Arc::new(Gate::default());
        let ports = (0..LANES).map(|lane| proxy::start(&server.socket(), &gate, lane, pause));
        let ports = ports.collect();
        let observer = server.connect(&schema);
        let tables = format!(
            "select string_agg(format('delete from %I', tablename), '; ') from pg_tables \
             where schemaname = '{schema}' and tablename not in ('migration', 'meta_at_first')"
        );
        let row = runtime()
            .block_on(observer.query_one(&tables, &[]))
            .unwrap();
        let empty = format!(
            "set session_replication_role = replica; {}; alter sequence entity_id restart; \
             insert into meta select * from meta_at_first",
            row.get::<_, String>(0)
        );
        Some(Self {
            server,
            gate,
            ports,
            schema,
            empty,
            observer,
        })
    }

    /// A store at `host`, with nothing in its memory of what was before.
    async fn store(&self, host: String, clock: &Arc<ManualClock>) -> Arc<dyn Store> {
        let url = format!(
            "{host} user=postgres dbname=postgres sslmode=disable \
             options='-c search_path={}'",
            self.schema
        );
        let options = Options {
            clock: Some(Arc::clone(clock) as _),
            unsafe_durability: true,
            connections: 2,
            lock_timeout: LONG,
            statement_timeout: LONG,
            idle_timeout: LONG,
            call_timeout: LONG,
            ..Options::default()
        };
        let opened = PostgresStore::open(&url, options).await;
        Arc::new(opened.expect("it opens"))
    }

    async fn lane(&self, lane: usize, clock: &Arc<ManualClock>) -> Arc<dyn Store> {
        let host = format!("host=127.0.0.1 port={}", self.ports[lane]);
        self.store(host, clock).await
    }

    /// An empty store.
    fn clean(&self, clock: &Arc<ManualClock>) -> Arc<dyn Store> {
        let emptied = self.observer.batch_execute(&self.empty);
        runtime().block_on(emptied).expect("it is emptied");
        let (dir, port) = self.server.address();
        runtime().block_on(self.store(format!("host={} port={port}", dir.display()), clock))
    }

    /// Plays one seed: its schedule, and what is wrong with it, if anything is.
    fn seed(&self, seed: u64) -> (Played, Option<String>) {
        let mut dice = Dice::new(seed);
        // Of three, one plays without faults: there every answer counts.
        if seed.is_multiple_of(3) {
            return self.play(Faults::NONE, &mut dice, None, some);
        }
        self.play(Faults::FEW, &mut dice, None, |mut all, dice| {
            // That it failed would not say which of its two halves did.
            all.retain(|(_, name, _)| *name != CLAIM_AND_LEASE);
            some(all, dice)
        })
    }

    /// Plays what `choose` takes of all calls.
    fn play(
        &self,
        faults: Faults,
        dice: &mut Dice,
        planted: Option<Planted>,
        choose: impl FnOnce(Chosen, &mut Dice) -> Chosen,
    ) -> (Played, Option<String>) {
        let clock = Arc::new(ManualClock::new(at(0)));
        self.gate.open();
        let store = self.clean(&clock);
        let bench = Bench::new(Arc::clone(&store), Arc::clone(&clock));
        let all = calls(&bench).into_iter().enumerate();
        let all = all.map(|(place, (name, call))| (place, name, call));
        let chosen = choose(all.collect(), dice);
        let opening = (0..chosen.len()).map(|lane| self.lane(lane, &clock));
        let lanes = runtime().block_on(futures::future::join_all(opening));
        self.gate.forget(planted);
        let played = schedule::play(self, &lanes, &chosen, dice, faults);
        self.gate.open();
        let dump = wait(store.dump());
        let complaint = complaint(&chosen, &played, &dump);
        let complaint = complaint.map(|what| format!("{what}\n{}", played.told()));
        (played, complaint)
    }
}

/// Calls with their places and names.
type Chosen = Vec<(usize, &'static str, Call)>;

/// Three or four of them, each once.
fn some(mut all: Chosen, dice: &mut Dice) -> Chosen {
    let n = LANES - dice.roll(2);
    let chosen = (0..n.min(all.len())).map(|_| all.remove(dice.roll(all.len())));
    chosen.collect()
}

/// What is wrong, if anything is.
fn complaint(
    chosen: &[(usize, &'static str, Call)],
    played: &Played,
    dump: &Dump,
) -> Option<String> {
    let corrupt = |answer: &&Result<String, Error>| matches!(answer, Err(Error::Corrupt(_)));
    if let Some(answer) = played.answers.iter().find(corrupt) {
        return Some(format!("a call found what can't be: {answer:?}"));
    }
    let folds = std::panic::catch_unwind(|| fold::check(dump));
    if folds.is_err() {
        return Some("the rows are not what the events say".to_owned());
    }
    let mut checker = Checker::new(Checking {
        seq_is_lock_order: true,
        ..Checking::default()
    });
    for event in &dump.events {
        checker.event(event);
    }
    checker.dump(dump);
    let verdict = checker.finish();
    if verdict.outcome == Outcome::Violated {
        return Some(format!("the checker: {:#?}", verdict.violations));
    }
    let seen = summary(dump);
    let mut nearest: Option<Vec<String>> = None;
    for order in orders(&played.answers) {
        let (answers, then) = serially(chosen, &played.answers, &order);
        let agree = order.iter().zip(&answers).all(|(n, answer)| {
            let told = &played.answers[*n];
            told.is_err() || told.as_ref().ok() == answer.as_ref().ok()
        });
        if agree && then == seen {
            return None;
        }
        if agree && nearest.is_none() {
            let here = seen.iter().filter(|line| !then.contains(line));
            let there = then.iter().filter(|line| !seen.contains(line));
            let here = here.map(|line| format!("  it has {line}"));
            nearest = Some(
                here.chain(there.map(|line| format!("  an order has {line}")))
                    .collect(),
            );
        }
    }
    let what = match nearest {
        Some(lines) => lines.join("\n"),
        None => "  the answers are those of no order".to_owned(),
    };
    Some(format!("no serial order of the calls gives this:\n{what}"))
}

/// Every order of the calls that were answered, with and without each that answered with an error.
fn orders(answers: &[Result<String, Error>]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for (n, answer) in answers.iter().enumerate() {
        let mut more = Vec::new();
        for order in &all {
            for place in 0..=order.len() {
                let mut with: Vec<usize> = order.clone();
                with.insert(place, n);
                more.push(with);
            }
            if answer.is_err() {
                more.push(order.clone());
            }
        }
        all = more;
    }
    all
}

/// The calls one after another on a memory store: their answers, and what it holds then.
fn serially(
    chosen: &[(usize, &'static str, Call)],
    told: &[Result<String, Error>],
    order: &[usize],
) -> (Vec<Result<String, Error>>, Vec<String>) {
    let clock = Arc::new(ManualClock::new(at(0)));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::clone(&clock) as _));
    let bench = Bench::new(Arc::clone(&store), clock);
    let all = calls(&bench);
    let answers = order.iter().map(|n| {
        let call = all[chosen[*n].0].1.clone();
        let op = FIRST_OP + *n as u128;
        let call = match &told[*n] {
            Ok(said) => match call.given_answer(said) {
                Some(call) => call,
                None => return Ok(said.clone()),
            },
            Err(_) => call,
        };
        futures::executor::block_on(call.make(&*store, op))
    });
    let answers = answers.collect();
    (answers, summary(&wait(store.dump())))
}

fn play_all(part: u64) {
    let Some(ground) = Ground::new(Duration::ZERO) else {
        return;
    };
    for seed in SEEDS.filter(|seed| seed % 2 == part) {
        if let Some(what) = ground.seed(seed).1 {
            panic!(
                "seed {seed}: {what}\nplay it again: SICHEN_SEED={seed} cargo nextest run -p \
                 sichen-store --features postgres one_interleaving --run-ignored all --no-capture"
            );
        }
    }
}

#[test]
fn interleaved_calls_are_as_if_one_came_after_the_other_even_seeds() {
    play_all(0);
}

#[test]
fn interleaved_calls_are_as_if_one_came_after_the_other_odd_seeds() {
    play_all(1);
}

const OF_FREE: [&str; 6] = [
    "finish free",
    "stop free",
    "create free",
    "queue free",
    "judge free",
    "count free",
];

/// An edit under which the runs of a job are counted from now on, and runs that wait, among runs that begin
/// and end: what the row counts is what there is.
#[test]
fn counting_begins_exactly_while_runs_begin_and_end() {
    let Some(ground) = Ground::new(Duration::ZERO) else {
        return;
    };
    for seed in 1..=120 {
        let choose = |mut all: Chosen, dice: &mut Dice| {
            all.retain(|(_, name, _)| OF_FREE.contains(name));
            some(all, dice)
        };
        let faults = if seed % 2 == 0 {
            Faults::FEW
        } else {
            Faults::NONE
        };
        let (_, complaint) = ground.play(faults, &mut Dice::new(seed), None, choose);
        assert_eq!(complaint, None, "seed {seed}");
    }
}

#[test]
fn a_seed_is_the_same_schedule_each_time() {
    let Some(ground) = Ground::new(Duration::ZERO) else {
        return;
    };
    for seed in 1..=6 {
        let (first, _) = ground.seed(seed);
        // Two that wait for a row which a commit has changed race for its new version: the server
        // lets either go first. Once in a while, not each time.
        let again = (0..3).any(|_| ground.seed(seed).0.told() == first.told());
        assert!(again, "seed {seed} was never again\n{}", first.told());
    }
}

/// Each call alone, once for each of its steps, with a fault there: a call that did not come to its
/// commit is tried anew and done, and one that did is not done twice.
#[test]
fn a_fault_at_each_step_of_each_call_loses_and_repeats_nothing() {
    let Some(ground) = Ground::new(Duration::ZERO) else {
        return;
    };
    let mut dice = Dice::new(1);
    for call in 0.. {
        for n in 0.. {
            let faults = Faults::at(n, call);
            let one = |mut all: Chosen, _: &mut Dice| {
                // Its halves are among the others; that it failed would not say which of them did.
                all.retain(|(_, name, _)| *name != CLAIM_AND_LEASE);
                all.into_iter().skip(call).take(1).collect()
            };
            let (played, complaint) = ground.play(faults, &mut dice, None, one);
            let Some(answer) = played.answers.first() else {
                assert!(call > 10, "there are few calls");
                return;
            };
            assert_eq!(complaint, None, "{faults:?}");
            let Some(step) = played.steps.get(n) else {
                break;
            };
            let unknown = step.ends_with("commit CutBefore");
            assert!(answer.is_ok() || unknown, "{faults:?}\n{}", played.told());
        }
    }
}

/// A driver that waits for an answer must also take those before it.
#[test]
fn answers_that_come_message_by_message_are_heard() {
    let Some(ground) = Ground::new(Duration::from_millis(2)) else {
        return;
    };
    let clock = Arc::new(ManualClock::new(at(0)));
    drop(ground.clean(&clock));
    let lane = runtime().block_on(ground.lane(0, &clock));
    let all = calls(&Bench::new(Arc::clone(&lane), clock));
    for (n, (name, call)) in all.into_iter().enumerate() {
        let answer = futures::executor::block_on(call.make(&*lane, FIRST_OP + n as u128));
        assert!(answer.is_ok(), "{name}: {answer:?}");
    }
}

/// Leaves a guard out and plays these calls by seeds until something is wrong.
fn check_found(planted: Planted, among: &[&str]) {
    let Some(ground) = Ground::new(Duration::ZERO) else {
        return;
    };
    let found = BUDGET.into_iter().find(|seed| {
        let choose = |mut all: Chosen, dice: &mut Dice| {
            all.retain(|(_, name, _)| among.contains(name));
            some(all, dice)
        };
        let played = ground.play(Faults::NONE, &mut Dice::new(*seed), Some(planted), choose);
        played.1.is_some()
    });
    let Some(seed) = found else {
        panic!("{planted:?} left out is not found by {BUDGET:?}");
    };
    #[expect(clippy::print_stdout, reason = "for whoever asks how soon")]
    {
        println!("found by seed {seed}");
    }
}

const OF_A_SHARD: [&str; 5] = ["finish 0", "reap 0", "checkpoint 0", "fail 1", "stop"];

#[test]
fn a_run_that_is_not_locked_is_found() {
    let among = ["finish 0", "fail 1", "lease 2", "stop", "end session"];
    check_found(("lock_runs", " for no key update"), &among);
}

#[test]
fn a_shard_that_is_not_locked_is_found() {
    check_found(("lock_shards", " for no key update of s"), &OF_A_SHARD);
}

#[test]
fn a_job_that_is_not_locked_is_found() {
    let among = ["create", "advance", "edit", "pause"];
    check_found(("lock_jobs", " for no key update"), &among);
}

/// Who edits would count while runs begin and end.
#[test]
fn a_gate_that_is_not_shut_is_found() {
    let among = ["finish free", "stop free", "create free", "count free"];
    check_found(("shut_gate", "pg_advisory_xact_lock"), &among);
}

#[test]
fn a_gate_that_is_not_passed_by_ends_is_found() {
    let among = ["finish free", "stop free", "count free"];
    check_found(
        ("pass_gates_of_runs", "pg_advisory_xact_lock_shared"),
        &among,
    );
}

#[test]
fn a_term_that_is_only_read_is_found() {
    let among = [CLAIM_AND_LEASE, "lease 2", "reap 0"];
    check_found(("share_duties", " for share"), &among);
}

/// Plays seeds from `SICHEN_SEED` on for `SICHEN_MINUTES`, and writes to `SICHEN_SUMMARY` what ran.
#[test]
#[ignore = "for as long as one likes: `cargo xtask soak interleaver`"]
fn many_interleavings() {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let first = number("SICHEN_SEED").unwrap_or(1);
    let minutes = number("SICHEN_MINUTES").unwrap_or(1);
    let Some(ground) = Ground::new(Duration::ZERO) else {
        return;
    };
    let mut faults: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut steps, mut violations) = (0, Vec::new());
    #[expect(clippy::disallowed_methods, reason = "it is told how long to go on")]
    let begun = std::time::Instant::now();
    let mut seed = first;
    while begun.elapsed() < Duration::from_secs(minutes * 60) {
        let (played, complaint) = ground.seed(seed);
        steps += played.steps.len();
        for fault in ["40001", "40P01", "CutBefore", "CutAfter"] {
            let hit = played.steps.iter().filter(|step| step.contains(fault));
            *faults.entry(fault).or_default() += hit.count() as u64;
        }
        violations.extend(complaint.map(|what| format!("seed {seed}: {what}")));
        seed += 1;
    }
    let summary = serde_json::json!({
        "first_seed": first,
        "seeds": seed - first,
        "statements": steps,
        "faults": faults.values().sum::<u64>(),
        "faults_by_class": faults,
        "violations": violations,
        "wall_secs": begun.elapsed().as_secs(),
    });
    let path = std::env::var("SICHEN_SUMMARY").expect("SICHEN_SUMMARY");
    std::fs::write(path, format!("{summary:#}\n")).unwrap();
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

/// Plays the seed of `SICHEN_SEED`, and tells the order of its statements.
#[test]
#[ignore = "for one seed by hand: SICHEN_SEED"]
#[expect(clippy::print_stdout, reason = "it tells what was played")]
fn one_interleaving() {
    let seed = std::env::var("SICHEN_SEED").expect("SICHEN_SEED");
    let seed: u64 = seed.parse().expect("a number");
    let Some(ground) = Ground::new(Duration::ZERO) else {
        return;
    };
    let (played, complaint) = ground.seed(seed);
    println!("{}", played.told());
    assert_eq!(complaint, None);
}
