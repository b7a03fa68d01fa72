//! Digests of passwords: argon2id, at a bounded cost.
//!
//! # Invariants
//! - At most [`MAX_HASHING`] are reckoned at once and [`MAX_WAITING`] wait for it: more are refused, so no
//!   crowd of logins takes the server's memory or its cores.
//! - A password that is nobody's takes as long as a wrong one, so no time tells which users there are.
//! - A digest whose cost is out of bounds is never reckoned, whoever wrote it into the store.
//!
//! # Not here
//! How often somebody may try ([`crate::throttle`]).

use std::sync::Arc;

use argon2::{Algorithm, Argon2, Params, Version};
use rand::TryRngCore;
use tokio::sync::Semaphore;

/// Passwords whose digests are reckoned at once.
pub const MAX_HASHING: usize = 2;
/// Logins that wait for that; more are asked to come again.
pub const MAX_WAITING: usize = 32;
/// The memory of one digest, in KiB: what OWASP advises beside two passes.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
/// The most memory that a kept digest may ask for, in KiB; one beyond is nobody's.
const MAX_MEMORY_KIB: u32 = 65_536;
/// The most passes that a kept digest may ask for; one beyond is nobody's.
const MAX_PASSES: u32 = 8;
const SALT_BYTES: usize = 16;
const DIGEST_BYTES: usize = 32;
/// What a kept digest begins with.
const SCHEME: &str = "argon2id";

/// Why no digest was reckoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// Too many wait.
    #[error("SC6033: {MAX_WAITING} logins are waiting for their turn; come again later")]
    Busy,
    /// The system has no random numbers, or no memory.
    #[error("SC9001: the digest of a password can't be reckoned")]
    Broken,
}

/// Reckons digests of passwords, a few at a time.
#[derive(Debug)]
pub(crate) struct Hasher {
    waiting: Arc<Semaphore>,
    room: Arc<Semaphore>,
}

impl Default for Hasher {
    fn default() -> Self {
        Self {
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
            room: Arc::new(Semaphore::new(MAX_HASHING)),
        }
    }
}

impl Hasher {
    /// The digest of a new password, to be kept.
    pub(crate) async fn digest(&self, password: String) -> Result<String, Error> {
        let mut salt = [0u8; SALT_BYTES];
        let drawn = rand::rngs::OsRng.try_fill_bytes(&mut salt);
        drawn.map_err(|_| Error::Broken)?;
        self.reckon(move || {
            let digest = reckoned(&password, &salt, MEMORY_KIB, PASSES)?;
            Some(format!(
                "{SCHEME}:{MEMORY_KIB}:{PASSES}:{}:{}",
                hex(&salt),
                hex(&digest)
            ))
        })
        .await
    }

    /// Whether `password` has the digest `kept`; nobody's password, if there is none.
    pub(crate) async fn is(&self, password: String, kept: Option<String>) -> Result<bool, Error> {
        self.reckon(move || {
            let Some(kept) = kept.as_deref().and_then(Kept::parse) else {
                reckoned(&password, &[0; SALT_BYTES], MEMORY_KIB, PASSES)?;
                return Some(false);
            };
            let found = reckoned(&password, &kept.salt, kept.memory_kib, kept.passes)?;
            Some(same(&found, &kept.digest))
        })
        .await
    }

    async fn reckon<T: Send + 'static>(
        &self,
        reckon: impl FnOnce() -> Option<T> + Send + 'static,
    ) -> Result<T, Error> {
        let place = self.waiting.clone().try_acquire_owned();
        let place = place.map_err(|_| Error::Busy)?;
        let room = self.room.clone().acquire_owned().await;
        let room = room.map_err(|_| Error::Broken)?;
        // It keeps its room to its end, though nobody waits for it any more.
        let done = tokio::task::spawn_blocking(move || {
            let done = reckon();
            drop((room, place));
            done
        });
        done.await.ok().flatten().ok_or(Error::Broken)
    }
}

struct Kept {
    memory_kib: u32,
    passes: u32,
    salt: Vec<u8>,
    digest: Vec<u8>,
}

impl Kept {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        if parts.next()? != SCHEME {
            return None;
        }
        let kept = Self {
            memory_kib: parts.next()?.parse().ok()?,
            passes: parts.next()?.parse().ok()?,
            salt: unhex(parts.next()?)?,
            digest: unhex(parts.next()?)?,
        };
        let bounded = kept.memory_kib <= MAX_MEMORY_KIB
            && kept.passes <= MAX_PASSES
            && kept.salt.len() == SALT_BYTES
            && kept.digest.len() == DIGEST_BYTES
            && parts.next().is_none();
        bounded.then_some(kept)
    }
}

fn reckoned(
    password: &str,
    salt: &[u8],
    memory_kib: u32,
    passes: u32,
) -> Option<[u8; DIGEST_BYTES]> {
    let params = Params::new(memory_kib, passes, 1, Some(DIGEST_BYTES)).ok()?;
    let mut digest = [0u8; DIGEST_BYTES];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let done = argon2.hash_password_into(password.as_bytes(), salt, &mut digest);
    done.ok().map(|()| digest)
}

/// In the same time, whatever they are.
fn same(a: &[u8], b: &[u8]) -> bool {
    let differ = a.iter().zip(b).fold(0u8, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differ) == 0 && a.len() == b.len()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests;
