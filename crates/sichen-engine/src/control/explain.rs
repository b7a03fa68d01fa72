//! Why a run is not further: one chain of reasons, the nearest cause first.
//!
//! # Invariants
//! - [`reasons`] is pure: what it says follows from the facts that it is given.
//! - It explains what the dispatcher would do; it decides nothing.
//!
//! # Not here
//! The dispatcher's decision (`sichen_core::dispatch`), which of the reasons of a ready shard is the one
//! (`sichen_core::dispatch::why`), how reasons are shown.

mod awaited;
mod failed;
mod place;
mod recalled;
mod seen;
mod shard;
mod waiting;

use std::sync::Arc;

use jiff::Timestamp;
use sichen_core::capacity::Lack;
use sichen_core::dispatch::why::{self, Reason, why};
use sichen_core::document::{PACE, PROCESS_HANDLER};
use sichen_core::ids::{NodeId, RunId, SessionId, ShardKey, ShardNo};
use sichen_core::lease::has_expired;
use sichen_core::lifecycle::{ShardState, WaitsFor};
use sichen_core::model::{DutyKey, Hold, Node, Run, Session, Shard, Standing};
use sichen_core::name::Name;
use sichen_core::place::{Resources, Terms, hash_of};
use sichen_core::port::{MAX_PAGE, Page, RunFilter};
use sichen_core::restore::Restore;

use super::{Control, Error};
pub use seen::Sees;
pub use waiting::Waiting;

/// Holds of each capacity that an explanation names.
const NAMED_HOLDS: u32 = 3;

/// One reason, with a word for programs and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// `closed`, `stopping`, `backoff`, `parallelism`, `no_worker`, …
    pub word: &'static str,
    /// For people.
    pub text: String,
    /// How many shards it is the reason of; 0 if it is the run's alone.
    pub shards: u32,
    /// Since when the first of them has waited: it could have been granted from then on, or was written
    /// then.
    pub since: Option<Timestamp>,
    /// What ends the wait.
    pub ends: String,
}

/// What a chain of reasons is built from.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The run.
    pub run: Run,
    /// Its open shards.
    pub waiting: Waiting,
    /// Sessions of its pool that are not ended, and how many shards each holds.
    pub sessions: Vec<(Session, u32)>,
    /// What the shards of each of them take of its resources, if the run asks for any.
    pub uses: Vec<Resources>,
    /// Where its shards may run, if its job says so.
    pub terms: Option<Arc<Terms>>,
    /// If it waits for others of its job: those that are open and older, newest first.
    pub ahead: Vec<RunId>,
    /// How the capacities stand that it uses.
    pub capacities: Vec<Standing>,
    /// Who holds those, the first few of each.
    pub holds: Vec<Hold>,
    /// A restore that is not decided.
    pub restore: Option<Restore>,
    /// Who owns the pool, if its owner lives.
    pub owner: Option<NodeId>,
    /// How many shards of its job run, and how many may, if that is limited.
    pub job: Option<(u32, u32)>,
    /// How many shards of its namespace run, and how many may, if that is limited.
    pub namespace: Option<(u32, u32)>,
    /// The store's clock.
    pub now: Timestamp,
}

impl Control {
    /// Why the run is where it is.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the store's.
    pub async fn explain(&self, run: RunId) -> Result<(Run, Vec<Why>), Error> {
        self.explain_to(&|_| true, run).await
    }

    /// The same to one who sees these namespaces.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the store's.
    pub async fn explain_to(&self, sees: Sees<'_>, run: RunId) -> Result<(Run, Vec<Why>), Error> {
        let mut facts = self.facts(run, None).await?;
        seen::hide_holders(&*self.context.store, &mut facts, sees).await?;
        let mut reasons = reasons(&facts);
        reasons.extend(failed::reasons(&*self.context.store, &facts.run).await?);
        reasons.extend(recalled::reasons(&*self.context.store, &facts.run, None).await?);
        Ok((facts.run, reasons))
    }

    /// Why one shard of the run is where it is.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the store's.
    pub async fn explain_shard(
        &self,
        run: RunId,
        no: ShardNo,
    ) -> Result<(Run, Shard, Vec<Why>), Error> {
        self.explain_shard_to(&|_| true, run, no).await
    }

