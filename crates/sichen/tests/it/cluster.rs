//! Several servers on one PostgreSQL, each behind links that can be cut.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use sichen_testdb::proxy::Proxy;

use crate::database::Database;
use crate::program::{Process, command, err, until};
use crate::scene::{Answer, Scene, text};

/// What a busy machine may add to the bounds of the design.
pub const BUSY: Duration = Duration::from_secs(3);

/// A node's lease, after which another may take what a silent one had, and what noticing takes.
pub const SILENT: Duration = Duration::from_secs(5 + 2);

/// What lies between the servers and others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Links {
    /// Each server reaches the database by a proxy of its own.
    pub database: bool,
    /// Workers reach each server by a proxy, which is where its peers send them.
    pub workers: bool,
}

/// Several servers on one PostgreSQL; the database goes last.
pub struct Peers {
    /// One server each.
    pub nodes: Vec<Scene>,
    /// Each one's way to the database, where there is one of its own.
    pub links: Vec<Proxy>,
    /// The workers' way to each, where there is one.
    pub doors: Vec<Proxy>,
    pub database: Database,
}

impl Peers {
    /// `n` of them, started with these options; `None` if there is no database.
    pub fn new(n: usize, more: &[&str]) -> Option<Self> {
        Self::linked(n, Links::default(), more)
    }

    /// The same, with links between that can be cut.
    pub fn linked(n: usize, links: Links, more: &[&str]) -> Option<Self> {
        let database = Database::start()?;
        let store = database.url();
        Some(Self::on(n, database, &store, links, more))
    }

    /// The same, on this address of the database.
    pub fn on(n: usize, database: Database, store: &str, links: Links, more: &[&str]) -> Self {
        let mut peers = Self {
            nodes: Vec::new(),
            links: Vec::new(),
            doors: Vec::new(),
            database,
        };
        for _ in 0..n {
            peers.add(store, links, more, Vec::new());
        }
        peers
    }

    /// One for each of these, by which its wall clock is wrong, such as `+10m`; `None` if there is no
    /// database, or nothing by which a clock is made wrong.
    pub fn with_clocks(wrong_by: &[&str], more: &[&str]) -> Option<Self> {
        let library = sichen_testdb::faketime()?;
        let database = Database::start()?;
        let store = database.url();
        let mut peers = Self::on(0, database, &store, Links::default(), more);
        for wrong in wrong_by {
            let variables = [
                ("LD_PRELOAD", text(&library)),
                ("FAKETIME", wrong),
                // Else no timer of tokio's would ever end.
                ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
                ("NO_FAKE_STAT", "1"),
            ];
            let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
            let variables = variables.map(owned).to_vec();
            peers.add(&store, Links::default(), more, variables);
        }
        Some(peers)
    }

    /// One for each of these variables of its process, on this database.
    pub fn in_surroundings(each: &[(&str, &str)], database: Database, more: &[&str]) -> Self {
        let store = database.url();
        let mut peers = Self::on(0, database, &store, Links::default(), more);
        for (name, value) in each {
            let variables = vec![((*name).to_owned(), (*value).to_owned())];
            peers.add(&store, Links::default(), more, variables);
        }
        peers
    }

    /// One more, started with these options too.
    pub fn join(&mut self, more: &[&str]) {
        let store = self.database.url();
        self.add(&store, Links::default(), more, Vec::new());
    }

    fn add(&mut self, store: &str, links: Links, more: &[&str], variables: Vec<(String, String)>) {
        let dir = tempfile::tempdir().unwrap();
        if let Some(first) = self.nodes.first() {
            // Whoever may speak to one may speak to all.
            let data = dir.path().join("server");
            std::fs::create_dir(&data).unwrap();
            for token in ["token", "join-token"] {
                let from = first.path("server").join(token);
                std::fs::copy(from, data.join(token)).unwrap();
            }
        }
        let mut store = store.to_owned();
        if links.database {
            let link = Proxy::to(&self.database.address());
            store = self.database.url_at(&link.address);
            self.links.push(link);
        }
        let mut words = more.to_vec();
        let door = links.workers.then(Proxy::ahead);
        if let Some(door) = &door {
            words.extend(["--advertise", &door.url]);
        }
        let node = Scene::on(dir, Some(store), &words, variables);
        if let Some(door) = door {
            door.leads_to(&node.server.url);
            self.doors.push(door);
        }
        self.nodes.push(node);
    }

