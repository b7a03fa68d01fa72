//! Folds a store's events and compares the result with its rows: every move is legal (I45), and
//! the log says what the rows say (I46).

use std::collections::BTreeMap;

use serde_json::Value;
use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::{RunId, ShardKey, Token};
use sichen_core::lifecycle::run::Counters;
use sichen_core::lifecycle::{RunState, ShardState, is_legal};
use sichen_core::model::{Counting, Dump};

#[derive(Clone, Debug, Default)]
struct Folded {
    state: String,
    ver: u32,
    at: i64,
    token: u64,
    attempt: u32,
    round: u32,
    checkpoint: u64,
    high_water: i64,
    pending: Option<i64>,
    revision: u64,
    term: u64,
    owner: Option<u64>,
    total: u64,
    failures: u64,
    recalls: u64,
}

/// Panics at the first row or event that does not fit.
pub fn check(dump: &Dump) {
    let mut all: BTreeMap<Entity, Folded> = BTreeMap::new();
    let mut seq = 0;
    for e in &dump.events {
        assert!(e.seq > seq, "seq rises: {e:?}");
        seq = e.seq;
        apply(&mut all, e);
    }
    compare_runs(dump, &all);
    compare_others(dump, &all);
    compare_holds(dump, &all);
    let known = |entity: &Entity| match entity {
        Entity::Job(uid) => dump.jobs.iter().any(|j| j.uid == *uid),
        Entity::Run(id) => dump.runs.iter().any(|r| r.id == *id),
        Entity::Shard(key) => dump.shards.iter().any(|s| s.key == *key),
        Entity::Session(id) => dump.sessions.iter().any(|s| s.id == *id),
        Entity::Duty(key) => dump.duties.iter().any(|d| d.key.text() == *key),
        Entity::Node(_) => true,
        Entity::Calendar(name) => dump.calendars.iter().any(|(of, ..)| of == name),
        Entity::Backfill(id) => dump.backfills.iter().any(|b| b.id == *id),
        Entity::AccessToken(name) => dump.access_tokens.iter().any(|t| t.asked.name == *name),
        Entity::User(name) => dump.users.iter().any(|u| u.name == *name),
        Entity::Capacity(name) => dump.capacities.iter().any(|(c, _)| c.name == *name),
        Entity::Namespace(name) => dump.namespaces.iter().any(|n| n.name == *name),
    };
    if dump.shards.len() < 2_000 {
        for entity in all.keys() {
            assert!(known(entity), "{entity} has events and no row");
        }
    }
}