    /// The same to one who sees these namespaces.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the store's.
    pub async fn explain_shard_to(
        &self,
        sees: Sees<'_>,
        run: RunId,
        no: ShardNo,
    ) -> Result<(Run, Shard, Vec<Why>), Error> {
        let key = ShardKey { run, no };
        let mut facts = self.facts(run, Some(no)).await?;
        seen::hide_holders(&*self.context.store, &mut facts, sees).await?;
        let found = self.context.store.get_shards(vec![key]).await?.pop();
        let shard = found.ok_or_else(|| Error::NotFound {
            what: "shard",
            name: key.to_string(),
        })?;
        let shard = shard.shard;
        let mut reasons = shard::reasons(&shard, &facts);
        let of = Some(shard.key.no);
        reasons.extend(recalled::reasons(&*self.context.store, &facts.run, of).await?);
        Ok((facts.run, shard, reasons))
    }

    /// What reasons are made from: of the run, or of one of its shards.
    async fn facts(&self, run: RunId, only: Option<ShardNo>) -> Result<Facts, Error> {
        let store = &*self.context.store;
        let found = store.get_run(run).await?;
        let (run, _) = found.ok_or_else(|| Error::NotFound {
            what: "run",
            name: run.to_string(),
        })?;
        let now = store.now().await?;
        let mut waiting = Waiting::default();
        let mut after = None;
        // At most `MAX_SHARDS`, a page at a time.
        while !run.state.is_closed() {
            let limit = MAX_PAGE;
            let page = store.list_shards(run.id, Page { after, limit }).await?;
            for shard in &page {
                let runs = shard.state == ShardState::Running;
                if only.is_none_or(|no| runs || shard.key.no == no) {
                    waiting.count(shard, now);
                }
            }
            match page.last() {
                Some(last) if page.len() == limit as usize => after = Some(last.key.no.0),
                Some(_) | None => break,
            }
        }
        let mut ahead = Vec::new();
        if run.waits.is_some() {
            let filter = RunFilter {
                job: Some(run.job),
                open: true,
                ..RunFilter::default()
            };
            let page = Page {
                after: Some(run.id),
                limit: MAX_PAGE,
            };
            let older = store.list_runs(filter, page).await?;
            ahead.extend(older.iter().map(|run| run.id));
        }
        let sessions = store.list_sessions(Some(run.terms.pool.clone())).await?;
        let (nodes, duties) = store.list_members().await?;
        let pool = DutyKey::Pool(run.terms.pool.clone());
        let owner = duties.iter().find(|duty| duty.key == pool);
        let alive = |node: &NodeId| {
            let lives = |n: &Node| n.id == *node && !has_expired(n.expires_at, now);
            nodes.iter().any(lives)
        };
        let owner = owner.and_then(|duty| duty.node).filter(alive);
        let (namespace, has) = self.namespace(&run.job_name.namespace).await?;
        let names = run.terms.uses.names().cloned().collect::<Vec<_>>();
        let mut holds = Vec::new();
        let capacities = if names.is_empty() {
            Vec::new()
        } else {
            for name in &names {
                holds.extend(store.list_holds(name.clone(), NAMED_HOLDS).await?);
            }
            store.get_capacities(names).await?
        };
        let document = self.documents.find(store, run.job, run.revision).await?;
        let terms = document.as_ref().and_then(|document| document.placement());
        let most = document.and_then(|document| document.spec.max_running_shards);
        let job = match most {
            Some(most) => Some((store.count_running_of_job(run.job).await?, most)),
            None => None,
        };
        let uses = place::uses(store, &self.documents, terms.as_deref(), &sessions).await?;
        Ok(Facts {
            job,
            uses,
            terms,
            namespace: has.running.zip(namespace.max_running),
            run,
            waiting,
            sessions,
            ahead,
            capacities,
            holds,
            restore: store.get_restore().await?,
            owner,
            now,
        })
    }
}

