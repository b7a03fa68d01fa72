//! Schedules that fire.

use futures::executor::block_on;
use jiff::SignedDuration;
use serde_json::json;
use sichen_core::lifecycle::ShardState;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::port::{Page, RunFilter};

use sichen_core::ids::JobUid;
use sichen_core::name::JobName;
use sichen_core::port::ApplyJob;
use sichen_engine::context::IdSource;
use sichen_engine::control::{Control, StartRun, Turn, Which};

use crate::fixture::{Cluster, Node, document, report, start};

/// As the job says.
const RESUME: Turn = Turn::Resume { catch_up: None };

fn runs(cluster: &Cluster) -> Vec<String> {
    let page = Page {
        after: None,
        limit: 100,
    };
    let runs = block_on(cluster.store.list_runs(RunFilter::default(), page)).unwrap();
    let mut keys: Vec<String> = runs
        .iter()
        .map(|r| r.occasion.planned_at().unwrap().to_string())
        .collect();
    keys.sort();
    keys
}

fn tick(cluster: &Cluster, node: &Node, seconds: i64) -> sichen_engine::trigger::Pass {
    cluster.pass(seconds);
    node.coordinate(cluster);
    node.trigger(cluster)
}

#[test]
fn each_planned_instant_becomes_one_run() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let spec = json!({
        "run": { "handler": "h" }, "schedules": [{ "cron": "*/5 * * * *" }], "overlap": "allow",
    });
    cluster.apply("j", spec);
    assert_eq!(
        tick(&cluster, &node, 1).runs,
        0,
        "creation never looks backwards"
    );
    let next = node.trigger(&cluster).next;
    assert_eq!(next, None, "five minutes are beyond the horizon");
    let pass = tick(&cluster, &node, 298);
    assert_eq!(
        pass.next.unwrap(),
        start() + jiff::SignedDuration::from_mins(5)
    );
    assert_eq!(tick(&cluster, &node, 1).runs, 1, "at the very instant");
    assert_eq!(node.trigger(&cluster).runs, 0, "and once only");
    assert_eq!(tick(&cluster, &node, 300).runs, 1);
    assert_eq!(
        runs(&cluster),
        ["2026-03-01T00:05:00Z", "2026-03-01T00:10:00Z"]
    );
}

/// What wakes a pass is counted on by the machine's clock; the store's may have been set back meanwhile.
#[test]
fn an_instant_that_the_stores_clock_has_not_reached_is_not_fired() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    cluster.apply(
        "minutely",
        json!({ "schedules": [{ "cron": "* * * * *" }], "run": { "handler": "h" } }),
    );
    cluster.pass(59);
    node.coordinate(&cluster);
    let ahead = |seconds| {
        let now = cluster.now() + SignedDuration::from_secs(seconds);
        block_on(node.engine.trigger.run_once(now)).unwrap()
    };
    // Once where the jobs are read for it, once where they were prepared before.
    for _ in 0..2 {
        let early = ahead(2);
        assert_eq!((early.runs, early.told), (0, Some(cluster.now())));
        assert_eq!(early.next, Some(start() + SignedDuration::from_secs(60)));
        assert_eq!(runs(&cluster), Vec::<String>::new());
        ahead(0);
    }
    cluster.pass(1);
    assert_eq!(ahead(0).runs, 1);
    assert_eq!(runs(&cluster).len(), 1);
}

#[test]
fn an_active_run_blocks_the_next_and_the_skip_names_it() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let spec = json!({ "run": { "handler": "h" }, "schedules": [{ "every": "1m" }] });
    let job = cluster.apply("j", spec);
    assert_eq!(tick(&cluster, &node, 60).runs, 1);
    let pass = tick(&cluster, &node, 60);
    assert_eq!((pass.runs, pass.skipped), (0, 1));
    let blocker = block_on(cluster.store.list_runs(
        RunFilter::default(),
        Page {
            after: None,
            limit: 1,
        },
    ))
    .unwrap()
    .pop()
    .unwrap();
    let decisions = block_on(cluster.store.list_decisions(job, start(), 10)).unwrap();
    assert_eq!(decisions.len(), 1);
    assert_eq!(decisions[0].reason, "overlap");
    assert_eq!(decisions[0].reference, blocker.id.to_string());
    // The blocker ends; the next instant runs again.
    let session = node.worker(&cluster, "w1", 1);
    assert_eq!(node.dispatch(&cluster), 1);
    let work = node.grants(session).pop().unwrap();
    node.report(
        &cluster,
        report(work.shard.key, work.shard.token, Ending::Succeeded),
    );
    assert_eq!(tick(&cluster, &node, 60).runs, 1);
}

