//! People and the browsers in which they are logged in.
//!
//! # Invariants
//! - A cookie is 32 random bytes, drawn at each login: none that a browser brought along goes on.
//! - Why a login failed is told to nobody: not whether there is such a user, nor whether he is disabled.
//!
//! # Not here
//! What becomes of a user (`sichen_core::user`), cookies' names and other sites' pages (`rest`).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rand::TryRngCore as _;
use sichen_core::access::Grants;
use sichen_core::name::Name;
use sichen_core::port::{self, ChangeUser, UserChanged, UserCreated};
use sichen_core::user::{Change, Login, MAX_PASSWORD_BYTES, MAX_USERS, NewUser, Proof, User};
use sichen_engine::control::Control;

use super::{Access, Caller, FoundBy, Refusal};
use crate::auth::{MAX_TOKEN_BYTES, Secret};
use crate::oidc::{self, Brought, Oidc, Person};
use crate::password;

/// What the values of cookies begin with, so that a search for lost secrets finds them.
const PREFIX: &str = "scs_";
/// How often the use of one login is noted.
const NOTED_EACH: SignedDuration = SignedDuration::from_mins(5);

/// Who makes and changes users because a provider says so.
const BY_PROVIDER: &str = "single sign-on";

/// Why nobody was logged in.
#[derive(Debug)]
pub(crate) enum Denied {
    /// There is no such user, or it is not his password, or he is disabled.
    Wrong,
    /// Too many tries; the next may come after so long.
    Wait(Duration),
    /// The password was not looked at.
    Unjudged(password::Error),
    /// The provider let nobody in, or nobody whom it should.
    Outside(oidc::Error),
    /// The name is that of another, whom another provider or none knows.
    Another(Name),
    /// There are too many users.
    Full,
    /// The store failed.
    Store(port::Error),
}

impl Denied {
    /// What to tell, with its code.
    pub(crate) fn told(&self) -> String {
        match self {
            Denied::Wrong => {
                "SC6031: nobody is logged in: the name or the password is wrong, or this user may not"
                    .to_owned()
            }
            Denied::Wait(wait) => format!(
                "SC6032: too many logins failed; the next is looked at in {} seconds",
                seconds(*wait)
            ),
            Denied::Unjudged(error) => error.to_string(),
            Denied::Outside(error) => error.to_string(),
            Denied::Another(name) => format!(
                "SC6044: the name {name} is that of another user, whom the provider does not know by it"
            ),
            Denied::Full => format!("SC6036: there are {MAX_USERS} users, which is the limit"),
            Denied::Store(error) => error.to_string(),
        }
    }
}

/// Whole seconds, at least one.
pub(crate) fn seconds(wait: Duration) -> u64 {
    wait.as_secs().max(1) + u64::from(wait.subsec_nanos() > 0)
}

impl From<port::Error> for Denied {
    fn from(error: port::Error) -> Self {
        Self::Store(error)
    }
}

/// Somebody who has logged in now.
pub(crate) struct LoggedIn {
    /// What his browser shows from now on.
    pub cookie: String,
    pub caller: Caller,
}

/// Users by the digests of their logins.
pub(super) fn by_login(users: Vec<User>) -> HashMap<Secret, Arc<User>> {
    let mut all = HashMap::new();
    for user in users {
        let user = Arc::new(user);
        let digests = user.logins.iter();
        let digests = digests.filter_map(|login| Secret::parse(&login.digest));
        all.extend(digests.map(|digest| (digest, user.clone())));
    }
    all
}

/// The login of `user` with this digest, if it holds at `now`.
pub(super) fn login<'a>(user: &'a User, digest: &Secret, now: Timestamp) -> Option<&'a Login> {
    let digest = digest.to_string();
    let mut logins = user.logins.iter();
    let found = logins.find(|login| login.digest == digest)?;
    (!user.disabled && found.is_live(now)).then_some(found)
}

impl Access {
    /// Who asks with a cookie.
    pub(crate) async fn visitor(&self, cookie: &str) -> Result<Caller, Refusal> {
        if !cookie.starts_with(PREFIX) || cookie.len() > MAX_TOKEN_BYTES {
            return Err(Refusal::Unknown);
        }
        let copy = self.fresh().await;
        let copy = copy.map_err(|e| Refusal::Away(e.to_string()))?;
        let digest = Secret::of(cookie);
        let user = copy.by_login.get(&digest).ok_or(Refusal::Unknown)?;
        let now = copy.now(self.instant());
        let found = login(user, &digest, now).ok_or(Refusal::Unknown)?;
        self.note_login(user, found, now).await;
        Ok(of(user, found, digest))
    }