/// The keys that an event's data has, no more and no fewer: what `docs/events.md` says.
fn keys(e: &Event) -> &'static [&'static str] {
    match e.kind {
        Kind::JobApplied if e.ver == 1 => &["high_water", "name", "namespace", "revision"],
        Kind::JobApplied => &["revision", "zones"],
        Kind::ScheduleAdvanced => &["decisions", "from", "lengthens", "runs", "to", "zones"],
        Kind::ScheduleFollowed => &["at", "failures", "run"],
        Kind::RunCreated => &[
            "backfill", "job", "most", "occasion", "plan", "revision", "total", "waits",
        ],
        Kind::NamespaceSet => &["max_queued", "max_running", "weight"],
        Kind::RunReleased => &["after", "ready_at"],
        Kind::RunExpanded => &["total"],
        Kind::RunSettled => &["cancelled", "counts_match", "failed", "succeeded", "total"],
        Kind::RunReopened => &["backfill", "round", "shards"],
        Kind::StopRequested => &["detail", "stop"],
        Kind::AttemptGranted => &["checkpoint_seq", "session", "worker"],
        Kind::CheckpointSaved if e.data.contains("\"bytes\"") => {
            &["bytes", "done", "position", "seq"]
        }
        Kind::CheckpointSaved => &["done", "position", "seq"],
        Kind::AttemptRecalled => &["by", "most", "n", "own", "priority"],
        Kind::AttemptEnded => &["code", "end", "message"],
        Kind::SessionRegistered => &["incarnation", "pool", "slots", "worker"],
        Kind::NodeRegistered => &["address"],
        Kind::DutyAcquired if e.cause == "expired" => &["lease_end", "node", "term"],
        Kind::DutyAcquired => &["node", "term"],
        Kind::DutyReleased => &["term"],
        Kind::ShardDiscarded => &["by", "reason"],
        Kind::ReportRefused if e.cause == "lost_tail" && e.data != "{}" => &["end", "run_key"],
        Kind::ReportRefused => &[],
        Kind::StoreRestored => &["epoch", "mark"],
        Kind::RestoreDecided => &["evidence", "reason"],
        Kind::ClockAccepted => &["from", "to"],
        Kind::CalendarApplied => &["version"],
        Kind::CapacityApplied => &["rate", "units"],
        Kind::BackfillCreated => &[
            "from",
            "job",
            "mode",
            "order",
            "parallelism",
            "rate",
            "reason",
            "to",
            "verify",
        ],
        Kind::BackfillChecked => &["checks"],
        Kind::BackfillAdvanced | Kind::BackfillFinished => {
            &["cursor", "left", "reopened", "settled", "top", "written"]
        }
        Kind::AccessTokenCreated if e.data.contains("\"api\"") => &["expires_at", "grants", "kind"],
        Kind::AccessTokenCreated => &["expires_at", "handlers", "kind", "pool", "workers"],
        Kind::UserCreated if e.data.contains("\"issuer\"") => &["grants", "issuer"],
        Kind::UserCreated => &["grants"],
        Kind::UserRolesSet => &["after", "before"],
        Kind::UserPasswordSet => &["logins", "password"],
        Kind::UserDisabled | Kind::UserLoggedIn | Kind::UserLoggedOut => &["logins"],
        Kind::UserEnabled
        | Kind::BackfillPaused
        | Kind::BackfillResumed
        | Kind::BackfillCancelled
        | Kind::CalendarDeleted
        | Kind::AccessTokenRevoked
        | Kind::CapacityDeleted
        | Kind::JobPaused
        | Kind::JobResumed
        | Kind::JobDeleted
        | Kind::RunStarted
        | Kind::ShardStopped
        | Kind::ShardReopened
        | Kind::NodeEnded
        | Kind::SessionEnded => &[],
    }
}

/// Which of attempt and token an event carries.
fn carries(e: &Event) -> (bool, bool) {
    match e.kind {
        Kind::AttemptGranted
        | Kind::CheckpointSaved
        | Kind::AttemptRecalled
        | Kind::AttemptEnded => (true, true),
        Kind::ShardStopped | Kind::ShardReopened | Kind::ShardDiscarded | Kind::ReportRefused => {
            (false, true)
        }
        _ => (false, false),
    }
}

fn number(data: &Value, key: &str) -> u64 {
    data[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key} in {data}"))
}

