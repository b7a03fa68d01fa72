//! The ends of attempts, as their holders report them: gathered, so that many workers share a commit.
//!
//! # Invariants
//! - A plain success is written on its token alone; everything else is decided on facts, and the
//!   store's guard has the last word.
//! - Each end is judged by what its own holder is, and told to it by its own name, whoever carries it.
//! - Nobody waits for a row that only another one's report needs.
//!
//! # Not here
//! How they gather ([`crate::gather`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use sichen_core::document::Document;
use sichen_core::ids::ShardKey;
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::{Ending, Facts, Transition, on_end};
use sichen_core::lifecycle::{AttemptEnd, ShardState};
use sichen_core::model::Failure;
use sichen_core::port::{Answer, Error, Finish, FinishVerdict, MAX_BATCH, Op, Said, ShardFacts};
use sichen_core::retry::Policy;

use super::{Plan, Report, ReportVerdict, Sessions, Source};
use crate::gather::Batch;

/// Shards that an end may add to its run and still be written with others' ends.
const MAX_SHARED_SHARDS: usize = 1_000;
/// Ends of one run that are tried one by one and can't be stored; the run's others are put off then.
const MAX_SPOILT: usize = 20;

/// An end that is to be written; [`Sessions::report`] waits for what becomes of it, which is `None` if it
/// could not be written now.
pub(super) type End = Arc<Finish>;
pub(super) type Told = Option<FinishVerdict>;

