//! Somebody else's old transaction: while it is open no dead row of the database goes away, and runs
//! must start as soon as ever all the same.
//!
//! # Not here
//! That the server names it after five minutes (its log says so while this runs).

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio_postgres::Client;

use super::Bench;
use crate::api::{Api, Start};
use crate::clock::{now_us, until};
use crate::load::JOB;
use crate::report::{Figure, Unit, share};

/// Runs a second.
const RATE: u64 = 200;
/// From the request to the instant before which its runs are not to start.
const AHEAD_US: i64 = 3_000_000;
/// How long the dead may take to go once the transaction has ended.
const CLEARED_WITHIN: Duration = Duration::from_mins(10);

impl Bench {
    /// DB-003: runs pass at a steady rate for so many minutes while a foreign transaction stays open.
    pub(super) async fn old(&self) -> Result<Vec<Figure>> {
        let seconds = self.sizes.minutes * 60;
        let n = RATE * seconds;
        let trial = self.trial("old", n).await?;
        let foreign = self.postgres.connect("old").await?;
        let begins = "begin isolation level repeatable read; select count(*) from shard";
        foreign.batch_execute(begins).await?;
        let costs = self.postgres.connect("postgres").await?;
        let (passed, claims) = tokio::join!(
            pass(&trial.api, RATE, seconds),
            claims(&costs, "old", seconds)
        );
        passed?;
        let claims = claims?;
        trial.all_final(n).await?;
        let rows = self.postgres.connect("old").await?;
        let (dead, bytes) = dead(&rows).await?;
        foreign.batch_execute("commit").await?;
        let cleared = cleared(&rows, dead).await?;
        let late = trial.end().await?;
        ensure!(
            late.iter().all(|us| *us >= 0),
            "a run started before its instant"
        );
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let (dead, mib) = (dead as f64, bytes as f64 / f64::from(1 << 20));
        Ok(vec![
            Figure::new("old_start_p50", share(&late, 0.5), Unit::Ms),
            Figure::new("old_start_p99", share(&late, 0.99), Unit::Ms),
            Figure::new("old_start_most", share(&late, 1.0), Unit::Ms),
            Figure::new("old_claim_p95", share(&claims, 0.95), Unit::Ms),
            Figure::new("old_dead_rows", dead, Unit::Count),
            Figure::new("old_tables", mib, Unit::MiB),
            Figure::new("old_cleared", cleared.as_secs_f64() * 1e3, Unit::Ms),
        ])
    }
}

/// Each second `rate` runs of a later one, at instants of their own: each waits for its instant and is claimed.
pub(super) async fn pass(api: &Api, rate: u64, seconds: u64) -> Result<()> {
    let begin = now_us();
    for second in 0..seconds {
        let asked = begin + i64::try_from(second)? * 1_000_000;
        until(asked).await;
        let runs = (0..rate).map(|i| {
            let at = asked + AHEAD_US + i64::try_from(i * 1_000_000 / rate)?;
            anyhow::Ok(Start {
                key: format!("passing {second}.{i}"),
                from_us: Some(at),
                not_before_us: Some(at),
            })
        });
        let runs: Vec<Start> = runs.collect::<Result<_>>()?;
        api.start_many(JOB, &runs).await?;
    }
    Ok(())
}

/// Of each second what finding and leasing what is ready took in the mean, by the slowest of its
/// statements; in microseconds.
pub(super) async fn claims(client: &Client, database: &str, seconds: u64) -> Result<Vec<i64>> {
    let text = "select substring(query from '^-- ([a-z_]+)'), sum(calls)::bigint, sum(total_exec_time)
        from pg_stat_statements s join pg_database d on d.oid = s.dbid
        where d.datname = $1 and query ~ '^-- (get_next_ready_at|list_ready_runs|list_ready_shards|lease_shard):'
        group by 1 order by 1";
    let asked = client.prepare(text).await?;
    let mut before = std::collections::BTreeMap::<String, (i64, f64)>::new();
    let mut slowest = Vec::new();
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut most = None::<f64>;
        for row in client.query(&asked, &[&database]).await? {
            let (name, calls, ms): (String, i64, f64) = (row.get(0), row.get(1), row.get(2));
            let (calls0, ms0) = before.insert(name, (calls, ms)).unwrap_or_default();
            if calls > calls0 {
                #[expect(clippy::cast_precision_loss, reason = "a few thousand calls")]
                let mean = (ms - ms0) * 1e3 / (calls - calls0) as f64;
                most = Some(most.map_or(mean, |most| most.max(mean)));
            }
        }
        #[expect(clippy::cast_possible_truncation, reason = "microseconds")]
        slowest.extend(most.map(|us| us.round() as i64));
    }
    ensure!(!slowest.is_empty(), "nothing was claimed");
    Ok(slowest)
}

/// Dead rows, and the size of the tables and their indexes in bytes.
async fn dead(client: &Client) -> Result<(i64, i64)> {
    let text = "select sum(n_dead_tup)::bigint, sum(pg_total_relation_size(relid))::bigint
        from pg_stat_user_tables";
    let row = client.query_one(text, &[]).await?;
    Ok((row.get(0), row.get(1)))
}

/// How long it takes until nine of ten dead rows are gone.
async fn cleared(client: &Client, before: i64) -> Result<Duration> {
    let begin = now_us();
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let took = Duration::from_micros(u64::try_from(now_us() - begin)?);
        let (left, _) = dead(client).await?;
        if left <= before / 10 {
            return Ok(took);
        }
        ensure!(
            took < CLEARED_WITHIN,
            "{left} dead rows are left of {before}"
        );
    }
}