fn apply(all: &mut BTreeMap<Entity, Folded>, e: &Event) {
    let data: Value = serde_json::from_str(&e.data).expect("data is JSON");
    let found: Vec<&str> = data
        .as_object()
        .expect("data is an object")
        .keys()
        .map(String::as_str)
        .collect();
    let mut found = found;
    if e.kind == Kind::AttemptEnded {
        // There if the job limits the failed attempts of all shards together, and if it returned something.
        found.retain(|key| !["budget", "result", "result_bytes"].contains(key));
    }
    // There if the run uses capacities.
    found.retain(|key| !["uses", "held_until"].contains(key));
    assert_eq!(found, keys(e), "the keys of {e:?}");
    let lost = e.cause == "lost_tail" && e.from.is_empty();
    let of_store = matches!(
        e.kind,
        Kind::StoreRestored | Kind::RestoreDecided | Kind::ClockAccepted
    );
    if lost || of_store {
        assert_eq!((e.ver, &e.from), (0, &e.to), "it changes no row: {e:?}");
        return;
    }
    assert_eq!(
        (e.attempt.is_some(), e.token.is_some()),
        carries(e),
        "{e:?}"
    );
    let row = all.entry(e.entity.clone()).or_default();
    // A duty is acquired from wherever it was: its event's cause says which.
    if e.kind != Kind::DutyAcquired {
        assert_eq!(row.state, e.from, "the state before {e:?}");
    }
    if e.ver == 0 {
        assert_eq!(e.kind, Kind::ReportRefused, "{e:?}");
        assert_eq!(e.from, e.to, "a refused report changes nothing: {e:?}");
        return;
    }
    assert_eq!(e.ver, row.ver + 1, "versions are dense: {e:?}");
    let at = e.at.as_microsecond();
    assert!(at >= row.at, "time does not go back: {e:?}");
    if matches!(
        e.entity,
        Entity::Run(_) | Entity::Shard(_) | Entity::Backfill(_)
    ) {
        let (entity, kind) = (e.entity.kind(), e.kind.word());
        assert!(
            is_legal(entity, &e.from, kind, &e.to),
            "not in the move table: {e:?}"
        );
    }
    (row.ver, row.at) = (e.ver, at);
    row.state.clone_from(&e.to);
    match e.kind {
        Kind::JobApplied => {
            row.revision = number(&data, "revision");
            if e.ver == 1 {
                row.high_water = data["high_water"].as_i64().expect("high_water");
            }
        }
        Kind::ScheduleAdvanced => {
            assert_eq!(
                data["from"].as_i64(),
                Some(row.high_water),
                "marks form a chain: {e:?}"
            );
            row.high_water = data["to"].as_i64().expect("to");
            let mark = row.high_water;
            row.pending = row.pending.filter(|at| *at > mark);
            assert!(
                data["runs"].is_array() && data["decisions"].is_array(),
                "{e:?}"
            );
        }
        Kind::ScheduleFollowed => {
            row.pending = data["at"].as_i64();
            let mark = row.high_water;
            assert!(row.pending.is_none_or(|at| at > mark), "{e:?}");
        }
        Kind::RunCreated => {
            row.round = 1;
            row.total = number(&data, "total");
            let plan = data["plan"].as_bool().expect("plan");
            let Entity::Run(run) = e.entity else {
                panic!("{e:?}")
            };
            let born = e.to == RunState::Running.word();
            let numbers = if plan { -1..0 } else { 0..row.total as i32 };
            insert_shards(all, run, numbers, born, at);
        }
        Kind::RunExpanded => {
            row.total = number(&data, "total");
            let Entity::Run(run) = e.entity else {
                panic!("{e:?}")
            };
            let numbers = 0..row.total as i32;
            insert_shards(all, run, numbers, false, at);
        }
        Kind::RunReopened => {
            row.round += 1;
            assert_eq!(number(&data, "round"), u64::from(row.round));
            row.failures = 0;
        }
        Kind::StopRequested => assert_eq!(data["stop"].as_str(), Some(e.cause.as_str())),
        Kind::RunSettled => {
            let sum =
                number(&data, "succeeded") + number(&data, "failed") + number(&data, "cancelled");
            assert!(sum == row.total || sum == row.total + 1, "{e:?}");
        }
        Kind::AttemptGranted => {
            let token = e.token.expect("token").0;
            assert!(token > row.token, "each grant raises the token: {e:?}");
            assert_eq!(
                e.attempt,
                Some(row.attempt + 1),
                "attempts are dense: {e:?}"
            );
            (row.token, row.attempt) = (token, row.attempt + 1);
            assert_eq!(number(&data, "checkpoint_seq"), row.checkpoint, "{e:?}");
            assert!(data["session"].is_u64() && data["worker"].is_string());
        }
        Kind::CheckpointSaved => {
            let seq = number(&data, "seq");
            assert!(seq > row.checkpoint, "checkpoints move forward: {e:?}");
            row.checkpoint = seq;
            assert_eq!(e.token, Some(Token(row.token)), "{e:?}");
        }
        Kind::AttemptRecalled => {
            assert_eq!(e.token, Some(Token(row.token)), "{e:?}");
            assert_eq!(e.attempt, Some(row.attempt), "{e:?}");
            assert!(data["priority"].as_i64() > data["own"].as_i64(), "{e:?}");
            let Entity::Shard(key) = e.entity else {
                panic!("{e:?}")
            };
            let run = all.entry(Entity::Run(key.run)).or_default();
            run.recalls += 1;
            assert_eq!(number(&data, "n"), run.recalls, "recalls are dense: {e:?}");
            assert!(run.recalls <= number(&data, "most"), "{e:?}");
        }
        Kind::AttemptEnded => {
            let token = e.token.expect("token").0;
            assert!(token >= row.token, "tokens never fall: {e:?}");
            row.token = token;
            assert_eq!(e.attempt, Some(row.attempt), "{e:?}");
            assert_eq!(data["end"].as_str(), Some(e.cause.as_str()), "{e:?}");
            if let (Some(failures), Entity::Shard(key)) = (data["budget"][0].as_u64(), &e.entity) {
                let run = all.entry(Entity::Run(key.run)).or_default();
                assert_eq!(failures, run.failures + 1, "failures are dense: {e:?}");
                run.failures = failures;
            }
        }
        Kind::DutyAcquired => {
            let term = number(&data, "term");
            assert!(term > row.term, "terms rise: {e:?}");
            row.term = term;
            row.owner = Some(number(&data, "node"));
        }
        Kind::DutyReleased => row.owner = None,
        Kind::BackfillCreated
        | Kind::BackfillAdvanced
        | Kind::BackfillChecked
        | Kind::BackfillPaused
        | Kind::BackfillResumed
        | Kind::BackfillFinished
        | Kind::BackfillCancelled
        | Kind::JobPaused
        | Kind::JobResumed
        | Kind::JobDeleted
        | Kind::RunStarted
        | Kind::RunReleased
        | Kind::ShardStopped
        | Kind::ShardReopened
        | Kind::ShardDiscarded
        | Kind::ReportRefused
        | Kind::StoreRestored
        | Kind::RestoreDecided
        | Kind::ClockAccepted
        | Kind::SessionRegistered
        | Kind::SessionEnded
        | Kind::NodeRegistered
        | Kind::NodeEnded
        | Kind::CalendarApplied
        | Kind::CalendarDeleted
        | Kind::AccessTokenCreated
        | Kind::AccessTokenRevoked
        | Kind::UserCreated
        | Kind::UserRolesSet
        | Kind::UserPasswordSet
        | Kind::UserDisabled
        | Kind::UserEnabled
        | Kind::UserLoggedIn
        | Kind::UserLoggedOut
        | Kind::CapacityApplied
        | Kind::CapacityDeleted
        | Kind::NamespaceSet => {}
    }
}

