//! The demo's verdict, for people and for programs.
//!
//! # Not here
//! Finding it out (`verify`, `sichen-check`).

use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;
use sichen_check::{Outcome, Sight, Verdict};

use super::chaos::Scene;
use super::csv_input::Loaded;
use super::director::short;
use super::facts::{Facts, Takeover};
use super::settle::Zoo;
use super::verify::Verification;

/// What the whole demo comes to. The fields are a promise to readers of `--json`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether every check held.
    pub ok: bool,
    /// The deliberate mistake, if one was asked for.
    pub zoo: Option<&'static str>,
    pub checks: Vec<Check>,
    pub facts: Facts,
    pub business: Verification,
    pub history: History,
    /// What was read with `--input`.
    pub input: Option<Loaded>,
    pub took_ms: u64,
    /// Where everything was kept.
    pub kept: Option<PathBuf>,
    /// The schemas that were kept, and in which database.
    pub kept_schemas: Option<String>,
}

/// One thing that must hold.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub ok: bool,
    pub detail: String,
}

/// The checker's view of the scheduler's recorded history.
#[derive(Clone, Debug, Serialize)]
pub struct History {
    pub accepted: bool,
    pub events: u64,
    pub rows: u64,
    pub takeovers: u64,
    pub refused_reports: u64,
    pub violations: Vec<String>,
}

impl History {
    pub fn of(verdict: &Verdict) -> History {
        let seen = |sight| verdict.counts.get(&sight).copied().unwrap_or(0);
        let violations = verdict
            .violations
            .iter()
            .map(|broken| format!("{} {}: {}", broken.invariant, broken.entity, broken.message));
        let undecided = verdict
            .unknown
            .iter()
            .filter(|_| verdict.outcome != Outcome::Ok);
        let undecided =
            undecided.map(|open| format!("undecided {}: {}", open.invariant, open.reason));
        History {
            accepted: verdict.outcome == Outcome::Ok,
            events: seen(Sight::Event),
            rows: seen(Sight::Row),
            takeovers: seen(Sight::Takeover),
            refused_reports: seen(Sight::Refused),
            violations: violations.chain(undecided).take(20).collect(),
        }
    }
}

/// What the checks are made from.
#[derive(Debug)]
pub struct Found<'a> {
    pub facts: &'a Facts,
    pub business: &'a Verification,
    pub history: &'a History,
    /// Which run's mark each late entry carries.
    pub late_marks: &'a [(i64, Option<String>)],
    /// What was done to the workers.
    pub scene: Scene,
}

/// Everything that must hold, each with what was found.
pub fn checks(found: &Found<'_>) -> Vec<Check> {
    let Found {
        facts,
        business,
        history,
        late_marks,
        scene,
    } = *found;
    let mut checks = vec![
        Check {
            name: "runs succeeded",
            ok: facts.runs.len() == 2 && facts.runs.iter().all(|run| run.state == "succeeded"),
            detail: facts
                .runs
                .iter()
                .map(|run| format!("{} {}", run.key, run.state))
                .collect::<Vec<_>>()
                .join(", "),
        },
        Check {
            name: "totals equal the input's",
            ok: business.wrong_accounts == 0 && business.wrong_in_runs == 0,
            detail: format!(
                "{} of {} accounts differ",
                business.wrong_accounts, business.accounts
            ),
        },
        Check {
            name: "every entry counted once",
            ok: business.entries > 0
                && business.marked == business.entries
                && business.counted == business.entries,
            detail: format!(
                "{} entries, {} marked, {} counted into totals",
                business.entries, business.marked, business.counted
            ),
        },
        Check {
            name: "late entries counted by the second run",
            ok: !late_marks.is_empty()
                && late_marks
                    .iter()
                    .all(|(_, run)| run.as_ref() == facts.runs.get(1).map(|run| &run.key)),
            detail: {
                let second = facts.runs.get(1).map_or("", |run| run.key.as_str());
                let ids = late_marks.iter().map(|(id, run)| match run.as_deref() {
                    Some(run) if run == second => format!("id {id}"),
                    other => format!("id {id} by {}", other.unwrap_or("no run")),
                });
                format!("{second}: {}", ids.collect::<Vec<_>>().join(", "))
            },
        },
    ];
    match scene {
        Scene::Full => checks.extend(chaos_checks(facts)),
        Scene::CommitBeforeOpen => checks.push(early_commit_check(facts)),
        Scene::Gentle => {}
    }
    checks.push(Check {
        name: "history accepted by the checker",
        ok: history.accepted && (scene == Scene::Gentle || history.takeovers > 0),
        detail: format!(
            "{} events, {} rows, {} takeovers, {} late reports refused{}",
            history.events,
            history.rows,
            history.takeovers,
            history.refused_reports,
            history
                .violations
                .first()
                .map(|first| format!("; {first}"))
                .unwrap_or_default(),
        ),
    });
    checks
}

