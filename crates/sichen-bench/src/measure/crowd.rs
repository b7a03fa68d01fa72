//! A crowd of runs that are not due for long, or may not start: what is due is claimed as fast as ever.
//!
//! # Not here
//! That no statement touches more rows than it answers (the store's tests of plans).

use anyhow::{Result, ensure};

use super::Bench;
use super::old::{claims, pass};
use crate::load::{self, JOB};
use crate::report::{Figure, Unit, share};

/// Runs that come due each second meanwhile.
const DUE: u64 = 10;
/// Of so many runs that wait for a later instant one waits for a limit.
const BLOCKED: u64 = 10;

impl Bench {
    /// DB-009: claims beside a crowd.
    pub(super) async fn crowd(&self) -> Result<Vec<Figure>> {
        let (n, seconds) = (self.sizes.crowd, self.sizes.seconds.max(20));
        let trial = self.trial("crowd", DUE * seconds).await?;
        trial.api.apply(load::gate(1)).await?;
        trial.api.apply(load::behind_the_gate("blocked")).await?;
        trial.api.apply(load::gate(0)).await?;
        load::later(&trial.api, JOB, n).await?;
        load::many(&trial.api, "blocked", n / BLOCKED).await?;
        let costs = self.postgres.connect("postgres").await?;
        let passing = pass(&trial.api, DUE, seconds);
        let (passed, claims) = tokio::join!(passing, claims(&costs, "crowd", seconds));
        passed?;
        let claims = claims?;
        trial.started(DUE * seconds).await?;
        let mut figures = trial.memory("crowd");
        let late = trial.leave().await?;
        ensure!(
            late.iter().all(|us| *us >= 0),
            "a run started before its instant"
        );
        figures.extend([
            Figure::new("crowd_start_p50", share(&late, 0.5), Unit::Ms),
            Figure::new("crowd_start_most", share(&late, 1.0), Unit::Ms),
            Figure::new("crowd_claim_p95", share(&claims, 0.95), Unit::Ms),
        ]);
        Ok(figures)
    }
}