impl Sessions {
    /// Takes the ends of attempts; one verdict each, in order. Never fails as a whole.
    ///
    /// To be awaited to its end: it may be carrying what others wait for.
    pub async fn report<'f>(
        &self,
        from: impl Into<Source<'f>>,
        mut reports: Vec<Report>,
    ) -> Vec<ReportVerdict> {
        let from = from.into();
        let mut verdicts = Vec::with_capacity(reports.len());
        while !reports.is_empty() {
            let rest = reports.split_off(reports.len().min(MAX_BATCH));
            let batch = std::mem::replace(&mut reports, rest);
            verdicts.extend(self.report_batch(from, batch).await);
        }
        verdicts
    }

    async fn report_batch(&self, from: Source<'_>, reports: Vec<Report>) -> Vec<ReportVerdict> {
        let n = reports.len();
        let verdicts = match self.decide_all(from, reports).await {
            Ok(ends) => {
                let told = self.hand_in(from.actor, &ends).await;
                let mut verdicts = Vec::with_capacity(n);
                for (end, told) in ends.iter().zip(told) {
                    verdicts.push(self.told(end, told).await);
                }
                verdicts
            }
            Err(error) => {
                put_off(&error);
                vec![later(); n]
            }
        };
        for verdict in &verdicts {
            self.context.meter.reported(verdict);
        }
        verdicts
    }

    /// What the rules make of reports.
    async fn decide_all(&self, from: Source<'_>, reports: Vec<Report>) -> Result<Vec<End>, Error> {
        let store = &*self.context.store;
        // A plain success depends on nothing but its token: no facts to read.
        let plain = |r: &Report| r.ending == Ending::Succeeded && !r.key.no.is_plan();
        let keys: Vec<ShardKey> = reports
            .iter()
            .filter(|r| !plain(r))
            .map(|r| r.key)
            .collect();
        let (facts, now) = if keys.is_empty() {
            (Vec::new(), None)
        } else {
            (store.get_shards(keys).await?, Some(store.now().await?))
        };
        let facts: BTreeMap<ShardKey, ShardFacts> =
            facts.into_iter().map(|f| (f.shard.key, f)).collect();
        let author: Arc<str> = from.actor.into();
        let mut ends = Vec::with_capacity(reports.len());
        for report in reports {
            let mut end = match now {
                Some(now) if !plain(&report) => self.decide(report, &facts, now).await?,
                _ => finish(report, Transition::SUCCESS, None),
            };
            end.by = from.by.cloned();
            end.author = Some(author.clone());
            ends.push(Arc::new(end));
        }
        Ok(ends)
    }

    /// Has ends written, together with those of others; what became of each. One that adds many shards, and
    /// those whose run was found blocked, are written apart: nobody else waits for them.
    async fn hand_in(&self, author: &str, ends: &[End]) -> Vec<Told> {
        let mut told: Vec<Told> = ends.iter().map(|_| None).collect();
        let many = |end: &End| {
            let shards = end.expand.as_ref().map_or(0, Vec::len);
            shards > MAX_SHARED_SHARDS
        };
        let (apart, left): (Vec<usize>, Vec<usize>) =
            (0..ends.len()).partition(|place| many(&ends[*place]));
        for place in apart {
            let written = self.write_apart(&ends[place..=place]).await;
            told[place] = written.into_iter().next().flatten();
        }
        let blocked = &self.dispatcher.blocked;
        let (apart, mut left): (Vec<usize>, Vec<usize>) = left
            .into_iter()
            .partition(|place| blocked.knows(ends[*place].key.run));
        if !apart.is_empty() {
            let own: Vec<End> = apart.iter().map(|place| ends[*place].clone()).collect();
            for (place, written) in apart.into_iter().zip(self.write_apart(&own).await) {
                told[place] = written;
            }
        }
        while !left.is_empty() {
            let asked = left.iter().map(|place| ends[*place].clone());
            let write = |batch| self.write_ends(batch);
            let answers = self.ends.ask(author, asked, write).await;
            // Where whoever carried them was cut off they may be written: then they are duplicates now.
            left = std::mem::take(&mut left)
                .into_iter()
                .zip(answers)
                .filter_map(|(place, answer)| match answer {
                    Some(answer) => {
                        told[place] = answer;
                        None
                    }
                    None => Some(place),
                })
                .collect();
        }
        told
    }

    /// Writes what several may have reported; each is answered when its own is committed.
    async fn write_ends(&self, mut batch: Batch<End, Told>) {
        let ends = batch.take();
        let store = &*self.context.store;
        let run = |end: &End| end.key.run;
        let call = |ends| -> Answer<'_, Vec<Told>> { Box::pin(self.end_attempts(ends)) };
        let tell = |place, told| batch.answer(place, told);
        let blocked = &self.dispatcher.blocked;
        let written = blocked.write_each(&ends, run, || store.now(), call, tell);
        if let Err(error) = written.await {
            put_off(&error);
        }
        batch.answer_rest(|| None);
    }

    /// Writes ends of one reporter by themselves; what became of each.
    async fn write_apart(&self, ends: &[End]) -> Vec<Told> {
        let mut told: Vec<Told> = ends.iter().map(|_| None).collect();
        let store = &*self.context.store;
        let run = |end: &End| end.key.run;
        let call = |ends| -> Answer<'_, Vec<Told>> { Box::pin(self.end_attempts(ends)) };
        let tell = |place: usize, written| told[place] = written;
        let blocked = &self.dispatcher.blocked;
        let written = blocked.write_each(ends, run, || store.now(), call, tell);
        if let Err(error) = written.await {
            put_off(&error);
        }
        told
    }

    async fn end_attempts(&self, ends: Vec<End>) -> Result<Vec<Told>, Error> {
        let of_one_run = ends
            .windows(2)
            .all(|pair| pair[0].key.run == pair[1].key.run);
        match self.end_together(&ends).await {
            // One that the store can't take is not to hold its neighbours.
            Err(Error::Corrupt(_)) if of_one_run && ends.len() > 1 => self.one_by_one(&ends).await,
            verdicts => Ok(verdicts?.into_iter().map(Some).collect()),
        }
    }

    async fn end_together(&self, ends: &[End]) -> Result<Vec<FinishVerdict>, Error> {
        let items = ends.iter().map(|end| Finish::clone(end)).collect();
        let store = &*self.context.store;
        store.finish_attempts(self.op_of(ends), items).await
    }

    /// An operation by the author of `ends`, or by this node if they have several.
    fn op_of(&self, ends: &[End]) -> Op {
        let author = ends.first().and_then(|end| end.author.as_deref());
        let shared = ends.iter().any(|end| end.author.as_deref() != author);
        match author.filter(|_| !shared) {
            Some(author) => self.context.op(author),
            None => self.context.op(self.coordinator.actor()),
        }
    }

    /// Writes ends of one run each by itself; `None` for one that the store can't take.
    async fn one_by_one(&self, ends: &[End]) -> Result<Vec<Told>, Error> {
        let mut told = Vec::with_capacity(ends.len());
        let mut spoilt = None;
        for end in ends {
            match self.end_together(std::slice::from_ref(end)).await {
                Ok(verdicts) => told.extend(verdicts.into_iter().map(Some)),
                Err(error @ Error::Corrupt(_)) => {
                    tracing::error!(shard = %end.key, %error, "the end of an attempt can't be stored");
                    told.push(None);
                    spoilt = Some(error);
                }
                Err(error) => return Err(error),
            }
            if told.iter().filter(|told| told.is_none()).count() == MAX_SPOILT {
                break;
            }
        }
        match spoilt {
            // The run's own row, most likely.
            Some(error) if told.iter().all(Option::is_none) => Err(error),
            _ => Ok(told),
        }
    }

    /// Answers the report of `end`, and tells those whom it concerns.
    async fn told(&self, end: &Finish, told: Told) -> ReportVerdict {
        let Some(verdict) = told else {
            return later();
        };
        if let FinishVerdict::Accepted(run) = verdict {
            self.context.meter.ended(end.transition.end, run);
            self.judge(end);
            // The last of the failed attempts that a run may have stops it too: only the store, which
            // counts them, knows which one that was.
            if end.transition.stops_run.is_some() || end.transition.max_failures.is_some() {
                // The reports are stored whether or not the rest of the run hears of it now.
                let told = self.tell_stopped(end.key.run).await;
                if let Err(error) = told {
                    tracing::debug!(run = %end.key.run, %error, "its workers' beats will find the stop");
                }
            }
        }
        answer(end, verdict)
    }

    /// Tells the dispatcher of an end that says something of the worker.
    fn judge(&self, item: &Finish) {
        let failed = match item.transition.end {
            AttemptEnd::Succeeded => false,
            AttemptEnd::Failed | AttemptEnd::TimedOut | AttemptEnd::Lost => true,
            AttemptEnd::Cancelled | AttemptEnd::Released => return,
        };
        self.dispatcher.judged(item.key, failed);
    }

    async fn decide(
        &self,
        mut report: Report,
        facts: &BTreeMap<ShardKey, ShardFacts>,
        now: Timestamp,
    ) -> Result<Finish, Error> {
        // The store's guard answers for what is not there or not current any more.
        let refused = Transition {
            to: ShardState::Failed,
            ..Transition::SUCCESS
        };
        let Some(found) = facts.get(&report.key) else {
            return Ok(finish(report, refused, None));
        };
        let store = &*self.context.store;
        let document = self
            .documents
            .find(store, found.run.job, found.run.revision)
            .await?;
        let mut expand = None;
        if report.ending == Ending::Succeeded {
            match report.plan.take() {
                Some(Plan::Extremes(keys)) => match cut(document.as_deref(), keys) {
                    Ok(shards) => expand = Some(shards),
                    Err(message) => {
                        report.ending = Ending::FailedForGood;
                        report.failure = Some(Failure {
                            code: "plan".to_owned(),
                            message,
                        });
                    }
                },
                other => {
                    report.ending = Ending::FailedForGood;
                    report.failure = Some(Failure {
                        code: "plan".to_owned(),
                        message: no_bounds(other.as_ref()).to_owned(),
                    });
                }
            }
        }
        let shard = &found.shard;
        let facts = Facts {
            key: shard.key,
            state: shard.state,
            token: shard.token,
            used: shard.used,
            stop: found.run.stop.map(|(cause, _)| cause),
            deadline: found.run.terms.deadline,
        };
        // Without its document an attempt still ends, by the policy of a job that names none.
        let policy = document
            .map(|document| document.retry_policy())
            .unwrap_or_default();
        let code = report.failure.as_ref().map_or("", |f| f.code.as_str());
        let decided = on_end(&facts, report.token, report.ending, code, &policy, now);
        let transition = decided.unwrap_or(refused);
        if let Some(failure) = &mut report.failure {
            note_rule(failure, &transition, &policy);
        }
        Ok(finish(report, transition, expand))
    }
}