/// The chain of reasons; never empty.
#[must_use]
pub fn reasons(facts: &Facts) -> Vec<Why> {
    let mut chain = Vec::new();
    let mut say = |word: &'static str, text: String, shards: u32, ends: &str| {
        chain.push(Why {
            word,
            text,
            shards,
            since: None,
            ends: ends.to_owned(),
        });
    };
    let (run, waiting) = (&facts.run, &facts.waiting);
    if run.state.is_closed() {
        let why = if run.reason.is_empty() {
            String::new()
        } else {
            format!(" ({})", run.reason)
        };
        let c = run.counters;
        let open = match c.failed + c.cancelled {
            0 => String::new(),
            _ => format!(
                "; {} of {} failed, {} cancelled",
                c.failed,
                shards(c.total, "shard", "shards"),
                c.cancelled
            ),
        };
        let text = format!("it has ended: {}{why}{open}", run.state);
        say("closed", text, 0, "");
        return chain;
    }
    let running: u32 = waiting.running.values().sum();
    if let Some((cause, since)) = run.stop {
        say(
            "stopping",
            format!(
                "it is being stopped ({cause}) since {since}; {} still",
                shards(running, "shard runs", "shards run")
            ),
            running,
            "the end of what runs",
        );
        return chain;
    }
    if running > 0 {
        let holders: Vec<String> = waiting
            .running
            .iter()
            .map(|(session, shards)| format!("{shards} on {}", holder(facts, *session)))
            .collect();
        say(
            "running",
            format!(
                "{}: {}",
                shards(running, "shard runs", "shards run"),
                holders.join(", ")
            ),
            running,
            "the end of what runs",
        );
    }
    if let Some(waits) = run.waits {
        let (word, text) = match waits.what {
            WaitsFor::Queue => (
                "queued",
                format!("it waits for its turn behind {}", listed(&facts.ahead)),
            ),
            WaitsFor::Replaced => (
                "replacing",
                format!(
                    "it starts when what it replaces is gone: {}",
                    listed(&facts.ahead)
                ),
            ),
        };
        let until = run.terms.start_by;
        let until = until.map_or(String::new(), |at| format!("; it must start by {at}"));
        let (waits, ends) = (
            waiting.ready + waiting.not_yet,
            "the end of a run before it",
        );
        say(word, text + &until, waits, ends);
        return chain;
    }
    if let (Some(at), later @ 1..) = (waiting.next_ready, waiting.backing_off + waiting.not_yet) {
        let word = if waiting.backing_off > 0 {
            "backoff"
        } else {
            "not_yet"
        };
        let what = if waiting.backing_off > 0 {
            format!("{} of them after a failed attempt", waiting.backing_off)
        } else {
            "the time has not come".to_owned()
        };
        say(
            word,
            format!(
                "{} ({what}); the first until {at}",
                shards(
                    later,
                    "shard waits for its time",
                    "shards wait for their time"
                )
            ),
            later,
            &at.to_string(),
        );
    }
    if waiting.ready > 0 {
        chain.push(why_ready_waits(facts, running));
    }
    if chain.is_empty() {
        let text = "nothing of it waits or runs; its outcome is being written".to_owned();
        chain.push(Why {
            word: "settling",
            text,
            shards: 0,
            since: None,
            ends: String::new(),
        });
    }
    chain
}