/// A job that fires each second and was down for a year is decided at once.
#[test]
fn a_year_of_missed_instants_is_one_decision() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let spec = json!({ "run": { "handler": "h" }, "schedules": [{ "cron": "* * * * * *" }] });
    let job = cluster.apply("j", spec);
    let year = 365 * 24 * 3600;
    let pass = tick(&cluster, &node, year);
    assert_eq!(pass.runs, 1, "the latest");
    let decisions = block_on(cluster.store.list_decisions(job, start(), 100)).unwrap();
    // One row for what was missed, and one for each of the last seconds that were on time.
    assert!(decisions.len() <= 16, "{} rows", decisions.len());
    let skipped: u64 = decisions.iter().map(|d| d.count).sum();
    assert_eq!(
        skipped + pass.runs as u64,
        year as u64,
        "every instant is decided, none twice"
    );
}

/// A document that can't be read stops its own job and no other.
#[test]
fn an_unreadable_document_stops_no_neighbour() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let minute = Some(start() + jiff::SignedDuration::from_mins(1));
    let broken = ApplyJob {
        zones: None,
        name: JobName::new("default", "broken").unwrap(),
        new_uid: JobUid(cluster.ids.uuid()),
        expected_ver: None,
        document: "{".to_owned(),
        high_water: start(),
        next_due: minute,
        follow: None,
        counted: true,
        closing: None,
        calendars: Vec::new(),
        uses: sichen_core::capacity::Uses::default(),
        cause: String::new(),
    };
    block_on(cluster.store.apply_job(cluster.op(), broken)).unwrap();
    let spec = json!({ "run": { "handler": "h" }, "schedules": [{ "every": "1m" }] });
    cluster.apply("sound", spec);
    assert_eq!(tick(&cluster, &node, 60).runs, 1);
}

/// What a pause left out is recorded by the revision that was paused, also if it is edited before
/// it is resumed.
#[test]
fn editing_a_paused_job_decides_what_was_paused_by_the_old_revision() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let control = Control::new(node.engine.context.clone());
    let spec =
        |every: &str| json!({ "run": { "handler": "h" }, "schedules": [{ "every": every }] });
    let name = JobName::new("default", "j").unwrap();
    let applied = block_on(control.apply("user", &document("j", spec("1m")))).unwrap();
    block_on(control.set_paused("user", &name, Turn::Pause)).unwrap();
    cluster.pass(180);
    block_on(control.apply("user", &document("j", spec("1h")))).unwrap();
    cluster.pass(60);
    block_on(control.set_paused("user", &name, RESUME)).unwrap();
    let decisions = block_on(cluster.store.list_decisions(applied.uid, start(), 10)).unwrap();
    let paused: u64 = decisions.iter().map(|d| d.count).sum();
    assert!(
        decisions.iter().all(|d| d.reason == "paused"),
        "{decisions:?}"
    );
    assert_eq!(
        paused, 3,
        "three minutes of the old rule, none of the new one's hours"
    );
}

