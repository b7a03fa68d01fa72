//! Rows that the log has and the store has not (I46, the other way round).
//!
//! A row without events is found when the row is given; events without a row can only be found once
//! all rows are in.
//!
//! # Not here
//! Runs that retention removed: their events went with them.

use sichen_core::event::Entity;
use sichen_core::ids::RunId;

use super::{Checker, FinalRow};
use crate::fold::Broken;
use crate::verdict::{Invariant, Step};

impl Checker {
    /// Remembers that a row was given.
    pub(super) fn note_row(&mut self, row: &FinalRow<'_>) {
        let entity = match row {
            FinalRow::Run(run) => Entity::Run(run.id),
            FinalRow::Job(job) => Entity::Job(job.uid),
            FinalRow::Session(session) => Entity::Session(session.id),
            FinalRow::Duty(duty) => Entity::Duty(duty.key.text()),
            FinalRow::Shard(shard) => {
                // The plan step is no shard of the input and not among those counted in the log.
                if !shard.key.no.is_plan() {
                    *self.rows.shards_of.entry(shard.key.run).or_default() += 1;
                }
                return;
            }
            FinalRow::Backfill(backfill) => Entity::Backfill(backfill.id),
            FinalRow::Decision(..) | FinalRow::Hold(_) => return,
        };
        self.rows.seen.insert(entity);
    }

    /// Reports what has events and no row, and runs with fewer or more shards than were written.
    pub(super) fn judge_lost_rows(&mut self) {
        let runs = self.runs.iter().map(|(id, f)| (Entity::Run(*id), &f.trail));
        let jobs = self.jobs.iter().map(|(id, f)| (Entity::Job(*id), &f.trail));
        let sessions = self
            .sessions
            .iter()
            .map(|(id, f)| (Entity::Session(*id), &f.trail));
        let duties = self
            .duties
            .iter()
            .map(|(key, f)| (Entity::Duty(key.clone()), &f.trail));
        let backfills = self.backfills.iter();
        let backfills = backfills.map(|(id, f)| (Entity::Backfill(*id), &f.trail));
        let lost: Vec<(Entity, Option<Step>)> = runs
            .chain(jobs)
            .chain(sessions)
            .chain(duties)
            .chain(backfills)
            .filter(|(entity, trail)| {
                trail.ver > 0 && !trail.closed && !self.rows.seen.contains(entity)
            })
            .map(|(entity, trail)| (entity, trail.last))
            .collect();
        for (entity, last) in lost {
            let message = "the log has it, the row is missing".to_owned();
            self.close(&entity);
            self.report(
                entity,
                Broken(Invariant::I46, message),
                last.into_iter().collect(),
            );
        }
        let counts: Vec<(RunId, u32, u32)> = self
            .runs
            .iter()
            .filter(|(_, fold)| fold.trail.ver > 0 && !fold.trail.closed && !fold.unsure)
            .map(|(id, fold)| (*id, fold.written, self.rows.shards_of.get(id).copied()))
            .map(|(id, written, rows)| (id, written, rows.unwrap_or(0)))
            .filter(|(_, written, rows)| written != rows)
            .collect();
        for (id, written, rows) in counts {
            let message = format!("the log has {written} shards, there are {rows} rows");
            self.report(Entity::Run(id), Broken(Invariant::I46, message), Vec::new());
        }
    }
}
