//! People: what each may do, by what he is known, and the browsers in which he is logged in.
//!
//! # Invariants
//! - [`change`] alone decides what becomes of a user; a store writes what it says, and its event.
//! - A password is in no row, event or answer: rows have a slow, salted digest that the edge made.
//! - Whoever is disabled, or has another password than a moment ago, is logged in nowhere.
//!
//! # Not here
//! Digests of passwords, cookies, how often somebody may try (`sichen-server`).

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::access::Grants;
use crate::event::Kind;
use crate::name::Name;

/// Users that a store keeps, the disabled ones too.
pub const MAX_USERS: u32 = 1_000;
/// Browsers in which one user is logged in; a further login ends the one that was unused longest.
pub const MAX_LOGINS: usize = 10;
/// How long a login lasts at most, in hours.
pub const MAX_LOGIN_HOURS: i64 = 12;
/// How long a login lasts without a request, in minutes.
pub const MAX_LOGIN_IDLE_MINUTES: i64 = 120;
/// The fewest characters of a password.
pub const MIN_PASSWORD_CHARS: usize = 12;
/// The longest password, in bytes.
pub const MAX_PASSWORD_BYTES: usize = 256;
/// The name that is nobody's: events call the holder of the server's own token `user api`.
pub const RESERVED: &str = "api";

/// Why a password is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPassword {
    /// Fewer than [`MIN_PASSWORD_CHARS`].
    #[error("it has {0} characters, at least {MIN_PASSWORD_CHARS} are needed")]
    Short(usize),
    /// More than [`MAX_PASSWORD_BYTES`].
    #[error("it has {0} bytes, the limit is {MAX_PASSWORD_BYTES}")]
    Long(usize),
    /// The user's name, or a few characters again and again.
    #[error("it is easily guessed")]
    Guessable,
}

/// Whether `password` may be that of the user `name`.
///
/// # Errors
/// [`BadPassword`] says what is wrong with it.
pub fn check_password(name: &Name, password: &str) -> Result<(), BadPassword> {
    let chars = password.chars().count();
    if chars < MIN_PASSWORD_CHARS {
        return Err(BadPassword::Short(chars));
    }
    if password.len() > MAX_PASSWORD_BYTES {
        return Err(BadPassword::Long(password.len()));
    }
    let mut different: Vec<char> = password.chars().collect();
    different.sort_unstable();
    different.dedup();
    let named = password.to_lowercase().replace(name.as_str(), "");
    if different.len() < 5 || named.chars().count() < MIN_PASSWORD_CHARS / 2 {
        return Err(BadPassword::Guessable);
    }
    Ok(())
}

/// Who somebody is to a provider that knows people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The provider, as it names itself.
    pub issuer: String,
    /// By which it knows him, always the same.
    pub subject: String,
}

/// By what it was judged that somebody may log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The password of this number ([`User::password_no`]).
    Password(u32),
    /// What a provider says.
    Identity(Identity),
}

/// A browser in which somebody is logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The SHA-256 of its cookie, in 64 hexadecimal digits.
    pub digest: String,
    /// Since when.
    pub at: Timestamp,
    /// When it was last used, within some minutes.
    pub used_at: Timestamp,
}

impl Login {
    /// The instant from which it is over, if nothing is asked in it until then.
    #[must_use]
    pub fn ends_at(&self) -> Timestamp {
        let whole = self
            .at
            .checked_add(SignedDuration::from_hours(MAX_LOGIN_HOURS));
        let idle = SignedDuration::from_mins(MAX_LOGIN_IDLE_MINUTES);
        let idle = self.used_at.checked_add(idle);
        let end = |at: Result<Timestamp, jiff::Error>| at.unwrap_or(Timestamp::MAX);
        end(whole).min(end(idle))
    }

    /// Whether it still holds at `now`.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.ends_at()
    }
}

/// Somebody who is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewUser {
    /// His name.
    pub name: Name,
    /// What he may do.
    pub grants: Grants,
    /// Who he is to a provider, if he logs in by one.
    pub identity: Option<Identity>,
}

/// Somebody who may log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// His name; events say `user NAME`.
    pub name: Name,
    /// What he may do.
    pub grants: Grants,
    /// Who he is to a provider; without one he is known here alone.
    pub identity: Option<Identity>,
    /// The salted digest of his password, as the edge wrote it; without one he can't log in with one.
    pub password: Option<String>,
    /// Raised with each password.
    pub password_no: u32,
    /// Whether he may do nothing for now.
    pub disabled: bool,
    /// When he was made.
    pub created_at: Timestamp,
    /// By whom.
    pub created_by: String,
    /// When he last logged in.
    pub logged_in_at: Option<Timestamp>,
    /// Where he is logged in.
    pub logins: Vec<Login>,
    /// Raised by each change that has an event.
    pub ver: u32,
}

impl User {
    /// A new one, who can't log in yet.
    #[must_use]
    pub fn new(new: NewUser, now: Timestamp, created_by: &str) -> Self {
        Self {
            name: new.name,
            grants: new.grants,
            identity: new.identity,
            password: None,
            password_no: 0,
            disabled: false,
            created_at: now,
            created_by: created_by.to_owned(),
            logged_in_at: None,
            logins: Vec::new(),
            ver: 1,
        }
    }

