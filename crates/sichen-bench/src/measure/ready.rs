//! What dispatch costs by how much waits: many ready shards and few, over as many namespaces, and 200
//! workers that speak the real protocol.
//!
//! Both databases are filled by one server and measured with the next one, so that memory is dispatch's own.
//!
//! # Not here
//! The workers ([`crate::fleet`]).

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;
use tokio_postgres::Client;

use super::Bench;
use crate::clock::now_us;
use crate::fleet;
use crate::load;
use crate::process::{FleetProcess, Server};
use crate::report::{Figure, Unit, note, share};

/// Namespaces that the shards are spread over.
pub const NAMESPACES: u32 = 1_000;
/// Shards of each where few wait: they fall to a thousand in all while slots' turns are measured.
const FEW: u32 = 6;
const SESSIONS: u32 = 200;
/// While turns are measured each worker has one slot, and is given about this many shards a second in all.
const TURNS_EACH_SECOND: u32 = 500;
const TURNS_FOR: Duration = Duration::from_secs(10);
/// While the rate is measured slots are not what it waits for.
const SLOTS: u32 = 50;
const RATE_FOR: Duration = Duration::from_secs(15);
/// Until all workers have sessions and the first shards.
const WARM: Duration = Duration::from_secs(4);
/// How long is looked on after the owner was killed.
const AFTER_KILL: Duration = Duration::from_secs(12);

/// A database with shards that wait, and a server on it.
struct Stage<'a> {
    bench: &'a Bench,
    database: &'static str,
    rows: Client,
    server: Server,
    data: TempDir,
}

impl<'a> Stage<'a> {
    async fn start(bench: &'a Bench, database: &'static str, each: u32) -> Result<Self> {
        bench.postgres.create(database).await?;
        let data = tempfile::Builder::new()
            .prefix("sichen-bench-")
            .tempdir_in(&bench.place)?;
        let url = bench.postgres.url(database);
        let home = data.path().join("first");
        let mut first = Server::start(&bench.sichen, &url, home.clone()).await?;
        let began = now_us();
        load::waiting(&first.api()?, NAMESPACES, each).await?;
        let took = (now_us() - began) / 1_000;
        first.process.stop().await?;
        let rows = bench.postgres.connect(database).await?;
        let counted = "select count(*) from shard where state = 'scheduled'";
        let waiting: i64 = rows.query_one(counted, &[]).await?.get(0);
        ensure!(
            waiting == i64::from(NAMESPACES) * i64::from(each),
            "{waiting} shards wait"
        );
        note(&format!(
            "{waiting} shards wait; writing them took {took} ms"
        ));
        rows.batch_execute("vacuum analyze").await?;
        let server = Server::start(&bench.sichen, &url, home).await?;
        Ok(Self {
            bench,
            database,
            rows,
            server,
            data,
        })
    }

    fn fleet(
        &self,
        name: &str,
        peers: &[&Server],
        slots: u32,
        hold: Duration,
    ) -> Result<FleetProcess> {
        let mut servers = vec![self.server.url.clone()];
        servers.extend(peers.iter().map(|peer| peer.url.clone()));
        FleetProcess::start(&fleet::Options {
            servers,
            join_token: self.server.join_token()?,
            data: self.data.path().join(name),
            sessions: SESSIONS,
            slots,
            hold,
        })
    }

    /// Attempts that were granted so far.
    async fn granted(&self) -> Result<i64> {
        let text = "select coalesce(sum(attempt), 0)::bigint from shard where token > 0";
        Ok(self.rows.query_one(text, &[]).await?.get(0))
    }

    /// How long slots stand empty, in microseconds each, and the server's memory.
    async fn turns(&self) -> Result<(Vec<i64>, f64)> {
        let hold = Duration::from_millis(u64::from(1_000 * SESSIONS / TURNS_EACH_SECOND));
        let mut fleet = self.fleet("turns", &[], 1, hold)?;
        fleet.process.line().await?;
        tokio::time::sleep(TURNS_FOR).await;
        let memory = self.server.process.memory_mib().1;
        Ok((fleet.turns().await?, memory))
    }

