//! How things stand, in numbers.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sichen_core::lifecycle::RunState;
use sichen_core::model::Run;
use sichen_core::port::{LATE_AFTER, MAX_COUNTED, Overview, Skips, Span};

use super::state::State;

pub(super) fn get(state: &State, now: Timestamp, span: Span) -> Overview {
    let most = MAX_COUNTED as usize;
    let jobs = || state.jobs.values().filter(|row| !row.deleted);
    let mut named: Vec<_> = jobs().map(|row| (&row.job.name, row.job.paused)).collect();
    named.sort();
    named.truncate(most);
    let paused = count(named.iter().filter(|(_, paused)| *paused));
    let mut due: Vec<Timestamp> = jobs()
        .filter(|row| !row.job.paused)
        .filter_map(|row| row.job.next_due)
        .collect();
    due.sort_unstable();
    let late = due.iter().filter(|at| **at <= now - LATE_AFTER).take(most);
    let (mut load, until) = (BTreeMap::new(), now + span.ahead);
    let ahead = due.iter().filter(|at| **at > now && **at <= until);
    for at in ahead.take(most) {
        let part = at.duration_since(now).as_micros() / span.part.as_micros();
        *load.entry(u64::try_from(part).unwrap_or(0)).or_default() += 1;
    }
    let in_state = |wanted: RunState| {
        let runs = state.runs.values();
        count(runs.filter(|run| run.state == wanted).take(most))
    };
    // The first by number, as the other stores find it.
    let first = |wanted: RunState| state.runs.values().find(|run| run.state == wanted);
    let first = [RunState::Scheduled, RunState::Running].map(first);
    Overview {
        now,
        live_jobs: named.len() as u64 - paused,
        paused_jobs: paused,
        late_jobs: count(late),
        load: load.into_iter().collect(),
        scheduled: in_state(RunState::Scheduled),
        running: in_state(RunState::Running),
        oldest: first.into_iter().flatten().map(|run| run.created_at).min(),
        ended: ended(state, now - span.past),
        skips: skips(state, now - span.past),
    }
}

fn count(items: impl Iterator) -> u64 {
    items.fold(0, |n, _| n + 1)
}

fn ended(state: &State, since: Timestamp) -> Vec<(RunState, u64)> {
    let runs = state.runs.values();
    let mut ended: Vec<(Timestamp, &Run)> = runs
        .filter_map(|run| Some((run.ended_at?, run)))
        .filter(|(at, _)| *at >= since)
        .collect();
    ended.sort_by_key(|(at, run)| (std::cmp::Reverse(*at), std::cmp::Reverse(run.id)));
    let mut counts = BTreeMap::<&str, (RunState, u64)>::new();
    for (_, run) in ended.into_iter().take(MAX_COUNTED as usize) {
        counts.entry(run.state.word()).or_insert((run.state, 0)).1 += 1;
    }
    counts.into_values().collect()
}

fn skips(state: &State, since: Timestamp) -> Vec<Skips> {
    let recent = state.decisions.iter().filter(|(_, d)| d.to >= since);
    let mut recent: Vec<_> = recent.collect();
    recent.sort_by_key(|(_, decision)| std::cmp::Reverse(decision.to));
    let mut sums = BTreeMap::new();
    for (job, decision) in recent.into_iter().take(MAX_COUNTED as usize) {
        let Some(row) = state.jobs.get(job) else {
            continue;
        };
        let key = (row.job.name.clone(), decision.reason.clone());
        let (count, filled) = sums.entry(key).or_insert((0, 0));
        *count += decision.count;
        *filled += decision.filled;
    }
    let skips = sums
        .into_iter()
        .map(|((job, reason), (count, filled))| Skips {
            job,
            reason,
            count,
            filled,
        });
    skips.collect()
}
