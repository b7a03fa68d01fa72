//! Who may do what: roles, what each action needs, and the tokens that carry them.
//!
//! A request is judged by [`allowed`] alone: the caller's role in the namespace of what is asked for,
//! against the action. A role holds all that the ones before it hold.
//!
//! # Invariants
//! - Nobody without a role may do anything.
//! - A token is one thing or the other: it asks the API with roles, or it lets a worker join.
//! - A token's secret is in no row: rows have its digest.
//!
//! # Not here
//! Which route needs which action, secrets and their digests (`sichen-server`).

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use crate::lifecycle::words;
use crate::name::{self, Name};

/// Tokens that a store keeps, those that are over too: a name that is over can be given again.
pub const MAX_ACCESS_TOKENS: u32 = 1_000;
/// Namespaces that one token may name.
pub const MAX_GRANTS: usize = 100;
/// Handlers that one join token may name.
pub const MAX_JOIN_HANDLERS: usize = 100;
/// The longest name of a handler that a join token may name, in bytes.
pub const MAX_JOIN_HANDLER_BYTES: usize = 128;
/// Workers, or beginnings of their names, that one join token may name.
pub const MAX_JOIN_WORKERS: usize = 100;

words! {
    /// What somebody is in a namespace; each may do what those before it may.
    Role {
        /// Sees.
        Viewer = "viewer",
        /// Starts, stops, retries, pauses.
        Operator = "operator",
        /// Changes what there is: jobs, calendars.
        Editor = "editor",
        /// Gives rights to others; in all namespaces also what concerns the whole cluster.
        Admin = "admin",
    }
}

words! {
    /// What a request wants.
    Action {
        /// To see.
        View = "view",
        /// To start, stop, retry, pause.
        Operate = "operate",
        /// To change what there is.
        Edit = "edit",
        /// To give rights, or to change the whole cluster.
        Administer = "administer",
    }
}

impl Action {
    /// The least role that may do it.
    #[must_use]
    pub fn least(self) -> Role {
        match self {
            Action::View => Role::Viewer,
            Action::Operate => Role::Operator,
            Action::Edit => Role::Editor,
            Action::Administer => Role::Admin,
        }
    }
}

/// Whether somebody with `role` may do `action`.
#[must_use]
pub fn allowed(role: Option<Role>, action: Action) -> bool {
    role.is_some_and(|role| role >= action.least())
}

/// Why rights, or the bounds of a join token, were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No role at all: such a token could do nothing.
    #[error("no role is given")]
    Nothing,
    /// More namespaces than [`MAX_GRANTS`].
    #[error("{0} namespaces are named, the limit is {MAX_GRANTS}")]
    Grants(usize),
    /// A namespace's name.
    #[error("the namespace {0:?} {1}")]
    Namespace(String, name::Error),
    /// An unknown role.
    #[error("{0:?} is none of viewer, operator, editor, admin")]
    Role(String),
    /// More handlers than [`MAX_JOIN_HANDLERS`].
    #[error("{0} handlers are named, the limit is {MAX_JOIN_HANDLERS}")]
    Handlers(usize),
    /// A handler's name.
    #[error("a handler's name has 1 to {MAX_JOIN_HANDLER_BYTES} bytes and no control characters")]
    Handler,
    /// More workers than [`MAX_JOIN_WORKERS`].
    #[error("{0} workers are named, the limit is {MAX_JOIN_WORKERS}")]
    Workers(usize),
    /// A worker's name, or the beginning of one.
    #[error("the worker {0:?} {1}; a `*` at its end stands for any further letters")]
    Worker(String, name::Error),
}

/// Roles by namespace. Shown as `*=viewer payments=operator`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    everywhere: Option<Role>,
    namespaces: BTreeMap<Name, Role>,
}

impl Grants {
    /// The text that stands for all namespaces.
    pub const EVERYWHERE: &'static str = "*";

