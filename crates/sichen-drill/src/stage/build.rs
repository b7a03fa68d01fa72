//! Builds a drill's cluster: what it stands on, its store, servers and workers.
//!
//! # Not here
//! What is done with it ([`super`]).

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::{Stage, write};
use crate::business;
use crate::clock::Stopwatch;
use crate::cluster::Member;
use crate::database::{Database, watch};
use crate::drill::{BEAT_MS, Ground, Store};
use crate::error::Error;
use crate::ground::{self, Disk, Net};
use crate::home::Home;
use crate::load;
use crate::proxy::Proxy;
use crate::task::{self, Setting};

impl Stage {
    /// Builds the cluster and waits until it takes work.
    pub(crate) async fn build(&mut self, store: Option<&str>) -> Result<(), Error> {
        let business = |e| Error::stage("the business database", e);
        business::create(&self.home.business()).map_err(business)?;
        let content = business::content(&self.home.business()).map_err(business)?;
        self.seen.checksum_before = content.checksum;
        self.lay_ground().await?;
        self.lay_store(store).await?;
        self.serve().await?;
        self.hire()?;
        self.until_workers_are_there().await
    }

    /// Small disks, namespaces, a clock.
    async fn lay_ground(&mut self) -> Result<(), Error> {
        match self.drill.shape.ground {
            Ground::Plain => {}
            Ground::SmallJournal => self.disk = Some(Disk::mount(&self.home.worker("worker-1"))?),
            Ground::SmallStore => self.disk = Some(Disk::mount(&self.home.server())?),
            Ground::Namespaces => {
                let net = Net::make(self.drill.shape.workers).await?;
                let server = &mut self.cluster.servers[0];
                server.listen = format!("{}:0", net.server());
                server.words(["--allow-plaintext"]);
                self.net = Some(net);
            }
            Ground::OwnClock => {
                write(&self.home.clock(), "+0s\n")?;
                let server = &mut self.cluster.servers[0];
                server.variable("LD_PRELOAD", ground::faketime().unwrap_or_default());
                server.variable(
                    "FAKETIME_TIMESTAMP_FILE",
                    &self.home.clock().to_string_lossy(),
                );
                server.variable("FAKETIME_CACHE_DURATION", "1");
                // Timers must not jump: it is the wall clock alone that is set.
                server.variable("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            }
        }
        Ok(())
    }

    /// The database, and the way to it.
    async fn lay_store(&mut self, store: Option<&str>) -> Result<(), Error> {
        if store.is_none() && self.drill.store != Store::Postgres {
            self.seen.around.store = [
                ("store", "sqlite".to_owned()),
                ("store_version", sichen_store::sqlite::version()),
                ("store_settings", "the program's own".to_owned()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
            return Ok(());
        }
        let database = Database::open(store).await?;
        self.seen.around.store = database.conditions();
        for _ in 0..=self.drill.shape.peers {
            let link = Proxy::to(database.target()?).await;
            self.database_links
                .push(link.map_err(|e| Error::stage("a proxy", e))?);
        }
        self.watching.spawn(watch::watch(
            database.url().to_owned(),
            self.watched.clone(),
        ));
        self.database = Some(database);
        Ok(())
    }

    /// Starts the first server, and the way to it; then its peers.
    async fn serve(&mut self) -> Result<(), Error> {
        self.serve_one(0, self.home.server()).await?;
        self.program.server = self.cluster.servers[0].address.clone();
        let to = self.program.server.trim_start_matches("http://").to_owned();
        let link = Proxy::to(to).await;
        self.workers_link = Some(link.map_err(|e| Error::stage("a proxy", e))?);
        self.secrets
            .extend([read(&self.home, "token"), read(&self.home, "join-token")]);
        for n in 1..=self.drill.shape.peers as usize {
            let name = format!("server-{}", n + 1);
            let data = self.home.worker(&name);
            std::fs::create_dir_all(&data).map_err(|e| Error::folder(&data, e))?;
            // One cluster, one pair of tokens.
            for file in ["token", "join-token"] {
                let (from, to) = (self.home.server().join(file), data.join(file));
                std::fs::copy(from, &to).map_err(|e| Error::folder(&to, e))?;
            }
            let living = self.cluster.living.clone();
            let peer = Member::new(&self.program.exe, &name, &self.home.logs(), &living);
            self.cluster.servers.push(peer);
            self.serve_one(n, data).await?;
        }
        Ok(())
    }

    async fn serve_one(&mut self, n: usize, data: PathBuf) -> Result<(), Error> {
        let server = &mut self.cluster.servers[n];
        server.begin_with(as_server(data, self.drill.shape.session_ms));
        server.variable("SICHEN_LOG", "info");
        if let (Some(database), Some(link)) = (&self.database, self.database_links.get(n)) {
            // Not among its arguments, which everybody on the machine can read.
            server.variable("SICHEN_STORE", &database.store(link.address())?);
        }
        if server.start_server().await? {
            return Ok(());
        }
        let tail = self.home.tail(&server.name);
        Err(Error::stage(
            &format!("{} did not start", server.name),
            tail,
        ))
    }

    /// Starts the workers.
    fn hire(&mut self) -> Result<(), Error> {
        let secret = self.secrets[0].clone();
        let way = self.workers_link.as_ref().map(Proxy::address);
        let setting = Setting {
            business: self.home.business(),
            evidence: self.home.tasks(),
            slow: self.home.slow(),
            load: self.load().into(),
            mistake: self.plan.mistake,
        };
        let text = serde_json::to_string(&setting).map_err(|e| Error::stage("a setting", e))?;
        write(&self.home.setting(), &text)?;
        for n in 1..=self.drill.shape.workers {
            let name = format!("worker-{n}");
            let config = self.home.worker(&format!("{name}.json"));
            // JSON is YAML, too.
            let text = serde_json::json!({ "processes": { load::HANDLER: {
                "argv": [self.program.exe, "drill", "task"],
                "env": {
                    task::SETTING_VARIABLE: self.home.setting(),
                    task::WORKER_VARIABLE: name,
                    task::SECRET_VARIABLE: secret,
                },
            }}});
            write(&config, &text.to_string())?;
            let living = self.cluster.living.clone();
            let mut member = Member::new(&self.program.exe, &name, &self.home.logs(), &living);
            let place = self.cluster.workers.len();
            let server = match way.filter(|_| self.net.is_none()) {
                None => self.program.server.clone(),
                Some(way) => format!("http://{way}"),
            };
            let others: Vec<String> = self.cluster.servers[1..]
                .iter()
                .map(|p| p.address.clone())
                .collect();
            let slots = self.drill.shape.slots.to_string();
            member.words([
                "worker", "--name", &name, "--server", &server, "--slots", &slots,
            ]);
            for other in &others {
                member.words(["--server", other]);
            }
            member.words(["--drain-grace", "10s", "--config"]);
            member.words([
                config.into_os_string(),
                "--data".into(),
                self.home.worker(&name).into(),
            ]);
            member.words([
                "--join-token-file".into(),
                self.home.server().join("join-token").into_os_string(),
            ]);
            if let Some(space) = self.net.as_ref().and_then(|net| net.space(place)) {
                member.inside(space);
            }
            member.start()?;
            self.cluster.workers.push(member);
        }
        Ok(())
    }

    async fn until_workers_are_there(&self) -> Result<(), Error> {
        let watch = Stopwatch::start();
        loop {
            let there = self.program.json(&["get", "workers"]).await?;
            let count = there["items"].as_array().map_or(0, Vec::len);
            if count >= self.cluster.workers.len() {
                return Ok(());
            }
            if watch.is_past(Duration::from_secs(60)) {
                return Err(Error::stage(
                    "the workers did not register",
                    self.home.tail("worker-1"),
                ));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// The words of a server on `data`.
fn as_server(data: PathBuf, session_ms: u64) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["server".into(), "--data".into(), data.into()];
    words.extend(["--beat".into(), format!("{BEAT_MS}ms").into()]);
    words.extend(["--session-ttl".into(), format!("{session_ms}ms").into()]);
    words
}

fn read(home: &Home, name: &str) -> String {
    std::fs::read_to_string(home.server().join(name)).unwrap_or_default()
}
