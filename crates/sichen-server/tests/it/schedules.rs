//! UI-007: the times that are shown beforehand are those that are planned, for every form of a schedule.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use sichen_core::name::JobName;
use sichen_core::port::{Page, RunFilter, Store};
use sichen_core::schedule::cron::{Cron, Dialect};
use sichen_engine::context::RandomIds;
use sichen_engine::control::Turn;
use sichen_engine::driver::{Engine, Settings};
use sichen_server::grpc::Streams;
use sichen_server::rest::wire::{Applied, NextInstants};
use sichen_store::clock::ManualClock;
use sichen_store::memory::MemoryStore;

use crate::node::{Node, json as body};

/// How many times of each are compared.
const COUNT: usize = 5;

/// Before clocks change in Europe, and before they do so in America.
const STARTS: [&str; 2] = ["2026-03-28T20:00:00Z", "2026-10-31T20:00:00Z"];

/// A schedule, its zone, and how its expression is read if it has one.
struct Form {
    schedule: Value,
    zone: String,
    cron: Option<(String, Dialect)>,
}

fn cases(name: &str) -> Value {
    let path = format!("{}/../../testdata/cases/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Every expression of the cases, each once, and the forms that are no expressions.
fn forms() -> Vec<Form> {
    let (crons, reports) = (cases("cron_cases.json"), cases("bug_reports.json"));
    let named = |word: &str| match word {
        "vixie5" => (Dialect::CrontabPlain, Some("crontab-plain")),
        "robfig" | "robfig6" => (Dialect::Kubernetes, Some("kubernetes")),
        "quartz6" | "quartz7" => (Dialect::Quartz, Some("quartz")),
        "seconds6" => (Dialect::Seconds, Some("seconds")),
        _ => (Dialect::Crontab, Some("crontab")),
    };
    let crons = crons.as_array().unwrap().iter();
    let crons = crons.map(|case| (case, named(case["dialect"].as_str().unwrap())));
    let reports = reports["cases"].as_array().unwrap().iter();
    let vectors = reports.filter_map(|case| case["vectors"].as_array());
    let vectors = vectors.flatten().map(|case| {
        let dialect = Dialect::of(case["expr"].as_str().unwrap());
        (case, (dialect, None))
    });
    let mut seen = BTreeSet::new();
    let mut forms = Vec::new();
    for (case, (dialect, name)) in crons.chain(vectors) {
        let expr = case["expr"].as_str().unwrap().to_owned();
        let zone = case["tz"].as_str().unwrap().to_owned();
        if !seen.insert((expr.clone(), zone.clone(), name)) {
            continue;
        }
        let mut schedule = json!({ "cron": expr });
        if let Some(name) = name {
            schedule["dialect"] = name.into();
        }
        forms.push(Form {
            schedule,
            zone,
            cron: Some((expr, dialect)),
        });
    }
    for schedule in [
        json!({ "every": "90s" }),
        json!({ "every": "36h", "phase": "5m" }),
        json!({ "cron": "@every 7m" }),
        json!({ "cron": "H H(1-5) * * *" }),
        json!({ "at": "2027-12-31T23:00:00+08:00" }),
        json!({ "at": "2001-01-01T00:00:00Z" }),
        json!({ "cron": "30 2 * * *", "gap": "skip", "fold": "both" }),
        json!({ "cron": "0 9 * * *", "from": "2027-01-01T00:00:00Z", "until": "2027-01-04T00:00:00Z" }),
    ] {
        forms.push(Form {
            schedule,
            zone: "Europe/Zurich".to_owned(),
            cron: None,
        });
    }
    forms
}

/// What the API says of a form: its next times, or that it is refused, and then for the planner's reason.
async fn shown(node: &Node, name: &str, form: &Form) -> Option<(String, Vec<Timestamp>)> {
    let document = json!({
        "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": name },
        "spec": {
            "timeZone": form.zone, "run": { "handler": "work" }, "overlap": "allow",
            "schedules": [form.schedule],
        },
    });
    let answer = node.post("/api/v1/jobs:apply", document.to_string()).await;
    if !answer.status().is_success() {
        let text = answer.text().await.unwrap();
        let (expr, dialect) = form.cron.as_ref().unwrap_or_else(|| panic!("{text}"));
        match Cron::parse(expr, *dialect, None) {
            Err(error) => assert!(text.contains(error.code()), "{expr}: {error}: {text}"),
            Ok(cron) => assert!(cron.is_never() || cron.zone().is_some(), "{expr}: {text}"),
        }
        return None;
    }
    let applied: Applied = body(answer).await;
    let next: NextInstants = node
        .read(&format!("/api/v1/jobs/default/{name}/next?count={COUNT}"))
        .await;
    let instants = next.items.iter().map(|at| at.parse().unwrap()).collect();
    // Each is written in the zone of the job, with the offset that holds then.
    let zone = TimeZone::get(&form.zone).unwrap();
    for text in &next.items {
        let at: Timestamp = text.parse().unwrap();
        let offset = zone.to_offset(at);
        let wanted = at.display_with_offset(offset).to_string();
        assert!(
            text == &wanted || text.ends_with('Z') && offset.seconds() == 0,
            "{text}, not {wanted}"
        );
    }
    Some((applied.documents[0].uid.clone(), instants))
}

#[tokio::test]
async fn the_times_that_are_shown_are_those_that_are_planned() {
    for start in STARTS {
        compare(start.parse().unwrap()).await;
    }
}

async fn compare(start: Timestamp) {
    let clock = Arc::new(ManualClock::new(start));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock.clone()));
    let node = Node::without_duties_on(store.clone()).await;
    let forms = forms();
    assert!(forms.len() >= 190, "{} forms", forms.len());
    let mut jobs = BTreeMap::new();
    for (n, form) in forms.iter().enumerate() {
        let name = format!("form-{n}");
        if let Some((uid, instants)) = shown(&node, &name, form).await {
            jobs.insert(uid, (name, instants));
        }
    }
    assert!(
        jobs.len() * 10 >= forms.len() * 8,
        "{} of {} have times",
        jobs.len(),
        forms.len()
    );

    let streams = Arc::new(Streams::default());
    let settings = Settings::new("planner".to_owned());
    let planner = Engine::new(store.clone(), Arc::new(RandomIds), streams, settings);
    let all = jobs.values().flat_map(|(_, instants)| instants);
    let all: BTreeSet<Timestamp> = all.copied().collect();
    for at in all {
        clock.set(at);
        planner.coordinator.run_once(at).await.unwrap();
        while planner.trigger.run_once(at).await.unwrap().runs > 0 {}
        // What was compared to its end makes no more runs.
        for (name, _) in jobs.values().filter(|(_, i)| i.last() == Some(&at)) {
            let name = JobName::new("default", name).unwrap();
            planner
                .control
                .set_paused("test", &name, Turn::Pause)
                .await
                .unwrap();
        }
    }

    let mut planned: BTreeMap<String, Vec<Timestamp>> = BTreeMap::new();
    let mut after = None;
    loop {
        let page = Page { after, limit: 500 };
        let runs = store.list_runs(RunFilter::default(), page).await.unwrap();
        let Some(last) = runs.last() else { break };
        after = Some(last.id);
        for run in &runs {
            let times = planned.entry(run.job.to_string()).or_default();
            times.extend(run.occasion.planned_at());
        }
    }
    for (uid, (name, instants)) in &jobs {
        let mut found = planned.remove(uid).unwrap_or_default();
        found.sort_unstable();
        assert_eq!(&found, instants, "{name}");
    }
    assert!(planned.is_empty(), "{planned:?}");
    node.stop().await;
}

/// The console shows what the API says: it has no parser of its own that could disagree.
#[test]
fn the_console_reads_no_expression_by_itself() {
    let path = format!("{}/../../console/package.json", env!("CARGO_MANIFEST_DIR"));
    let package: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let libraries = package["dependencies"].as_object().unwrap();
    assert!(libraries.contains_key("react"), "these are its libraries");
    let parsers = libraries
        .keys()
        .filter(|name| name.contains("cron") || name.contains("rrule"));
    assert_eq!(parsers.count(), 0);
}