/// The oldest few of the runs that go first.
fn listed(ahead: &[RunId]) -> String {
    let first = ahead.iter().rev().take(5).map(|run| format!("run {run}"));
    let first: Vec<String> = first.collect();
    match ahead.len().saturating_sub(first.len()) {
        0 if first.is_empty() => "runs that have ended; its turn is being written".to_owned(),
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// A number and what it counts.
fn shards(n: u32, one: &str, more: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { more })
}

fn holder(facts: &Facts, session: SessionId) -> String {
    let found = facts.sessions.iter().find(|(s, _)| s.id == session);
    match found {
        Some((s, _)) if has_expired(s.expires_at, facts.now) => {
            format!("{}, whose session is over", s.worker.name)
        }
        Some((s, _)) => s.worker.name.to_string(),
        None => format!("session {session}, which has ended"),
    }
}

/// What the rule is asked about the run's ready shards.
fn asked(facts: &Facts, running: u32) -> why::Facts {
    let sessions = facts.sessions.iter().enumerate();
    let live = sessions.filter(|(_, (s, _))| !has_expired(s.expires_at, facts.now));
    let workers = live.map(|(n, (s, held))| why::Worker {
        number: hash_of(s.worker.name.as_str().as_bytes()),
        handlers: s.handlers.clone(),
        slots: s.slots,
        held: *held,
        draining: s.draining,
        offer: Arc::new(s.offer.clone()),
        used: facts.uses.get(n).cloned().unwrap_or_default(),
    });
    why::Facts {
        stopping: facts.run.stop.is_some(),
        waits: facts.run.waits.map(|waits| waits.what),
        running: (running, facts.run.terms.parallelism),
        job: facts.job,
        namespace: facts.namespace,
        capacity: why_capacity(facts).is_some(),
        restore: facts.restore.is_some(),
        owned: facts.owner.is_some(),
        workers: workers.collect(),
        now: facts.now,
    }
}

/// The reason of all ready shards: the plan step is the only one while there is one.
fn why_ready_waits(facts: &Facts, running: u32) -> Why {
    let (terms, waiting) = (&facts.run.terms, &facts.waiting);
    let source = waiting.plan.as_ref();
    let handler = source.map_or_else(|| terms.handler.clone(), |s| format!("data-source/{s}"));
    let asked = asked(facts, running);
    let shard = why::Waiting {
        ready_at: waiting.ready_since.unwrap_or(facts.now),
        retries: false,
        handler: &handler,
        // A plan step runs where its data source is.
        terms: facts.terms.as_deref().filter(|_| source.is_none()),
        worker: awaited::number(facts, &asked),
    };
    let reason = why(&shard, &asked);
    let (text, ends) = worded(reason, facts, &asked, &shard);
    let ready = shards(waiting.ready, "shard is ready", "shards are ready");
    Why {
        word: reason.word(),
        text: format!("{ready}; {text}"),
        shards: waiting.ready,
        since: waiting.ready_since,
        ends,
    }
}

/// A reason for people, and what ends it.
fn worded(
    reason: Reason,
    facts: &Facts,
    asked: &why::Facts,
    shard: &why::Waiting<'_>,
) -> (String, String) {
    let (run, pool) = (&facts.run, &facts.run.terms.pool);
    let (handler, left) = (shard.handler, why::Left::of(shard, &asked.workers));
    let no_terms = Terms::default();
    let terms = shard.terms.unwrap_or(&no_terms);
    let who = match shard.terms {
        Some(_) => format!("offer {handler} and meet the job's placement"),
        None => format!("offer {handler}"),
    };
    let (text, ends) = match reason {
        Reason::NoWorker => (
            format!(
                "no worker serves the pool {pool}; start one (`sichen worker --pool {pool} \
                 --config FILE`), or name a pool that has workers in `spec.pool` (`sichen get workers`)"
            ),
            "a worker of the pool".to_owned(),
        ),
        Reason::Restore => (
            facts.restore.as_ref().map_or_else(String::new, waits_for),
            "the decision about it (`sichen restore decide`)".to_owned(),
        ),
        Reason::NoOwner => (
            format!("no live server has the pool {pool}; one takes it when the old lease ends"),
            "a server takes the pool".to_owned(),
        ),
        Reason::Absent => awaited::worded(facts, asked),
        Reason::Parallelism => (
            format!(
                "the run may have {} running at once and has",
                shards(run.terms.parallelism, "shard", "shards")
            ),
            "the end of a shard of the run".to_owned(),
        ),
        Reason::Job => {
            let (running, most) = facts.job.unwrap_or_default();
            let most = shards(most, "shard", "shards");
            (
                format!(
                    "the job {} may have {most} running at once in all its runs and has {running} \
                     (`maxRunningShards`)",
                    run.job_name
                ),
                "the end of a shard of the job".to_owned(),
            )
        }
        Reason::Namespace => {
            let name = &run.job_name.namespace;
            let (running, most) = facts.namespace.unwrap_or_default();
            let most = shards(most, "shard", "shards");
            (
                format!(
                    "the namespace {name} may have {most} running at once and has {running}; it is \
                     set by `sichen namespace set {name} --max-running NUMBER`"
                ),
                format!("the end of a shard of the namespace {name}"),
            )
        }
        Reason::NoHandler => (
            nobody_offers(asked, pool, handler),
            format!("a worker of the pool that offers {handler}"),
        ),
        Reason::NoLabel => place::no_label(&left, terms, pool),
        Reason::TooLarge => place::too_large(&left, terms),
        Reason::Resources => place::resources(&left, terms),
        Reason::Draining => (
            format!("all workers that {who} are draining"),
            format!("another worker that offers {handler}"),
        ),
        Reason::Capacity => (
            why_capacity(facts).unwrap_or_default(),
            "units or tokens of the capacity".to_owned(),
        ),
        Reason::NoSlot => {
            let taking = left.taking.iter();
            let (held, slots) = taking.fold((0, 0), |(h, s), w| (h + w.held, s + w.slots));
            (
                format!(
                    "the workers that {who} hold {} in {slots} slots",
                    shards(held, "shard", "shards")
                ),
                format!("a free slot of a worker that offers {handler}"),
            )
        }
        // Those of the run as a whole are told before.
        Reason::Stopping
        | Reason::Queued
        | Reason::Replacing
        | Reason::Backoff
        | Reason::NotYet
        | Reason::Dispatching => (
            "a worker is free: they are being granted, or others go first by their namespace's \
             share, or by priority"
                .to_owned(),
            "its turn".to_owned(),
        ),
    };
    (text, ends)
}

fn waits_for(restore: &Restore) -> String {
    format!(
        "the store went back: what happened after {} is lost, and nothing is granted until people have decided what \
         becomes of it (`sichen restore show`)",
        restore.mark
    )
}

fn nobody_offers(asked: &why::Facts, pool: &Name, handler: &str) -> String {
    let mut offered: Vec<&str> = asked
        .workers
        .iter()
        .flat_map(|w| w.handlers.iter().map(String::as_str))
        .collect();
    offered.sort_unstable();
    offered.dedup();
    let who = match asked.workers.len() {
        1 => format!("the one worker of the pool {pool} does not offer"),
        n => format!("none of the {n} workers of the pool {pool} offers"),
    };
    let (what, how) = match handler {
        PROCESS_HANDLER => (
            "to run programs that jobs name themselves (`run: process`)".to_owned(),
            "list the job's program under `allow_programs` in a worker's configuration",
        ),
        _ => (
            format!("the handler {handler}"),
            "start a worker that offers it, or name another in the job",
        ),
    };
    format!("{who} {what}; on offer: {}; {how}", offered.join(", "))
}

/// The first capacity that is short for one more shard, with its numbers and who holds it.
fn why_capacity(facts: &Facts) -> Option<String> {
    let uses = facts.run.terms.uses.iter();
    uses.into_iter().find_map(|(name, needs)| {
        let found = facts.capacities.iter().find(|s| s.capacity.name == *name);
        let Some(standing) = found else {
            return Some(format!(
                "capacity {name}: there is none of that name any more; apply it again"
            ));
        };
        match standing.account().check(needs, facts.now).err()? {
            Lack::Units { limit, used } => {
                let free = u64::from(limit).saturating_sub(used);
                let never = if needs > limit {
                    format!("; `sichen capacity set {name} --units {needs}` or more lets it start")
                } else {
                    holders(facts, standing)
                };
                Some(format!(
                    "capacity {name}: needs {needs}, {free} of {limit} free ({used} held){never}"
                ))
            }
            Lack::Rate { rate, at: Some(at) } if name.as_str().starts_with(PACE) => Some(format!(
                "the job may start {} (`rate` in its document), and has; the next one at {at} at the earliest",
                rate.text()
            )),
            Lack::Rate { rate, at } => {
                let bucket = standing.capacity.bucket.filled(rate, facts.now);
                let when = match at {
                    Some(at) => format!("there will be enough at {at} at the earliest"),
                    None => "it never has so many; raise its burst".to_owned(),
                };
                Some(format!(
                    "capacity {name}: takes {needs}, {} of {rate} are there; {when}",
                    bucket.tokens(rate)
                ))
            }
            Lack::Missing | Lack::Reserved { .. } => None,
        }
    })
}

fn holders(facts: &Facts, standing: &Standing) -> String {
    let name = &standing.capacity.name;
    let of = facts.holds.iter().filter(|hold| hold.capacity == *name);
    let of: Vec<String> = of
        .map(|hold| {
            let until = hold.until;
            let until = until.map_or(String::new(), |at| format!(", lost, until {at}"));
            format!("shard {} ({}{until})", hold.key, hold.units)
        })
        .collect();
    if of.is_empty() {
        return String::new();
    }
    let more = (standing.holds as usize).saturating_sub(of.len());
    let more = match more {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!(", held by {}{more}", of.join(", "))
}