fn insert_shards(
    all: &mut BTreeMap<Entity, Folded>,
    run: RunId,
    numbers: std::ops::Range<i32>,
    born: bool,
    at: i64,
) {
    for no in numbers {
        // A born-leased shard's first event is its grant.
        let (state, ver) = if born {
            ("", 0)
        } else {
            (ShardState::Scheduled.word(), 1)
        };
        let row = Folded {
            state: state.to_owned(),
            ver,
            at,
            ..Folded::default()
        };
        all.insert(Entity::Shard(ShardKey::new(run, no)), row);
    }
}

fn compare_runs(dump: &Dump, all: &BTreeMap<Entity, Folded>) {
    let mut counters: BTreeMap<RunId, Counters> = BTreeMap::new();
    for shard in &dump.shards {
        let row = &all[&Entity::Shard(shard.key)];
        let key = shard.key;
        assert_eq!(row.state, shard.state.word(), "state of {key}");
        assert_eq!(row.ver, shard.ver, "version of {key}");
        assert_eq!(row.token, shard.token.0, "token of {key}");
        assert_eq!(row.attempt, shard.attempt, "attempts of {key}");
        assert_eq!(row.checkpoint, shard.checkpoint.seq, "checkpoint of {key}");
        assert_eq!(
            shard.session.is_some(),
            shard.state == ShardState::Running,
            "holder of {key}"
        );
        let c = counters.entry(key.run).or_default();
        let plan = key.no.is_plan();
        c.total += u32::from(!plan);
        match shard.state {
            ShardState::Succeeded => c.succeeded += u32::from(!plan),
            ShardState::Failed => c.failed += 1,
            ShardState::Cancelled => c.cancelled += 1,
            ShardState::Scheduled | ShardState::Running | ShardState::Retry => c.open += 1,
        }
    }
    for run in &dump.runs {
        let (row, id) = (&all[&Entity::Run(run.id)], run.id);
        assert_eq!(row.state, run.state.word(), "state of run {id}");
        assert_eq!(row.ver, run.ver, "version of run {id}");
        assert_eq!(row.round, run.round, "round of run {id}");
        assert_eq!(
            row.failures,
            u64::from(run.failures),
            "failures of run {id}"
        );
        assert_eq!(
            counters.remove(&id).unwrap_or_default(),
            run.counters,
            "counters of run {id}"
        );
        assert_eq!(
            run.state.is_closed(),
            run.counters.open == 0,
            "run {id} is settled when closed"
        );
    }
    assert!(counters.is_empty(), "every shard has its run");
}