fn paused_stage(more: serde_json::Value) -> (Cluster, Node, Control, JobName, JobUid) {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let control = Control::new(node.engine.context.clone());
    let mut spec = json!({
        "run": { "handler": "h" }, "schedules": [{ "every": "1m" }], "overlap": "allow",
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let uid = block_on(control.apply("user", &document("j", spec)))
        .unwrap()
        .uid;
    let name = JobName::new("default", "j").unwrap();
    (cluster, node, control, name, uid)
}

/// What was recorded as not run: reason and how many.
fn skipped(cluster: &Cluster, job: JobUid) -> Vec<(String, u64)> {
    let decisions = block_on(cluster.store.list_decisions(job, start(), 1_000)).unwrap();
    decisions.into_iter().map(|d| (d.reason, d.count)).collect()
}

/// MISS-002: nothing that fell into a pause runs, unless that is asked for.
#[test]
fn a_resume_runs_nothing_unless_asked_to_catch_up() {
    let (cluster, node, control, name, job) = paused_stage(json!({}));
    block_on(control.set_paused("user", &name, Turn::Pause)).unwrap();
    cluster.pass(300);
    let asked = Turn::Resume {
        catch_up: Some(true),
    };
    let before = block_on(cluster.store.dump()).unwrap();
    let plain = block_on(control.preview(&name, RESUME)).unwrap().unwrap();
    let caught_up = block_on(control.preview(&name, asked)).unwrap().unwrap();
    assert_eq!((plain.runs.len(), caught_up.runs.len()), (0, 1));
    assert_eq!(
        block_on(cluster.store.dump()).unwrap(),
        before,
        "a preview writes nothing"
    );
    block_on(control.set_paused("user", &name, asked)).unwrap();
    assert_eq!(
        runs(&cluster),
        ["2026-03-01T00:05:00Z"],
        "the latest, as previewed"
    );
    assert_eq!(skipped(&cluster, job), [("catch_up".to_owned(), 4)]);
    block_on(control.set_paused("user", &name, Turn::Pause)).unwrap();
    cluster.pass(120);
    block_on(control.set_paused("user", &name, RESUME)).unwrap();
    assert_eq!(
        skipped(&cluster, job).last(),
        Some(&("paused".to_owned(), 2))
    );
    assert_eq!(tick(&cluster, &node, 60).runs, 1, "the schedule goes on");
}

#[test]
fn a_job_may_say_that_a_resume_catches_up() {
    let (cluster, _node, control, name, job) = paused_stage(json!({ "onResume": "catchUp" }));
    block_on(control.set_paused("user", &name, Turn::Pause)).unwrap();
    cluster.pass(300);
    block_on(control.set_paused("user", &name, RESUME)).unwrap();
    assert_eq!(runs(&cluster), ["2026-03-01T00:05:00Z"]);
    assert_eq!(skipped(&cluster, job), [("catch_up".to_owned(), 4)]);
}

/// However many instants an edit finds undecided, the old revision decides them all, and the new one
/// has none of that time.
#[test]
fn an_edit_leaves_nothing_undecided() {
    let all = json!({ "catchUp": { "policy": { "all": 1000 } } });
    let (cluster, node, control, _, job) = paused_stage(all);
    let minutes = 250;
    cluster.pass(minutes * 60);
    node.coordinate(&cluster);
    let every_second = json!({ "run": { "handler": "h" }, "schedules": [{ "every": "1s" }] });
    block_on(control.apply("user", &document("j", every_second))).unwrap();
    let filter = RunFilter::default();
    let page = Page {
        after: None,
        limit: 1_000,
    };
    let written = block_on(cluster.store.list_runs(filter, page)).unwrap();
    assert_eq!(written.len(), minutes as usize);
    assert!(written.iter().all(|run| run.revision.0 == 1));
    let row = block_on(cluster.store.get_job_by_uid(job))
        .unwrap()
        .unwrap();
    assert_eq!(row.high_water, cluster.now());
    assert_eq!(skipped(&cluster, job), []);
}

/// Who pauses a job that is catching up wants no more of it to start.
#[test]
fn a_pause_stops_a_long_catch_up_and_records_the_rest() {
    let all = json!({ "catchUp": { "policy": { "all": 1000 } } });
    let (cluster, node, control, name, job) = paused_stage(all);
    cluster.pass(250 * 60);
    node.coordinate(&cluster);
    block_on(control.set_paused("user", &name, Turn::Pause)).unwrap();
    let started = runs(&cluster).len() as u64;
    assert_eq!(started, 100, "what one decision makes");
    assert_eq!(
        skipped(&cluster, job),
        [("paused".to_owned(), 250 - started)]
    );
}

#[test]
fn a_deletion_records_what_was_not_decided() {
    let (cluster, node, control, name, job) = paused_stage(json!({}));
    cluster.pass(300);
    node.coordinate(&cluster);
    let shown = block_on(control.preview_deletion(&name)).unwrap().unwrap();
    assert_eq!(skipped(&cluster, job), [], "a preview writes nothing");
    let would: Vec<_> = shown
        .decisions
        .iter()
        .map(|d| (&*d.reason, d.count))
        .collect();
    assert_eq!((would, shown.runs.len()), (vec![("deleted", 5)], 0));
    block_on(control.delete("user", &name)).unwrap();
    assert_eq!(skipped(&cluster, job), [("deleted".to_owned(), 5)]);
    assert_eq!(node.trigger(&cluster).runs, 0);
}

/// MISS-003, MISS-004: nothing before the edit exists under the new text, nor after it under the old.
#[test]
fn an_edit_neither_runs_the_past_nor_keeps_the_old_text() {
    let daily = |hour: u32| json!({ "schedules": [{ "cron": format!("0 {hour} * * *") }] });
    let (cluster, node, control, _, job) = paused_stage(daily(23));
    cluster.pass(12 * 3600);
    node.coordinate(&cluster);
    let mut five = json!({ "run": { "handler": "h" } });
    five["schedules"] = daily(5)["schedules"].clone();
    block_on(control.apply("user", &document("j", five))).unwrap();
    for _ in 0..18 {
        tick(&cluster, &node, 3600);
    }
    assert_eq!(runs(&cluster), ["2026-03-02T05:00:00Z"]);
    assert_eq!(skipped(&cluster, job), []);
}

/// Writes a job whose stored document is `text`, due since the first minute.
fn stored(cluster: &Cluster, name: &str, text: &str) -> JobUid {
    let uid = JobUid(cluster.ids.uuid());
    let job = ApplyJob {
        zones: None,
        name: JobName::new("default", name).unwrap(),
        new_uid: uid,
        expected_ver: None,
        document: text.to_owned(),
        high_water: start(),
        next_due: Some(start() + jiff::SignedDuration::from_secs(1)),
        follow: None,
        counted: true,
        closing: None,
        calendars: Vec::new(),
        uses: sichen_core::capacity::Uses::default(),
        cause: String::new(),
    };
    block_on(cluster.store.apply_job(cluster.op(), job)).unwrap();
    uid
}

/// More jobs that can't be decided than one pass looks at, all before the sound one.
#[test]
fn jobs_that_cannot_be_decided_starve_nobody() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let broken: Vec<JobUid> = (0..600)
        .map(|n| stored(&cluster, &format!("broken-{n}"), "{"))
        .collect();
    let spec = json!({ "run": { "handler": "h" }, "schedules": [{ "every": "1m" }] });
    cluster.apply("sound", spec);
    let mut fired = tick(&cluster, &node, 60).runs;
    for _ in 0..2 {
        fired += node.trigger(&cluster).runs;
    }
    assert_eq!(fired, 1);
    let row = block_on(cluster.store.get_job_by_uid(broken[0]))
        .unwrap()
        .unwrap();
    assert_eq!(row.high_water, start(), "nothing of it is given up");
    assert!(row.next_due.unwrap() > cluster.now());
}

/// DST-017: a bad zone in a stored row stops its own job alone.
#[test]
fn a_stored_zone_that_does_not_exist_stops_no_other_job() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let spec = json!({
        "run": { "handler": "h" }, "schedules": [{ "cron": "* * * * *" }], "overlap": "allow",
    });
    let mut bad = document("bad", spec.clone());
    bad.spec.time_zone = "Mars/Phobos".to_owned();
    let bad = stored(&cluster, "bad", &serde_json::to_string(&bad).unwrap());
    for n in 0..20 {
        cluster.apply(&format!("good-{n}"), spec.clone());
    }
    let fired: usize = (0..5).map(|_| tick(&cluster, &node, 60).runs).sum();
    assert_eq!(fired, 100);
    assert_eq!(
        skipped(&cluster, bad),
        [],
        "its times are not decided under another zone"
    );
}