    /// `role` in all namespaces, and in the cluster as a whole.
    #[must_use]
    pub fn everywhere(role: Role) -> Self {
        Self {
            everywhere: Some(role),
            namespaces: BTreeMap::new(),
        }
    }

    /// Roles of namespaces, [`Self::EVERYWHERE`] for all. Of two for one namespace the higher counts.
    ///
    /// # Errors
    /// [`Error`] says what is wrong with them.
    pub fn new<'a>(given: impl IntoIterator<Item = (&'a str, Role)>) -> Result<Self, Error> {
        let mut grants = Self::default();
        for (namespace, role) in given {
            if namespace == Self::EVERYWHERE {
                grants.everywhere = grants.everywhere.max(Some(role));
                continue;
            }
            let bad = |error| Error::Namespace(namespace.to_owned(), error);
            let held = grants.namespaces.entry(Name::new(namespace).map_err(bad)?);
            let held = held.or_insert(role);
            *held = role.max(*held);
        }
        if grants.namespaces.len() > MAX_GRANTS {
            return Err(Error::Grants(grants.namespaces.len()));
        }
        if grants.everywhere.is_none() && grants.namespaces.is_empty() {
            return Err(Error::Nothing);
        }
        Ok(grants)
    }

    /// Reads what [`fmt::Display`] wrote.
    ///
    /// # Errors
    /// [`Error`] says what is not understood.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let given = text.split_ascii_whitespace().map(|part| {
            let (namespace, role) = part.split_once('=').unwrap_or((part, ""));
            let role = Role::parse(role).ok_or_else(|| Error::Role(role.to_owned()))?;
            Ok((namespace, role))
        });
        Self::new(given.collect::<Result<Vec<_>, _>>()?)
    }

    /// The role in `namespace`; `None` asks for the cluster as a whole.
    #[must_use]
    pub fn role(&self, namespace: Option<&Name>) -> Option<Role> {
        let named = namespace.and_then(|name| self.namespaces.get(name).copied());
        self.everywhere.max(named)
    }

    /// The highest role in any namespace.
    #[must_use]
    pub fn anywhere(&self) -> Option<Role> {
        self.everywhere.max(self.namespaces.values().copied().max())
    }

    /// The namespaces that can be seen, by name; `None` for all.
    #[must_use]
    pub fn seen(&self) -> Option<impl Iterator<Item = &Name>> {
        match self.everywhere {
            Some(_) => None,
            None => Some(self.namespaces.keys()),
        }
    }

    /// Namespaces with their roles; [`Self::EVERYWHERE`] first.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Role)> {
        let all = self.everywhere.map(|role| (Self::EVERYWHERE, role));
        let named = self.namespaces.iter();
        let named = named.map(|(name, role)| (name.as_str(), *role));
        all.into_iter().chain(named)
    }
}

impl fmt::Display for Grants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (namespace, role)) in self.iter().enumerate() {
            let gap = if i > 0 { " " } else { "" };
            write!(f, "{gap}{namespace}={role}")?;
        }
        Ok(())
    }
}

/// What a worker that joins may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Of this pool alone.
    pub pool: Name,
    /// With these handlers alone; any if there is none.
    pub handlers: Vec<String>,
    /// Of these names alone, each whole or, with a `*` at its end, the beginning of one; any if there is
    /// none.
    pub workers: Vec<String>,
}

impl Bounds {
    /// Checks the handlers and puts them in order.
    ///
    /// # Errors
    /// [`Error`] says what is wrong with them.
    pub fn new(pool: Name, mut handlers: Vec<String>) -> Result<Self, Error> {
        handlers.sort_unstable();
        handlers.dedup();
        if handlers.len() > MAX_JOIN_HANDLERS {
            return Err(Error::Handlers(handlers.len()));
        }
        let bad = |name: &String| {
            name.is_empty()
                || name.len() > MAX_JOIN_HANDLER_BYTES
                || name.chars().any(char::is_control)
        };
        if handlers.iter().any(bad) {
            return Err(Error::Handler);
        }
        Ok(Self {
            pool,
            handlers,
            workers: Vec::new(),
        })
    }

