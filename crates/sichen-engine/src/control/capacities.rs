//! Capacities: applied, changed live, shown with who holds and who waits, deleted.
//!
//! # Not here
//! The arithmetic (`sichen_core::capacity`), grants (the store).

use sichen_core::capacity::unknown;
use sichen_core::document::{
    CapacityDocument, CapacitySpec, Document, Problem, check_use, pace_of,
};
use sichen_core::model::{Hold, Standing, Waiter};
use sichen_core::name::{JobName, Name, nearest};
use sichen_core::port::{self, ApplyCapacity, CapacityDeleted, CapacityVerdict, MAX_PAGE, Page};

use super::{ATTEMPTS, Change, Control, Error};

/// The answer to an apply of a capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedCapacity {
    /// Its version.
    pub version: u32,
    /// What was done.
    pub change: Change,
}

/// A live change of a capacity's limits: what is given takes the place of what was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resize {
    /// Units.
    pub units: Option<u32>,
    /// The rate, such as `50/s`.
    pub rate: Option<String>,
    /// Tokens that gather.
    pub burst: Option<u32>,
}

/// A capacity with those who hold it and those who wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityFacts {
    /// How it stands.
    pub standing: Standing,
    /// The oldest holds.
    pub holders: Vec<Hold>,
    /// Runs with ready shards that use it.
    pub waiters: Vec<Waiter>,
}

impl Control {
    /// Creates a capacity, or makes the document its next version. What is held stays held.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem; [`Error::Contended`]; the store's.
    pub async fn apply_capacity(
        &self,
        actor: &str,
        document: &CapacityDocument,
    ) -> Result<AppliedCapacity, Error> {
        let problems = document.check();
        if !problems.is_empty() {
            return Err(Error::Invalid(problems));
        }
        let name = document.capacity_name();
        let name = name.map_err(|e| Error::Refused(format!("SC1001: {e}")))?;
        for _ in 0..ATTEMPTS {
            let existing = self.standing(&name).await?;
            let expected = existing.map(|standing| standing.capacity.ver);
            if let Some(applied) = self.put(actor, &name, document, expected).await? {
                return Ok(applied);
            }
        }
        Err(Error::Contended(format!("capacity {name}")))
    }

    /// Changes the limits of a capacity that there is.
    ///
    /// # Errors
    /// [`Error::NotFound`]; as [`Control::apply_capacity`].
    pub async fn resize_capacity(
        &self,
        actor: &str,
        name: &Name,
        resize: &Resize,
    ) -> Result<AppliedCapacity, Error> {
        for _ in 0..ATTEMPTS {
            let standing = self.capacity(name).await?.standing;
            let mut document = document(&standing)?;
            let old = std::mem::take(&mut document.spec);
            document.spec = CapacitySpec {
                units: resize.units.or(old.units),
                // A burst that was given for another rate does not outlive it.
                burst: match &resize.rate {
                    Some(_) => resize.burst,
                    None => resize.burst.or(old.burst),
                },
                rate: resize.rate.clone().or(old.rate),
            };
            let problems = document.check();
            if !problems.is_empty() {
                return Err(Error::Invalid(problems));
            }
            let expected = Some(standing.capacity.ver);
            if let Some(applied) = self.put(actor, name, &document, expected).await? {
                return Ok(applied);
            }
        }
        Err(Error::Contended(format!("capacity {name}")))
    }

    /// One attempt; `None` on a conflict.
    async fn put(
        &self,
        actor: &str,
        name: &Name,
        document: &CapacityDocument,
        expected: Option<u32>,
    ) -> Result<Option<AppliedCapacity>, Error> {
        let text = serde_json::to_string(document)
            .map_err(|e| Error::Refused(format!("SC1015: the document can't be stored: {e}")))?;
        let apply = ApplyCapacity {
            name: name.clone(),
            expected,
            document: text,
            limits: document.limits(),
        };
        let op = self.context.op(actor);
        let (version, change) = match self.context.store.apply_capacity(op, apply).await? {
            CapacityVerdict::Created(version) => (version, Change::Created),
            CapacityVerdict::Updated(version) => (version, Change::Updated),
            CapacityVerdict::Unchanged(version) => (version, Change::Unchanged),
            CapacityVerdict::Conflict => return Ok(None),
        };
        Ok(Some(AppliedCapacity { version, change }))
    }