    /// Nobody in particular: what asks for no token.
    pub(crate) fn nobody() -> Caller {
        Caller {
            actor: "nobody".into(),
            grants: Arc::new(Grants::default()),
            expires_at: None,
            found_by: FoundBy::File,
            keyed: None,
        }
    }

    /// Logs `name` in, if it is his password, in the browser that showed `old`.
    pub(crate) async fn log_in(
        &self,
        control: &Control,
        name: &str,
        password: String,
        from: IpAddr,
        old: Option<&str>,
    ) -> Result<LoggedIn, Denied> {
        // What is nobody's name is remembered as one thing, however long it is.
        let known = Name::new(name).ok();
        let counted = known.as_ref().map_or("", Name::as_str);
        let begun = self.throttle.begin(counted, from, self.instant());
        begun.map_err(Denied::Wait)?;
        let done = self.try_in(control, known.clone(), password, old).await;
        match &done {
            Err(Denied::Wrong | Denied::Wait(_)) => {
                // What was typed may be a password in the wrong field.
                tracing::info!(%from, "a login was refused");
            }
            Err(_) => self.throttle.forgive(counted, from),
            Ok(_) => self.throttle.succeeded(counted, from, self.instant()),
        }
        done
    }

    async fn try_in(
        &self,
        control: &Control,
        name: Option<Name>,
        password: String,
        old: Option<&str>,
    ) -> Result<LoggedIn, Denied> {
        let known = match name {
            Some(name) => self.store.get_user(name).await?,
            None => None,
        };
        if password.len() > MAX_PASSWORD_BYTES {
            return Err(Denied::Wrong);
        }
        let kept = known.as_ref().and_then(|user| user.password.clone());
        let right = self.hasher.is(password, kept).await;
        let right = right.map_err(Denied::Unjudged)?;
        let Some(user) = known.filter(|user| right && !user.disabled) else {
            return Err(Denied::Wrong);
        };
        let by = Proof::Password(user.password_no);
        self.let_in(control, &user, by, old).await
    }

    /// Logs in whom the provider names, for whom the browser `kept` something meanwhile.
    pub(crate) async fn sign_on(
        &self,
        control: &Control,
        oidc: &Oidc,
        brought: Brought,
        kept: Option<&str>,
        from: IpAddr,
        old: Option<&str>,
    ) -> Result<LoggedIn, Denied> {
        let begun = self.throttle.begin_unnamed(from, self.instant());
        begun.map_err(Denied::Wait)?;
        let now = self.store.now().await?;
        let person = oidc.finish(brought, kept, now).await;
        let done = match person {
            Ok(person) => self.known(control, person, old).await,
            Err(error) => Err(Denied::Outside(error)),
        };
        match &done {
            Ok(_) => self.throttle.forgive_unnamed(from),
            Err(Denied::Outside(error)) => {
                tracing::info!(%from, %error, "a login by the provider was refused");
            }
            Err(_) => tracing::info!(%from, "a login by the provider was refused"),
        }
        done
    }

    /// Logs in whom the provider knows, as it knows him now.
    async fn known(
        &self,
        control: &Control,
        person: Person,
        old: Option<&str>,
    ) -> Result<LoggedIn, Denied> {
        let name = person.name.clone();
        let user = match self.store.get_user(name.clone()).await? {
            Some(user) => user,
            None => self.made(control, &person).await?,
        };
        // A name that is another's gives nobody his rights.
        if user.identity.as_ref() != Some(&person.identity) {
            return Err(Denied::Another(name));
        }
        if user.disabled {
            return Err(Denied::Wrong);
        }
        if user.grants != person.grants {
            let asked = ChangeUser {
                name,
                seen: None,
                change: Change::Roles(person.grants),
            };
            self.store
                .change_user(control.op(BY_PROVIDER), asked)
                .await?;
            self.forget();
        }
        self.let_in(control, &user, Proof::Identity(person.identity), old)
            .await
    }