fn put_off(error: &Error) {
    tracing::warn!(%error, "reports could not be stored; their workers will report again");
}

/// The answer to a report that could not be stored.
fn later() -> ReportVerdict {
    if sichen_core::zoo::is("ack-before-commit") {
        return ReportVerdict::Accepted;
    }
    ReportVerdict::RetryLater
}

/// Writes on the failure which of the job's rules decided what became of it.
pub(crate) fn note_rule(failure: &mut Failure, transition: &Transition, policy: &Policy) {
    if let Some(remark) = transition.rule.and_then(|place| policy.remark(place)) {
        failure.message.push_str(&format!(" ({remark})"));
    }
}

/// The shards that a plan step's answer gives.
fn cut(document: Option<&Document>, keys: Option<(i64, i64)>) -> Result<Vec<Descriptor>, String> {
    let unreadable = || "SC4011: the job's document can't be read; apply it again".to_owned();
    document.ok_or_else(unreadable)?.cut_extremes(keys)
}

fn finish(report: Report, transition: Transition, expand: Option<Vec<Descriptor>>) -> Finish {
    Finish {
        by: None,
        author: None,
        key: report.key,
        token: report.token,
        transition,
        digest: report.digest,
        progress: report.progress,
        failure: report.failure,
        expand,
        said: Said {
            run_key: report.run_key,
            end: report.ending.attempt_end(),
            returned: report.returned,
        },
    }
}