    /// Deletes a capacity that nothing uses.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Refused`] says what uses it; the store's.
    pub async fn delete_capacity(&self, actor: &str, name: &Name) -> Result<(), Error> {
        let op = self.context.op(actor);
        match self.context.store.delete_capacity(op, name.clone()).await? {
            CapacityDeleted::Deleted => Ok(()),
            CapacityDeleted::Missing => Err(self.no_capacity(name).await?),
            CapacityDeleted::Used(jobs) => {
                let named: Vec<String> = jobs.iter().map(ToString::to_string).collect();
                Err(Error::Refused(format!(
                    "SC5050: capacity {name} is used by {}; take it out of their `uses` first",
                    named.join(", ")
                )))
            }
            CapacityDeleted::Open(runs) => {
                let named: Vec<String> = runs.iter().map(ToString::to_string).collect();
                Err(Error::Refused(format!(
                    "SC5051: open runs of former revisions use capacity {name}: {}; wait for their \
                     end, or cancel them",
                    named.join(", ")
                )))
            }
            CapacityDeleted::Held(units) => Err(Error::Refused(format!(
                "SC5052: {units} of capacity {name} are still held; try again when their attempts \
                 have surely ended (`sichen capacity show {name}`)"
            ))),
        }
    }

    /// A capacity with those who hold it and those who wait, the first thousand of each.
    ///
    /// # Errors
    /// [`Error::NotFound`] names near ones; the store's.
    pub async fn capacity(&self, name: &Name) -> Result<CapacityFacts, Error> {
        let Some(standing) = self.standing(name).await? else {
            return Err(self.no_capacity(name).await?);
        };
        let store = &self.context.store;
        Ok(CapacityFacts {
            standing,
            holders: store.list_holds(name.clone(), MAX_PAGE).await?,
            waiters: store.list_waiters(name.clone(), MAX_PAGE).await?,
        })
    }

    /// Capacities by name.
    ///
    /// # Errors
    /// The store's.
    pub async fn capacities(&self, page: Page<Name>) -> Result<Vec<Standing>, Error> {
        Ok(self.context.store.list_capacities(page).await?)
    }

    pub(super) async fn standing(&self, name: &Name) -> Result<Option<Standing>, Error> {
        let asked = vec![name.clone()];
        Ok(self.context.store.get_capacities(asked).await?.pop())
    }

    async fn known(&self) -> Result<Vec<String>, Error> {
        let page = Page {
            after: None,
            limit: MAX_PAGE,
        };
        let known = self.capacities(page).await?.into_iter();
        Ok(known.map(|s| s.capacity.name.to_string()).collect())
    }

    async fn no_capacity(&self, name: &Name) -> Result<Error, Error> {
        let known = self.known().await?;
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let near = nearest(name.as_str(), &known);
        let near = near.map_or(String::new(), |near| format!(" (did you mean {near}?)"));
        Ok(Error::NotFound {
            what: "capacity",
            name: format!("{name}{near}"),
        })
    }

    /// The same, but not as a step of a request: what it does comes to the same if it is done again, and does not
    /// stand for what the step is about.
    fn beside_steps(&self) -> Self {
        let mut control = self.clone();
        control.context.hold = None;
        control
    }

    /// Sees to it that the capacity is there that stands for the job's rate, as its document has it.
    pub(super) async fn keep_pace(&self, actor: &str, document: &Document) -> Result<(), Error> {
        if let Some(pace) = document.pace() {
            self.beside_steps().apply_capacity(actor, &pace).await?;
        }
        Ok(())
    }

    /// A job has no rate any more: the capacity goes that stood for it. While runs of former revisions use
    /// it, it stays and limits those.
    pub(super) async fn end_pace(&self, actor: &str, job: &JobName) {
        let name = pace_of(&format!("{}/{}", job.namespace, job.name));
        let Ok(name) = Name::new(&name) else { return };
        let there = self.standing(&name).await;
        if matches!(there, Ok(Some(_)))
            && let Err(error) = self.beside_steps().delete_capacity(actor, &name).await
        {
            tracing::debug!(%job, %error, "what stood for the job's rate stays for now");
        }
    }

    /// That each capacity which a job uses is there, and could ever meet its use.
    pub(super) async fn check_uses(&self, document: &Document) -> Result<(), Error> {
        let uses = document.uses();
        if uses.is_empty() {
            return Ok(());
        }
        let names = uses.names().cloned().collect();
        let found = self.context.store.get_capacities(names).await?;
        let mut problems = Vec::new();
        let mut known = None;
        for (name, units) in uses.iter() {
            match found.iter().find(|s| s.capacity.name == *name) {
                Some(s) => problems.extend(check_use(name, units, &s.capacity.limits)),
                None => {
                    if known.is_none() {
                        known = Some(self.known().await?);
                    }
                    let known = known.iter().flatten().map(String::as_str);
                    problems.push(Problem {
                        path: format!("spec.uses.{name}"),
                        message: unknown(name.as_str(), &known.collect::<Vec<_>>()),
                    });
                }
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(Error::Invalid(problems))
    }
}

/// The document of a stored capacity.
///
/// # Errors
/// [`port::Error::Corrupt`] if it makes no sense.
pub fn document(standing: &Standing) -> Result<CapacityDocument, port::Error> {
    let capacity = &standing.capacity;
    serde_json::from_str(&capacity.document)
        .map_err(|e| port::Error::Corrupt(format!("capacity {}: {e}", capacity.name)))
}