    /// What one more server with these options says when it must not start.
    pub fn refused(&self, more: &[&str]) -> String {
        let (data, store) = (self.nodes[0].path("more"), self.database.url());
        let mut words = vec!["server", "--data", text(&data), "--store", &store];
        words.extend(more);
        let output = command(&words).output().unwrap();
        assert!(!output.status.success());
        err(&output)
    }

    /// A worker that knows of all of them, with the first one's clock.
    pub fn worker(&self, name: &str, slots: u32) -> Process {
        let urls: Vec<&str> = (0..self.nodes.len()).map(|n| self.address(n)).collect();
        self.nodes[0].worker(name, &urls.join(","), slots)
    }

    /// Where peers and workers find a server.
    pub fn address(&self, n: usize) -> &str {
        match self.doors.get(n) {
            Some(door) => &door.url,
            None => &self.nodes[n].server.url,
        }
    }

    /// How many duties each address owns, as server `n` tells it; each has one owner.
    pub fn shares(&self, n: usize) -> BTreeMap<String, usize> {
        let members = self.nodes[n].client.json("get members");
        let mut shares = BTreeMap::new();
        for duty in members["duties"].as_array().unwrap() {
            let owner = address_of(&members, &duty["node"]);
            *shares
                .entry(owner.unwrap_or_else(|| "nobody".to_owned()))
                .or_default() += 1;
        }
        shares
    }

    /// The number of the server that has the workers' pool, one of these.
    pub fn owner(&self, among: &[usize]) -> usize {
        self.owner_of("pool/default", among)
    }

    /// The number of the server that has the trigger of this job, one of these.
    pub fn owner_of_job(&self, job: &str, among: &[usize]) -> usize {
        let query =
            format!("select partition from job where name = '{job}' and deleted_at is null");
        let partition = self.database.connect().number(&query);
        self.owner_of(&format!("trigger/{partition}"), among)
    }

    /// The number of the server that has this duty, one of these.
    pub fn owner_of(&self, key: &str, among: &[usize]) -> usize {
        let mut found = None;
        until(&format!("{key} has an owner among the living"), || {
            let members = self.nodes[among[0]].client.json("get members");
            let duties = members["duties"].as_array().unwrap();
            let duty = duties.iter().find(|duty| duty["key"] == key);
            let address = duty.and_then(|duty| address_of(&members, &duty["node"]));
            let is_owner = |n: &usize| Some(self.address(*n)) == address.as_deref();
            found = among.iter().copied().find(is_owner);
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits until these, and nobody else, share the duties.
    pub fn all_share(&self, among: &[usize]) {
        let urls: BTreeSet<String> = among.iter().map(|n| self.address(*n).to_owned()).collect();
        until("they share the duties", || {
            let shares = self.shares(among[0]);
            let owners: BTreeSet<String> = shares.keys().cloned().collect();
            owners == urls && shares.values().all(|n| *n >= 5)
        });
    }

    /// Whether somebody other than server `dead` owns every duty.
    pub fn taken_over(&self, seen_by: usize, dead: usize) -> bool {
        let shares = self.shares(seen_by);
        !shares.contains_key(self.address(dead)) && !shares.contains_key("nobody")
    }

    /// Waits until all are ready; how long that took.
    pub fn all_ready(&self) -> Duration {
        let from = Instant::now();
        until("all are ready", || {
            self.nodes.iter().all(|node| node.ready().0 == 200)
        });
        from.elapsed()
    }

    /// SIGKILL.
    pub fn kill(&mut self, n: usize) {
        self.nodes[n].server.signal(Signal::SIGKILL);
        self.nodes[n].server.ended();
    }
}

/// Where a node is reached.
fn address_of(members: &Value, id: &Value) -> Option<String> {
    let nodes = members["nodes"].as_array().unwrap();
    let node = nodes.iter().find(|node| node["id"] == *id)?;
    Some(node["address"].as_str().unwrap().to_owned())
}

/// Asks a node for a run, once.
pub fn asks_for(node: &Scene, job: &str, key: &str, parameters: &Value) -> Answer {
    let path = format!("/api/v1/jobs/default/{job}/runs");
    let body = json!({ "key": key, "parameters": parameters });
    node.ask("POST", &path, &body.to_string())
}