fn chaos_checks(facts: &Facts) -> Vec<Check> {
    let frozen = facts.frozen.as_ref();
    let stale = frozen.and_then(|frozen| {
        facts.refused_writes.iter().find(|write| {
            (write.pid, write.shard, write.token) == (frozen.pid, frozen.shard, frozen.token)
        })
    });
    let resumed = facts.takeovers.iter().all(|takeover| {
        takeover
            .checkpoint
            .is_none_or(|checkpoint| takeover.resumed_after == checkpoint)
    });
    vec![
        Check {
            name: "one worker killed",
            ok: facts.killed.is_some(),
            detail: facts.killed.as_ref().map_or_else(
                || "no moment was found to kill one".to_owned(),
                |killed| {
                    format!(
                        "{} (pid {}), holding shard {}",
                        killed.worker, killed.pid, killed.shard
                    )
                },
            ),
        },
        Check {
            name: "stale write refused",
            ok: stale.is_some_and(|write| write.last_id.is_some())
                && frozen.is_some_and(|frozen| !frozen.committed_late),
            detail: match (frozen, stale) {
                (None, _) => "no worker was frozen in the middle of a batch".to_owned(),
                (Some(frozen), None) => format!(
                    "{} (pid {}) with the old token {} was not refused",
                    frozen.worker,
                    frozen.pid,
                    short(frozen.token)
                ),
                (Some(frozen), Some(write)) => format!(
                    "{} (pid {}), token {} after {}: {}",
                    frozen.worker,
                    frozen.pid,
                    short(frozen.token),
                    short(frozen.taken_over_by),
                    write.database
                ),
            },
        },
        Check {
            name: "takeovers resumed at the checkpoint",
            ok: !facts.takeovers.is_empty() && resumed,
            detail: format!(
                "{} takeovers, {} of them where Sichen's copy was behind",
                facts.takeovers.len(),
                facts
                    .takeovers
                    .iter()
                    .filter(|t| t.display < t.checkpoint)
                    .count()
            ),
        },
    ]
}

/// The former holder committed between the grant and the successor's `open`.
fn early_commit_check(facts: &Facts) -> Check {
    let frozen = facts.frozen.as_ref();
    let successor = frozen.and_then(|frozen| {
        let theirs = |takeover: &&Takeover| takeover.shard == frozen.shard;
        facts.takeovers.iter().find(theirs)
    });
    let ok = match (frozen, successor) {
        (Some(frozen), Some(successor)) => {
            frozen.committed_late
                && successor.token == frozen.taken_over_by
                && successor.checkpoint >= Some(frozen.last_id)
                && successor.checkpoint == Some(successor.resumed_after)
        }
        _ => false,
    };
    let detail = match (frozen, successor) {
        (Some(frozen), Some(successor)) => format!(
            "{} (pid {}) up to id {}, after token {} was granted; that one began behind id {}",
            frozen.worker,
            frozen.pid,
            frozen.last_id,
            short(frozen.taken_over_by),
            successor.resumed_after,
        ),
        _ => "no commit between grant and open".to_owned(),
    };
    Check {
        name: "commit before open counted once",
        ok,
        detail,
    }
}

impl Report {
    /// For people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for check in &self.checks {
            let mark = if check.ok { "ok  " } else { "FAIL" };
            let _ = writeln!(out, "{mark}  {:<38} {}", check.name, check.detail);
        }
        for wrong in &self.business.examples {
            let _ = writeln!(
                out,
                "      account {}: expected {} in {} entries, settled {} in {}",
                wrong.account,
                wrong.expected_minor,
                wrong.expected_entries,
                wrong.settled_minor,
                wrong.settled_entries
            );
        }
        for violation in &self.history.violations {
            let _ = writeln!(out, "      {violation}");
        }
        if let Some(input) = self.input.as_ref().filter(|input| input.skipped > 0) {
            let _ = writeln!(out, "      {} bad rows skipped:", input.skipped);
            for example in &input.examples {
                let _ = writeln!(out, "        {example}");
            }
        }
        if let Some(kept) = &self.kept {
            let _ = writeln!(out, "      kept in {}", kept.display());
            if let Some(schemas) = &self.kept_schemas {
                let _ = writeln!(out, "      and in the {schemas}");
            }
        }
        let verdict = match (self.ok, self.zoo) {
            (true, None) => "All of it holds.".to_owned(),
            (false, None) => "NOT all of it holds.".to_owned(),
            (false, Some(zoo)) => format!("The deliberate mistake {zoo} was found."),
            (true, Some(zoo)) => format!("The deliberate mistake {zoo} did no harm this time."),
        };
        let _ = writeln!(out, "{verdict} ({:.1} s)", self.took_ms as f64 / 1000.0);
        out
    }
}

/// The mistake's name on the command line.
pub fn zoo_name(zoo: Zoo) -> &'static str {
    match zoo {
        Zoo::NoFence => "no-fence",
        Zoo::StartFromDisplayCheckpoint => "start-from-display-checkpoint",
    }
}