fn compare_others(dump: &Dump, all: &BTreeMap<Entity, Folded>) {
    for job in &dump.jobs {
        let (row, uid) = (&all[&Entity::Job(job.uid)], job.uid);
        assert_eq!(row.ver, job.ver, "version of job {uid}");
        assert_eq!(
            row.revision,
            u64::from(job.revision.0),
            "revision of job {uid}"
        );
        assert_eq!(
            row.high_water,
            job.high_water.as_microsecond(),
            "mark of job {uid}"
        );
        let pending = job.pending().map(|at| at.as_microsecond());
        assert_eq!(row.pending, pending, "what follows the runs of job {uid}");
        if row.state != "deleted" {
            let goes_on = pending.is_some() || job.active_runs > 0;
            assert!(goes_on || job.chain.is_none(), "job {uid} goes on");
            assert_eq!(row.state == "paused", job.paused, "job {uid}");
        }
        let active = dump
            .runs
            .iter()
            .filter(|r| r.job == uid && !r.state.is_closed() && r.backfill.is_none())
            .count();
        // Whether a row counts is the document's choice, and so is how long; but it counts all or none.
        let counted = if job.counting == Counting::Never {
            0
        } else {
            active
        };
        assert_eq!(
            counted, job.active_runs as usize,
            "active runs of job {uid}"
        );
        let open = dump.runs.iter().filter(|r| !r.state.is_closed());
        let waiting = open.filter(|r| r.job == uid && r.waits.is_some()).count();
        assert_eq!(
            waiting, job.waiting_runs as usize,
            "waiting runs of job {uid}"
        );
        assert!(
            job.counting != Counting::WhileWaiting || waiting > 0,
            "job {uid} counts on"
        );
        let closed = dump.runs.iter().filter(|r| r.state.is_closed());
        assert!(
            closed.into_iter().all(|r| r.waits.is_none()),
            "what is closed waits for nothing"
        );
    }
    for session in &dump.sessions {
        let (row, id) = (&all[&Entity::Session(session.id)], session.id);
        assert_eq!(row.ver, session.ver, "version of session {id}");
        assert_eq!(
            row.state == "ended",
            session.ended.is_some(),
            "session {id}"
        );
    }
    for backfill in &dump.backfills {
        let (row, id) = (&all[&Entity::Backfill(backfill.id)], backfill.id);
        assert_eq!(row.ver, backfill.ver, "version of backfill {id}");
        assert_eq!(row.state, backfill.state.word(), "state of backfill {id}");
        let lane = dump.runs.iter().filter(|r| r.backfill == Some(id));
        let open = lane.filter(|r| !r.state.is_closed()).count();
        assert_eq!(
            open, backfill.runs.open as usize,
            "open runs of backfill {id}"
        );
    }
    for duty in &dump.duties {
        let key = duty.key.text();
        let row = &all[&Entity::Duty(key.clone())];
        assert_eq!(row.term, duty.term.0, "term of {key}");
        assert_eq!(row.owner, duty.node.map(|n| n.0), "owner of {key}");
    }
}

/// What running shards use is held, and what is held is used, or was by an attempt that nobody has
/// confirmed dead (I32).
fn compare_holds(dump: &Dump, all: &BTreeMap<Entity, Folded>) {
    for (capacity, deleted) in &dump.capacities {
        let row = &all[&Entity::Capacity(capacity.name.clone())];
        assert_eq!(row.ver, capacity.ver, "version of {}", capacity.name);
        assert_eq!(row.state == "deleted", *deleted, "{}", capacity.name);
    }
    let running = dump
        .shards
        .iter()
        .filter(|s| s.state == ShardState::Running);
    let mut used = Vec::new();
    for shard in running {
        let run = dump.runs.iter().find(|run| run.id == shard.key.run);
        let uses = &run.expect("every shard has its run").terms.uses;
        let uses = uses
            .iter()
            .map(|(name, n)| (shard.key, shard.token, name.clone(), n));
        used.extend(uses);
    }
    let held = dump.holds.iter().filter(|hold| hold.until.is_none());
    let held: Vec<_> = held
        .map(|h| (h.key, h.token, h.capacity.clone(), h.units))
        .collect();
    assert_eq!(held, used, "what is held is what is used");
}