fn answer(item: &Finish, verdict: FinishVerdict) -> ReportVerdict {
    match verdict {
        FinishVerdict::Accepted(_) => ReportVerdict::Accepted,
        FinishVerdict::Duplicate => ReportVerdict::Duplicate,
        FinishVerdict::Contradicts => ReportVerdict::Contradicts,
        FinishVerdict::Stale { current } if item.token > current => {
            tracing::error!(
                shard = %item.key,
                token = %item.token,
                %current,
                "SC2003: a worker holds a token that this store has not granted: the store has lost its newest records"
            );
            ReportVerdict::Stale {
                detail: format!(
                    "SC2003: token {} was never granted by this store, where shard {} is at token {current}: it \
                     went back since",
                    item.token, item.key
                ),
            }
        }
        FinishVerdict::Stale { current } => ReportVerdict::Stale {
            detail: format!(
                "SC2001: token {} is stale; shard {} is at token {current}",
                item.token, item.key
            ),
        },
        FinishVerdict::NotRunning => ReportVerdict::Stale {
            detail: format!(
                "SC2002: no attempt of shard {} runs under {}",
                item.key, item.token
            ),
        },
        FinishVerdict::Foreign => {
            tracing::warn!(shard = %item.key, token = %item.token, "SC2009: a worker reports for an attempt of another");
            ReportVerdict::Stale {
                detail: format!(
                    "SC2009: the attempt of shard {} under {} is another worker's",
                    item.key, item.token
                ),
            }
        }
        FinishVerdict::Missing => ReportVerdict::Stale {
            detail: format!("SC2004: there is no shard {}", item.key),
        },
    }
}

/// What is wrong with the answer of a plan step that has no bounds.
fn no_bounds(plan: Option<&Plan>) -> &'static str {
    match plan {
        Some(Plan::Items(_)) => {
            "SC1026: the plan step answered with a list of items, which is not supported: it tells bounds \
             (the least and the greatest key); list items in the job's `shards.items`"
        }
        Some(Plan::Extremes(_)) | None => "SC1026: the plan step answered with no bounds",
    }
}
