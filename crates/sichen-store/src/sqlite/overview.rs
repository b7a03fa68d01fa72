//! How things stand, in numbers.

use jiff::{SignedDuration, Timestamp};
use sichen_core::lifecycle::RunState;
use sichen_core::port::{LATE_AFTER, MAX_COUNTED, Overview, Skips, Span};

use super::row::at;
use super::sql;
use super::tx::{Read, Result};

fn micros(length: SignedDuration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX).max(1)
}

pub(super) fn last_event(read: &Read<'_>) -> Result<u64> {
    let last = read.one(sql::GET_LAST_EVENT, [], |row| row.opt_u64(0))?;
    Ok(last.flatten().unwrap_or(0))
}

pub(super) fn get(read: &Read<'_>, now: Timestamp, span: Span) -> Result<Overview> {
    let most = MAX_COUNTED;
    let jobs = read.all(sql::COUNT_JOBS, [most], |row| {
        Ok((row.flag(0)?, row.u64(1)?))
    })?;
    let by_paused = |wanted| jobs.iter().find(|(paused, _)| *paused == wanted);
    let count = |wanted| by_paused(wanted).map_or(0, |(_, count)| *count);
    let late = (at(now - LATE_AFTER), most);
    let load = (at(now), micros(span.part), at(now + span.ahead), most);
    let since = (at(now - span.past), most);
    let in_state = |state: RunState| -> Result<u64> {
        let params = (state.word(), most);
        Ok(read.count(sql::COUNT_RUNS_IN_STATE, params)?.into())
    };
    let mut oldest = None;
    for state in [RunState::Scheduled, RunState::Running] {
        let first = read.one(sql::GET_OLDEST_IN_STATE, [state.word()], |row| row.at(0))?;
        oldest = oldest.into_iter().chain(first).min();
    }
    Ok(Overview {
        now,
        live_jobs: count(false),
        paused_jobs: count(true),
        late_jobs: read.count(sql::COUNT_LATE_JOBS, late)?.into(),
        load: read.all(sql::COUNT_LOAD, load, |row| Ok((row.u64(0)?, row.u64(1)?)))?,
        scheduled: in_state(RunState::Scheduled)?,
        running: in_state(RunState::Running)?,
        oldest,
        ended: read.all(sql::COUNT_ENDED_RUNS, since, |row| {
            Ok((row.run_state(0)?, row.u64(1)?))
        })?,
        skips: read.all(sql::LIST_SKIPS, since, |row| {
            Ok(Skips {
                job: row.job_name(0)?,
                reason: row.text(2)?,
                count: row.u64(3)?,
                filled: row.u64(4)?,
            })
        })?,
    })
}