/// MISS-005: a clock that steps back repeats no instant, and once it is past where it was each runs
/// on time.
#[test]
fn a_clock_that_steps_back_repeats_and_leaves_out_nothing() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let spec = json!({
        "run": { "handler": "h" }, "schedules": [{ "cron": "*/10 * * * * *" }], "overlap": "allow",
    });
    let job = cluster.apply("j", spec);
    let second = |node: &Node| {
        cluster.clock.advance(SignedDuration::from_secs(1));
        node.coordinate(&cluster);
        node.trigger(&cluster).runs
    };
    let before: usize = (0..125).map(|_| second(&node)).sum();
    assert_eq!(before, 12);
    cluster.clock.step(SignedDuration::from_secs(-120));
    let mut fired = Vec::new();
    for passed in 1..=300 {
        if second(&node) > 0 {
            fired.push(passed);
        }
    }
    // The clock says 2:05 again after two minutes; the next instant is 2:10.
    assert_eq!(fired, Vec::from_iter((125..=300).step_by(10)));
    let planned = runs(&cluster);
    let each = (1..=30).map(|n| (start() + SignedDuration::from_secs(10 * n)).to_string());
    assert_eq!(planned, Vec::from_iter(each));
    assert_eq!(skipped(&cluster, job), []);
}