    /// The word of his state in events.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match self.disabled {
            true => "disabled",
            false => "active",
        }
    }

    /// Whether a request to make him, which came again, was this one's.
    #[must_use]
    pub fn is_as_made(&self, new: &NewUser) -> bool {
        self.ver == 1 && self.grants == new.grants && self.identity == new.identity
    }

    /// Whether `proof` is good for him as he is now.
    fn is_shown_by(&self, proof: &Proof) -> bool {
        match proof {
            Proof::Password(no) => self.password.is_some() && self.password_no == *no,
            Proof::Identity(identity) => self.identity.as_ref() == Some(identity),
        }
    }
}

/// What is to become of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// He has these roles from now on.
    Roles(Grants),
    /// He has this password, by its digest, or none; he is logged in nowhere.
    Password(Option<String>),
    /// He may do nothing, or again what his roles say.
    Disabled(bool),
    /// He logs in.
    LogIn {
        /// The SHA-256 of the new cookie.
        digest: String,
        /// What was looked at.
        by: Proof,
        /// The login that this browser had before, which is over.
        instead_of: Option<String>,
    },
    /// He logs out of the browser with this cookie's digest.
    LogOut(String),
}

/// What became of a user.
#[derive(Clone, Debug, PartialEq)]
pub enum Changed {
    /// This one, with what the event says.
    To(User, Happened),
    /// There was nothing to change.
    Same,
    /// It was decided on what is so no more: he is disabled, has another password or other roles, or is another's.
    Stale,
}

/// What an event of a user says.
#[derive(Clone, Debug, PartialEq)]
pub struct Happened {
    /// What happened.
    pub kind: Kind,
    /// More.
    pub data: Value,
}

impl Happened {
    fn new(kind: Kind, data: Value) -> Self {
        Self { kind, data }
    }

    /// That he was made.
    #[must_use]
    pub fn created(new: &NewUser) -> Self {
        let mut data = json!({ "grants": new.grants.to_string() });
        if let Some(identity) = &new.identity {
            data["issuer"] = identity.issuer.clone().into();
        }
        Self::new(Kind::UserCreated, data)
    }
}

/// Decides what `change` makes of `user`. `seen`: the roles by which it was judged that whoever asks may
/// ask for it, if it was.
#[must_use]
pub fn change(user: &User, seen: Option<&Grants>, change: Change, now: Timestamp) -> Changed {
    if seen.is_some_and(|seen| *seen != user.grants) {
        return Changed::Stale;
    }
    let mut next = user.clone();
    next.logins.retain(|login| login.is_live(now));
    let happened = match change {
        Change::Roles(grants) if grants == user.grants => return Changed::Same,
        Change::Roles(grants) => {
            let (before, after) = (user.grants.to_string(), grants.to_string());
            next.grants = grants;
            let data = json!({ "before": before, "after": after });
            Happened::new(Kind::UserRolesSet, data)
        }
        Change::Password(password) => {
            let data = json!({ "password": password.is_some(), "logins": next.logins.len() });
            next.password = password;
            next.password_no += 1;
            next.logins.clear();
            Happened::new(Kind::UserPasswordSet, data)
        }
        Change::Disabled(disabled) if disabled == user.disabled => return Changed::Same,
        Change::Disabled(disabled) => {
            let data = json!({ "logins": next.logins.len() });
            next.disabled = disabled;
            next.logins.clear();
            match disabled {
                true => Happened::new(Kind::UserDisabled, data),
                false => Happened::new(Kind::UserEnabled, json!({})),
            }
        }
        Change::LogIn {
            digest,
            by,
            instead_of,
        } => {
            if next.logins.iter().any(|login| login.digest == digest) {
                return Changed::Same;
            }
            if user.disabled || !user.is_shown_by(&by) {
                return Changed::Stale;
            }
            next.logins
                .retain(|login| Some(&login.digest) != instead_of.as_ref());
            make_room(&mut next.logins);
            next.logged_in_at = Some(now);
            next.logins.push(Login {
                digest,
                at: now,
                used_at: now,
            });
            Happened::new(Kind::UserLoggedIn, json!({ "logins": next.logins.len() }))
        }
        Change::LogOut(digest) => {
            let before = next.logins.len();
            next.logins.retain(|login| login.digest != digest);
            if next.logins.len() == before {
                return Changed::Same;
            }
            Happened::new(Kind::UserLoggedOut, json!({ "logins": next.logins.len() }))
        }
    };
    next.ver += 1;
    Changed::To(next, happened)
}

/// The user whose login with `digest` is used at `now`; `None` if there is no such login.
#[must_use]
pub fn used(user: &User, digest: &str, now: Timestamp) -> Option<User> {
    let mut next = user.clone();
    let mut logins = next.logins.iter_mut();
    let login = logins.find(|login| login.digest == digest && login.is_live(now))?;
    login.used_at = now.max(login.used_at);
    Some(next)
}

fn make_room(logins: &mut Vec<Login>) {
    while logins.len() >= MAX_LOGINS {
        let oldest = logins.iter().enumerate().min_by_key(|(_, one)| one.used_at);
        let Some((at, _)) = oldest else { return };
        logins.remove(at);
    }
}

#[cfg(test)]
mod tests;
