//! What jobs share, and what users do to it: a capacity of units and one of a rate, resized while
//! they are used, and namespaces whose limits come and go.
//!
//! # Invariants
//! - Chance is drawn from a generator of its own: a cluster without them is what it was before there
//!   were any.
//! - From the heal on there is enough of everything, so that all can come to rest.
//!
//! # Not here
//! What is held and taken, against the limits in force: the checker judges it (I32, I33).

use std::collections::{BTreeMap, BTreeSet};

use sichen_check::Acknowledged;
use sichen_core::document::{CapacityDocument, CapacitySpec};
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::ShardKey;
use sichen_core::model::{Dump, NamespaceChange};
use sichen_core::name::Name;
use sichen_core::port::{ApplyCapacity, CapacityVerdict};

use super::{Duty, Ev, Sim};

/// The capacities: of units, and of a rate (and now and then of units, too).
const CAPACITIES: [&str; 2] = ["connections", "calls"];
/// The namespaces that jobs are in.
const NAMESPACES: [&str; 3] = ["default", "red", "blue"];
/// What an attempt uses at most: no limit but 0 is lower, so that each use can be met.
const MOST: usize = 2;

impl Sim {
    /// The namespace of a job to come, and what its attempts use.
    pub(super) fn share_of_job(&mut self) -> (&'static str, serde_json::Value) {
        let mut uses = serde_json::Map::new();
        if !self.options.shared {
            return (NAMESPACES[0], uses.into());
        }
        for name in CAPACITIES {
            if self.sharing.chance(500) {
                uses.insert(name.to_owned(), (1 + self.sharing.below(MOST)).into());
            }
        }
        (
            NAMESPACES[self.sharing.below(NAMESPACES.len())],
            uses.into(),
        )
    }

    /// The priority of a job to come, and whether it asks for slots or gives its own up.
    pub(super) fn rank_of_job(&mut self) -> (i32, serde_json::Value) {
        let mut preemption = serde_json::Map::new();
        if !self.options.preempting {
            return (0, serde_json::Value::Null);
        }
        let rng = &mut self.preempting;
        preemption.insert("preempts".to_owned(), rng.chance(500).into());
        if rng.chance(600) {
            let after = format!("{}s", 1 + rng.below(4));
            let yields = serde_json::json!({ "after": after, "times": 1 + rng.below(6) });
            preemption.insert("yields".to_owned(), yields);
        }
        let priority = i32::try_from(rng.below(4)).unwrap_or(0);
        (priority, preemption.into())
    }

    /// The first limits, and the first change of them.
    pub(super) fn begin_sharing(&mut self) {
        if !self.options.shared {
            return;
        }
        for name in CAPACITIES {
            let spec = self.draw_limits(name);
            self.resize(name, spec);
        }
        self.push_in(5_000_000, Ev::Share);
    }

    /// A user changes a limit now and then.
    pub(super) fn share(&mut self) {
        if self.healed {
            return;
        }
        match self.sharing.below(5) {
            n @ 0..2 => {
                let spec = self.draw_limits(CAPACITIES[n]);
                self.resize(CAPACITIES[n], spec);
            }
            _ => {
                let limit = self.sharing.chance(700);
                let most = limit.then(|| 1 + u32::try_from(self.sharing.below(6)).unwrap_or(0));
                let weight = Some(1 + u32::try_from(self.sharing.below(3)).unwrap_or(0));
                let name = NAMESPACES[self.sharing.below(NAMESPACES.len())];
                self.limit(name, weight, most);
            }
        }
        for server in 0..self.servers.len() {
            self.wake(server, Duty::Dispatch);
        }
        let wait = self.sharing.between(1_000_000, 10_000_000);
        self.push_in(wait, Ev::Share);
    }

    /// Enough of everything.
    pub(super) fn share_plenty(&mut self) {
        if !self.options.shared {
            return;
        }
        for name in CAPACITIES {
            let spec = CapacitySpec {
                units: Some(100),
                rate: Some("100/s".to_owned()),
                burst: None,
            };
            self.resize(name, spec);
        }
        for name in NAMESPACES {
            self.limit(name, None, None);
        }
    }

    fn draw_limits(&mut self, name: &str) -> CapacitySpec {
        let units = [0, 2, 3, 4, 6, 10][self.sharing.below(6)];
        let rate = ["60/m", "2/s", "4/s", "8/s"][self.sharing.below(4)];
        let burst = 2 + u32::try_from(self.sharing.below(4)).unwrap_or(0);
        let of_rate = name == CAPACITIES[1];
        let units = (!of_rate || self.sharing.chance(300)).then_some(units);
        CapacitySpec {
            units,
            rate: of_rate.then(|| rate.to_owned()),
            burst: of_rate.then_some(burst),
        }
    }

    fn resize(&mut self, name: &str, spec: CapacitySpec) {
        let document = CapacityDocument::new(name, spec);
        let name = Name::new(name).expect("a name");
        let found = self.at_once(self.store.get_capacities(vec![name.clone()]));
        let expected = found.expect("memory answers").pop().map(|s| s.capacity.ver);
        let apply = ApplyCapacity {
            name,
            expected,
            limits: document.limits(),
            document: serde_json::to_string(&document).expect("a document is JSON"),
        };
        let op = self.op("user sim");
        let asked = Acknowledged::Op(op.id);
        let applied = self.at_once(self.store.apply_capacity(op, apply));
        // What changes nothing is not in the log.
        if !matches!(applied, Ok(CapacityVerdict::Unchanged(_))) {
            self.acks.push(asked);
        }
    }

    fn limit(&mut self, name: &str, weight: Option<u32>, most: Option<u32>) {
        let change = NamespaceChange {
            weight,
            max_running: Some(most),
            ..NamespaceChange::default()
        };
        let op = self.op("user sim");
        let name = Name::new(name).expect("a name");
        let set = self.at_once(self.store.set_namespace(op, name, change));
        set.expect("memory takes it");
    }

    /// No grant went beyond what its namespace might have at that moment: the log is in the order of
    /// commits here.
    pub(super) fn judge_namespaces(&mut self, dump: &Dump) {
        let runs = dump.runs.iter();
        let of: BTreeMap<_, _> = runs.map(|r| (r.id, &r.job_name.namespace)).collect();
        let mut limits: BTreeMap<&Name, Option<u64>> = BTreeMap::new();
        let mut running: BTreeMap<&Name, BTreeSet<ShardKey>> = BTreeMap::new();
        for event in &dump.events {
            let shard = |key: &ShardKey| of.get(&key.run).map(|name| (*name, *key));
            match (&event.entity, event.kind) {
                (Entity::Namespace(name), Kind::NamespaceSet) => {
                    let data: serde_json::Value =
                        serde_json::from_str(&event.data).unwrap_or_default();
                    limits.insert(name, data["max_running"].as_u64());
                }
                (Entity::Shard(key), Kind::AttemptGranted) => {
                    let Some((name, key)) = shard(key) else {
                        continue;
                    };
                    let now = running.entry(name).or_default();
                    now.insert(key);
                    let most = limits.get(name).copied().flatten();
                    if most.is_some_and(|most| now.len() as u64 > most) {
                        self.problems.push(format!(
                            "event {}: shard {key} is the {}th that runs in namespace {name}, whose limit is {most:?}",
                            event.seq,
                            now.len()
                        ));
                    }
                }
                (Entity::Shard(key), Kind::AttemptEnded) => {
                    if let Some((name, key)) = shard(key) {
                        running.entry(name).or_default().remove(&key);
                    }
                }
                _ => {}
            }
        }
    }
}
