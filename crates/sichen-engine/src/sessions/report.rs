//! The ends of attempts, as their holders report them.
//!
//! # Invariants
//! - A plain success is written on its token alone; everything else is decided on facts, and the
//!   store's guard has the last word.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sichen_core::document::Document;
use sichen_core::ids::ShardKey;
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::{Ending, Facts, Transition, on_end};
use sichen_core::lifecycle::{AttemptEnd, ShardState};
use sichen_core::model::Failure;
use sichen_core::port::{Answer, Error, Finish, FinishVerdict, MAX_BATCH, Said, ShardFacts};
use sichen_core::retry::Policy;

use super::{Plan, Report, ReportVerdict, Sessions, Source};

impl Sessions {
    /// Takes the ends of attempts; one verdict each, in order. Never fails as a whole.
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
        let verdicts = match self.try_report(from, reports).await {
            Ok(verdicts) => verdicts,
            Err(error) => {
                tracing::warn!(%error, "reports could not be stored; their workers will report again");
                if sichen_core::zoo::is("ack-before-commit") {
                    return vec![ReportVerdict::Accepted; n];
                }
                vec![ReportVerdict::RetryLater; n]
            }
        };
        for verdict in &verdicts {
            self.context.meter.reported(verdict);
        }
        verdicts
    }

    async fn try_report(
        &self,
        from: Source<'_>,
        reports: Vec<Report>,
    ) -> Result<Vec<ReportVerdict>, Error> {
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
        let mut items = Vec::with_capacity(reports.len());
        for report in reports {
            items.push(match now {
                Some(now) if !plain(&report) => self.decide(report, &facts, now).await?,
                _ => finish(report, Transition::SUCCESS, None),
            });
        }
        for item in &mut items {
            item.by = from.by.cloned();
        }
        let end = |items| {
            let op = self.context.op(from.actor);
            store.finish_attempts(op, items)
        };
        let run = |item: &Finish| item.key.run;
        let blocked = &self.dispatcher.blocked;
        let verdicts = match blocked.write(&items, run, || store.now(), &end).await {
            // One that the store can't take is not to hold its neighbours.
            Err(Error::Corrupt(_)) if items.len() > 1 => one_by_one(&items, end).await?,
            verdicts => verdicts?,
        };
        let mut answers = Vec::with_capacity(items.len());
        for (item, verdict) in items.iter().zip(verdicts) {
            let Some(verdict) = verdict else {
                answers.push(ReportVerdict::RetryLater);
                continue;
            };
            if let FinishVerdict::Accepted(run) = verdict {
                self.context.meter.ended(item.transition.end, run);
                self.judge(item);
            }
            // The last of the failed attempts that a run may have stops it too: only the store, which
            // counts them, knows which one that was.
            let stops =
                item.transition.stops_run.is_some() || item.transition.max_failures.is_some();
            if stops && matches!(verdict, FinishVerdict::Accepted(_)) {
                // The reports are stored whether or not the rest of the run hears of it now.
                let told = self.tell_stopped(item.key.run).await;
                if let Err(error) = told {
                    tracing::debug!(run = %item.key.run, %error, "its workers' beats will find the stop");
                }
            }
            answers.push(answer(item, verdict));
        }
        Ok(answers)
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

/// Hands `items` over each by itself; `None` for one that the store can't take.
async fn one_by_one<'s>(
    items: &[Finish],
    end: impl Fn(Vec<Finish>) -> Answer<'s, Vec<FinishVerdict>>,
) -> Result<Vec<Option<FinishVerdict>>, Error> {
    let mut verdicts = Vec::with_capacity(items.len());
    for item in items {
        verdicts.push(match end(vec![item.clone()]).await {
            Ok(verdicts) => verdicts.into_iter().next(),
            Err(error @ Error::Corrupt(_)) => {
                tracing::error!(shard = %item.key, %error, "the end of an attempt can't be stored");
                None
            }
            Err(error) => return Err(error),
        });
    }
    Ok(verdicts)
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