    async fn made(&self, control: &Control, person: &Person) -> Result<User, Denied> {
        let new = NewUser {
            name: person.name.clone(),
            grants: person.grants.clone(),
            identity: Some(person.identity.clone()),
        };
        let made = self.store.create_user(control.op(BY_PROVIDER), new).await?;
        match made {
            // Another request may have made him.
            UserCreated::Created | UserCreated::Taken => {
                let user = self.store.get_user(person.name.clone()).await?;
                user.ok_or(Denied::Wrong)
            }
            UserCreated::Full => Err(Denied::Full),
        }
    }

    /// Logs `user` in, whom somebody has judged, in the browser that showed `old`; that login, whosever it was,
    /// is over.
    async fn let_in(
        &self,
        control: &Control,
        user: &User,
        by: Proof,
        old: Option<&str>,
    ) -> Result<LoggedIn, Denied> {
        let (cookie, digest) = new_cookie().ok_or(Denied::Unjudged(password::Error::Broken))?;
        let asked = ChangeUser {
            name: user.name.clone(),
            seen: None,
            change: Change::LogIn {
                digest: digest.to_string(),
                by,
                instead_of: old.map(|old| Secret::of(old).to_string()),
            },
        };
        let changed = self
            .store
            .change_user(control.op(&actor(&user.name)), asked);
        let changed = changed.await?;
        self.forget();
        if changed != UserChanged::Done {
            return Err(Denied::Wrong);
        }
        if let Some(before) = self.another(&user.name, old).await {
            // He may be logged out already, by his time or from elsewhere.
            self.log_out(control, &before).await?;
        }
        let user = self.store.get_user(user.name.clone()).await?;
        let user = user.ok_or(Denied::Wrong)?;
        let now = self.store.now().await?;
        let found = login(&user, &digest, now).ok_or(Denied::Wrong)?;
        Ok(LoggedIn {
            caller: of(&user, found, digest),
            cookie,
        })
    }

    /// Who was logged in by the cookie `old`, if that is not `name`.
    async fn another(&self, name: &Name, old: Option<&str>) -> Option<Caller> {
        let before = self.visitor(old?).await.ok()?;
        (*before.actor != *actor(name)).then_some(before)
    }

    /// Ends the login by which `caller` asks, if he asks by one.
    pub(crate) async fn log_out(
        &self,
        control: &Control,
        caller: &Caller,
    ) -> Result<(), port::Error> {
        let FoundBy::Login(digest) = &caller.found_by else {
            return Ok(());
        };
        let name = caller.actor.strip_prefix("user ").unwrap_or_default();
        let Ok(name) = Name::new(name) else {
            return Ok(());
        };
        let asked = ChangeUser {
            name,
            seen: None,
            change: Change::LogOut(digest.to_string()),
        };
        let changed = self.store.change_user(control.op(&caller.actor), asked);
        let changed = changed.await;
        self.forget();
        changed.map(drop)
    }

    /// The digest of a new password, to be kept.
    pub(crate) async fn digest_of(&self, password: String) -> Result<String, password::Error> {
        self.hasher.digest(password).await
    }

    /// Notes that a login is used: a write each [`NOTED_EACH`], not one a request.
    async fn note_login(&self, user: &User, login: &Login, now: Timestamp) {
        let old = now.checked_sub(NOTED_EACH).unwrap_or(Timestamp::MIN);
        if login.used_at > old {
            return;
        }
        let logins = vec![(user.name.clone(), login.digest.clone())];
        match self.store.note_logins(logins).await {
            // The next request sees it, and writes nothing.
            Ok(()) => self.forget(),
            Err(error) => tracing::debug!(%error, user = %user.name, "its use is not noted"),
        }
    }
}

fn actor(name: &Name) -> String {
    format!("user {name}")
}

fn of(user: &User, login: &Login, digest: Secret) -> Caller {
    Caller {
        actor: actor(&user.name).into(),
        grants: Arc::new(user.grants.clone()),
        expires_at: Some(login.ends_at()),
        found_by: FoundBy::Login(digest),
        keyed: None,
    }
}

fn new_cookie() -> Option<(String, Secret)> {
    let mut bytes = [0u8; 32];
    rand::rngs::OsRng.try_fill_bytes(&mut bytes).ok()?;
    let text: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let text = format!("{PREFIX}{text}");
    let digest = Secret::of(&text);
    Some((text, digest))
}