/// MISS-005: a worker that dies after the clock was set back is given up after its session's time, as the
/// monotonic clock counts it, though the store's time stands still; one that lives keeps its session.
#[test]
fn a_dead_workers_session_ends_in_its_time_while_the_clock_is_behind() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    cluster.apply(
        "j",
        json!({ "run": { "handler": "h" }, "overlap": "allow" }),
    );
    let control = Control::new(node.engine.context.clone());
    for key in ["a", "b"] {
        let run = StartRun {
            job: JobName::new("default", "j").unwrap(),
            which: Which::Manual(key.to_owned()),
            parameters: serde_json::Map::new(),
            period: None,
            overlap: None,
            not_before: None,
            digest: String::new(),
        };
        block_on(control.start_run("user", run)).unwrap();
    }
    let (dies, lives) = (
        node.worker(&cluster, "w1", 1),
        node.worker(&cluster, "w2", 1),
    );
    node.dispatch(&cluster);
    let held = |session| block_on(cluster.store.list_leases(session)).unwrap();
    let (lost, kept) = (held(dies)[0].key, held(lives)[0].clone());
    cluster.clock.step(SignedDuration::from_secs(-600));
    let mut ended = None;
    for passed in 1..=60 {
        cluster.clock.advance(SignedDuration::from_secs(1));
        node.coordinate(&cluster);
        if passed % 3 == 0 {
            node.beat(lives, &[(kept.key, kept.token)], 1);
        }
        // As it is counted on by the machine's clock between two readings.
        let now = cluster.now() + SignedDuration::from_millis(900 * i64::from(ended.is_none()));
        block_on(node.engine.reaper.run_once(now)).unwrap();
        if ended.is_none() && held(dies).is_empty() {
            ended = Some(passed);
        }
    }
    // Fifteen seconds, and a look or two.
    assert!((15..=18).contains(&ended.unwrap()), "after {ended:?} s");
    assert_eq!(held(lives).len(), 1, "who beats keeps what it has");
    let shards = block_on(cluster.store.get_shards(vec![lost])).unwrap();
    assert_eq!(
        shards[0].shard.state,
        ShardState::Retry,
        "it may run elsewhere at once"
    );
    assert!(shards[0].shard.ready_at <= cluster.now());
}

/// MISS-017: instants that have runs give those, the missed ones get one each, and asking again
/// makes nothing.
#[test]
fn starting_instants_again_runs_only_what_was_missed() {
    let hourly = json!({
        "schedules": [{ "cron": "0 * * * *" }], "catchUp": { "policy": "none" },
    });
    let (cluster, node, control, name, job) = paused_stage(hourly);
    let hours = |n: i64| start() + SignedDuration::from_hours(n);
    let on_time: usize = (1..=6).map(|_| tick(&cluster, &node, 3_600).runs).sum();
    assert_eq!(on_time, 6);
    // Nobody decides until after the hours 7 to 10.
    assert_eq!(tick(&cluster, &node, 4 * 3_600 + 1_800).runs, 0);
    let missed: u64 = skipped(&cluster, job).iter().map(|(_, n)| n).sum();
    assert_eq!(missed, 4);
    let start_again = || {
        let started = (1..=10).filter(|n| {
            let wanted = StartRun {
                job: name.clone(),
                which: Which::Planned(hours(*n)),
                parameters: serde_json::Map::new(),
                period: None,
                overlap: None,
                not_before: None,
                digest: String::new(),
            };
            block_on(control.start_run("user", wanted)).unwrap().created
        });
        Vec::from_iter(started)
    };
    assert_eq!(start_again(), [7, 8, 9, 10]);
    assert_eq!(start_again(), Vec::<i64>::new());
    assert_eq!(tick(&cluster, &node, 1_800).runs, 1, "the live one of 11");
    let planned = runs(&cluster);
    assert_eq!(
        planned,
        Vec::from_iter((1..=11).map(|n| hours(n).to_string()))
    );
}