    /// The same for workers of these names alone. Checks them and puts them in order.
    ///
    /// # Errors
    /// [`Error`] says what is wrong with them.
    pub fn of_workers(mut self, mut workers: Vec<String>) -> Result<Self, Error> {
        workers.sort_unstable();
        workers.dedup();
        if workers.len() > MAX_JOIN_WORKERS {
            return Err(Error::Workers(workers.len()));
        }
        for worker in &workers {
            let bad = |error| Error::Worker(worker.clone(), error);
            // A beginning is good if a name can begin so; alone the `*` would say nothing.
            let whole = match worker.strip_suffix('*') {
                Some(begin) if !begin.is_empty() => &format!("{begin}0"),
                Some(_) | None => worker,
            };
            Name::new(whole).map_err(bad)?;
        }
        self.workers = workers;
        Ok(self)
    }

    /// Whether a worker of `pool` may join.
    #[must_use]
    pub fn takes_pool(&self, pool: &str) -> bool {
        self.pool.as_str() == pool
    }

    /// Whether a worker of this name may join.
    #[must_use]
    pub fn takes_worker(&self, worker: &str) -> bool {
        let takes = |name: &String| match name.strip_suffix('*') {
            Some(begin) => worker.starts_with(begin),
            None => worker == name,
        };
        !self.binds_worker() || self.workers.iter().any(takes)
    }

    /// Whether it says which workers may join.
    #[must_use]
    pub fn binds_worker(&self) -> bool {
        !self.workers.is_empty()
    }

    /// Whether a worker may serve `handler`.
    #[must_use]
    pub fn takes_handler(&self, handler: &str) -> bool {
        self.handlers.is_empty() || self.handlers.iter().any(|h| h == handler)
    }
}

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To ask the API, with these roles.
    Api(Grants),
    /// To join as a worker, within these bounds.
    Join(Bounds),
}

impl Purpose {
    /// `api` or `join`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Purpose::Api(_) => "api",
            Purpose::Join(_) => "join",
        }
    }
}

/// A token that is to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAccessToken {
    /// Its name, which is not secret.
    pub name: Name,
    /// What it is for.
    pub purpose: Purpose,
    /// The SHA-256 of its secret, in 64 hexadecimal digits.
    pub digest: String,
    /// From then on it is over.
    pub expires_at: Option<Timestamp>,
}

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessToken {
    /// What was asked for.
    pub asked: NewAccessToken,
    /// When it was made.
    pub created_at: Timestamp,
    /// By whom.
    pub created_by: String,
    /// When it was taken back.
    pub revoked_at: Option<Timestamp>,
    /// When it was last used, within some minutes.
    pub used_at: Option<Timestamp>,
    /// Raised by each change but its use.
    pub ver: u32,
}

impl AccessToken {
    /// Whether it still holds at `now`.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.asked.expires_at.is_none_or(|at| now < at)
    }

    /// Whether this token, taken from a backup, is over by what a later state of the same store says of its name:
    /// it was revoked there, or a newer token has its name, which is given again only when it is over.
    #[must_use]
    pub fn is_over_by(&self, later: &AccessToken) -> bool {
        if later.asked.digest == self.asked.digest {
            return later.revoked_at.is_some();
        }
        later.created_at > self.created_at
    }

    /// The word of its state in events: `live` until it is taken back, whether it expired or not.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match self.revoked_at {
            Some(_) => "revoked",
            None => "live",
        }
    }
}

/// What became of a token that was to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenCreated {
    /// It is kept.
    Created,
    /// There is a live one of this name.
    Taken,
    /// There are [`MAX_ACCESS_TOKENS`].
    Full,
}

/// What became of a token that was to be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRevoked {
    /// It is taken back now.
    Revoked,
    /// It was before.
    Over,
    /// There is none of this name.
    Missing,
}

#[cfg(test)]
mod tests;