    /// Grants a second at full load: each was committed, and its attempt ended.
    async fn rate(&self) -> Result<Figure> {
        let mut fleet = self.fleet("rate", &[], SLOTS, Duration::ZERO)?;
        fleet.process.line().await?;
        tokio::time::sleep(WARM).await;
        let (from, before) = (now_us(), self.granted().await?);
        tokio::time::sleep(RATE_FOR).await;
        let (after, to) = (self.granted().await?, now_us());
        fleet.turns().await?;
        let granted = u64::try_from(after - before)?;
        Ok(Figure::rate("ready_many_grants", granted, to - from))
    }

    /// The longest time without a grant when the owner of the pool is killed, in milliseconds.
    async fn takeover(&mut self) -> Result<Figure> {
        let home = self.data.path().join("second");
        std::fs::create_dir(&home)?;
        for file in ["token", "join-token"] {
            std::fs::copy(self.data.path().join("first").join(file), home.join(file))?;
        }
        let url = self.bench.postgres.url(self.database);
        let mut peer = Server::start(&self.bench.sichen, &url, home).await?;
        let mut fleet = self.fleet("takeover", &[&peer], 5, Duration::from_millis(200))?;
        fleet.process.line().await?;
        tokio::time::sleep(WARM + WARM).await;
        let owner = "select n.address from duty d join node n on n.id = d.node_id
            where d.key = 'pool/default'";
        let owner: String = self.rows.query_one(owner, &[]).await?.get(0);
        if owner == peer.url {
            std::mem::swap(&mut peer, &mut self.server);
        }
        ensure!(owner == self.server.url, "nobody at {owner} was started");
        let killed = now_us();
        self.server.process.kill().await?;
        tokio::time::sleep(AFTER_KILL).await;
        let end = now_us();
        fleet.turns().await?;
        let text = "select started_at from shard where started_at between $1 and $2 order by 1";
        let from = killed - 1_000_000;
        let rows = self.rows.query(text, &[&from, &end]).await?;
        let starts: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        let after = starts.iter().filter(|at| **at > killed).count();
        let gaps = starts.windows(2).map(|pair| pair[1] - pair[0]);
        let last = starts.last().map(|last| end - last);
        let longest = gaps.chain(last).max().context("nothing was granted")?;
        note(&format!("{after} grants within {AFTER_KILL:?} of the kill"));
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let longest = longest as f64 / 1e3;
        // What is killed can't be stopped any more.
        self.server = peer;
        Ok(Figure::new("ready_takeover", longest, Unit::Ms))
    }

    async fn end(mut self) -> Result<()> {
        self.server.process.stop().await?;
        if std::env::var_os("SICHEN_BENCH_COSTS").is_some() {
            for line in self.bench.postgres.costs(self.database).await? {
                note(&line);
            }
        }
        let url = self.bench.postgres.url(self.database);
        accepted(&self.bench.sichen, &url).await?;
        drop(self.rows);
        self.bench.postgres.drop_database(self.database).await
    }
}

/// The checker's verdict of a history in which much waits still.
async fn accepted(sichen: &Path, store: &str) -> Result<()> {
    super::trial::verify(sichen, store, false).await.map(drop)
}

impl Bench {
    /// Dispatch beside few ready shards and beside many.
    pub(super) async fn ready(&self) -> Result<Vec<Figure>> {
        let few = Stage::start(self, "ready_few", FEW).await?;
        let (few_turns, few_memory) = few.turns().await?;
        few.end().await?;
        let each = self.sizes.ready / NAMESPACES;
        let mut many = Stage::start(self, "ready_many", each.max(FEW)).await?;
        let (turns, memory) = many.turns().await?;
        let p99 = (share(&few_turns, 0.99), share(&turns, 0.99));
        let mut figures = vec![
            Figure::new("ready_few_turn_p50", share(&few_turns, 0.5), Unit::Ms),
            Figure::new("ready_many_turn_p50", share(&turns, 0.5), Unit::Ms),
            Figure::new("ready_few_turn_p99", p99.0, Unit::Ms),
            Figure::new("ready_many_turn_p99", p99.1, Unit::Ms),
            Figure::new("ready_turn_p99_ratio", p99.1 / p99.0, Unit::Count),
            Figure::new("memory_server_ready_few", few_memory, Unit::MiB),
            Figure::new("memory_server_ready_many", memory, Unit::MiB),
            Figure::new("ready_memory_ratio", memory / few_memory, Unit::Count),
        ];
        figures.push(many.rate().await?);
        figures.push(many.takeover().await?);
        many.end().await?;
        Ok(figures)
    }
}
