//! Who may ask: the API's token and the workers' join token, each in a file of the data directory.
//!
//! # Invariants
//! - There is no default secret and no empty one: a file is made at the first start, with 32 random
//!   bytes, readable by its owner alone; a file that others may read is refused.
//! - Only digests are kept in memory, and they are compared in constant time. A file with the digest
//!   (`token.sha256`) may stand in the directory instead of the token itself.
//!
//! # Not here
//! Tokens that are rows of the store, and roles ([`crate::access`]).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rand::TryRngCore;
use sha2::{Digest, Sha256};

/// File with the API's token.
pub const TOKEN_FILE: &str = "token";
/// File with the workers' join token.
pub const JOIN_TOKEN_FILE: &str = "join-token";
/// Added to a token file's name for the file that has only the token's SHA-256, in hexadecimal.
pub const DIGEST_SUFFIX: &str = ".sha256";
/// The longest token that is read, in bytes.
pub const MAX_TOKEN_BYTES: usize = 1_024;
/// A token of a file has at least this many characters.
const MIN_CHARS: usize = 32;
/// And at least this many different ones: 32 random hexadecimal digits have fewer once in a billion times.
const MIN_DIFFERENT: usize = 7;
/// What samples and old defaults of this and other programs have for a token. As a token each is too short; its
/// digest has the length of any other.
const SAMPLES: [&str; 16] = [
    "",
    "123456",
    "admin",
    "admin/123456",
    "admin:admin",
    "change-me",
    "change_me",
    "changeme",
    "default",
    "default_token",
    "null",
    "password",
    "secret",
    "test",
    "token",
    "undefined",
];

/// Why a token file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Others may read it.
    #[error(
        "SC6010: {path} may be read or written by others (mode {mode:04o}); if nobody else has seen it, \
         run `chmod 600 {path}`, else delete it and start again for a new one"
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// There is no secret in it.
    #[error(
        "SC6011: {path} holds no token ({chars} characters, at least {MIN_CHARS} of visible ASCII \
         are needed); delete it and start again for a new one"
    )]
    Empty {
        /// The file.
        path: PathBuf,
        /// How many it has.
        chars: usize,
    },
    /// Others may know or guess it.
    #[error(
        "SC6014: the token in {path} is {why}, which others may know; delete the file and start again for \
         a new one"
    )]
    Known {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        why: &'static str,
    },
    /// There is no digest in it.
    #[error(
        "SC6013: {path} holds no SHA-256 of a token (64 hexadecimal digits); write one, or delete \
         the file"
    )]
    Digest {
        /// The file.
        path: PathBuf,
    },
    /// It can't be read or written.
    #[error("SC6012: the token file {path} can't be used: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// The digest of a token. Two are compared in the same time, whatever they are.
#[derive(Clone)]
pub(crate) struct Secret([u8; 32]);

impl Secret {
    pub(crate) fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// Reads 64 hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        from_hex(text).map(Self)
    }

    /// Whether `text` is the secret. Takes the same time for any text of one length.
    fn is(&self, text: &str) -> bool {
        *self == Self::of(text)
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        let differ = self.0.iter().zip(other.0);
        let differ = differ.fold(0u8, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differ) == 0
    }
}

impl Eq for Secret {}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl std::hash::Hash for Secret {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// 64 hexadecimal digits.
impl std::fmt::Display for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// The tokens of one node.
pub struct Tokens {
    api: Secret,
    join: Secret,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

impl Tokens {
    /// Reads the token files in `dir`, or makes those that are not there. Where a file with the
    /// token's digest is there, that one counts, and no token is read or made.
    ///
    /// # Errors
    /// [`Error`] names the file and what to do.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(JOIN_TOKEN_FILE);
        let tokens = Self {
            api: secret(&dir.join(TOKEN_FILE))?,
            join: secret(&path)?,
        };
        // Each worker would have the whole API.
        if tokens.api == tokens.join {
            let why = "the API's too";
            return Err(Error::Known { path, why });
        }
        Ok(tokens)
    }

    /// Whether `token` may use the API.
    #[must_use]
    pub fn may_ask(&self, token: &str) -> bool {
        !token.is_empty() && token.len() <= MAX_TOKEN_BYTES && self.api.is(token)
    }

    /// Whether `token` lets any worker join.
    #[must_use]
    pub fn may_join(&self, token: &str) -> bool {
        !token.is_empty() && token.len() <= MAX_TOKEN_BYTES && self.join.is(token)
    }
}

/// The token in the file `path`, as a client on the same machine needs it.
///
/// # Errors
/// [`Error`] names the file and what to do.
pub fn read(path: &Path) -> Result<String, Error> {
    let text = read_private(path)?;
    let token = text.trim();
    let known = |why| Error::Known {
        path: path.to_owned(),
        why,
    };
    let visible = token.bytes().all(|b| b.is_ascii_graphic());
    if token.len() < MIN_CHARS || token.len() > MAX_TOKEN_BYTES || !visible {
        return Err(Error::Empty {
            path: path.to_owned(),
            chars: token.chars().count(),
        });
    }
    match guessable(token.as_bytes()) {
        Some(why) => Err(known(why)),
        None => Ok(token.to_owned()),
    }
}

/// The text of the file `path`, which its owner alone may read: a secret that others have chosen, and that may
/// be short.
///
/// # Errors
/// As [`read`], but for how it looks: it must not be empty.
pub fn read_short(path: &Path) -> Result<String, Error> {
    let text = read_private(path)?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() {
        let path = path.to_owned();
        return Err(Error::Empty { path, chars: 0 });
    }
    Ok(secret.to_owned())
}

/// What makes a token one that nobody has drawn at random.
fn guessable(token: &[u8]) -> Option<&'static str> {
    let mut different = token.to_vec();
    different.sort_unstable();
    different.dedup();
    if different.len() < MIN_DIFFERENT {
        return Some("made of a few characters");
    }
    let repeats = |n: usize| token[n..] == token[..token.len() - n];
    if (1..=token.len() / 2).any(repeats) {
        return Some("one text repeated");
    }
    let steps = token.windows(2).filter(|pair| pair[0] + 1 == pair[1]);
    (steps.count() > token.len() / 2).then_some("a row of characters")
}

/// The beginning of a file that its owner alone may read.
fn read_private(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::Io {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.mode() & 0o7777;
    if mode & 0o077 != 0 {
        let path = path.to_owned();
        return Err(Error::Open { path, mode });
    }
    let mut text = String::new();
    let limit = MAX_TOKEN_BYTES as u64 + 1;
    file.take(limit).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

fn secret(path: &Path) -> Result<Secret, Error> {
    let mut digest = path.as_os_str().to_owned();
    digest.push(DIGEST_SUFFIX);
    let digest = PathBuf::from(digest);
    match read_private(&digest) {
        Ok(text) => {
            let Some(found) = from_hex(text.trim()).map(Secret) else {
                return Err(Error::Digest { path: digest });
            };
            let why = "that of an empty text or of a sample";
            match SAMPLES.iter().any(|sample| found.is(sample)) {
                true => Err(Error::Known { path: digest, why }),
                false => Ok(found),
            }
        }
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(Secret::of(&open(path)?))
        }
        Err(error) => Err(error),
    }
}

/// 64 hexadecimal digits as bytes.
fn from_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(bytes)
}

fn open(path: &Path) -> Result<String, Error> {
    match read(path) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => make(path)
            .map_err(|source| Error::Io {
                path: path.to_owned(),
                source,
            }),
        result => result,
    }
}

/// Writes a new token: whole, or not at all.
fn make(path: &Path) -> io::Result<String> {
    let mut bytes = [0u8; 32];
    rand::rngs::OsRng
        .try_fill_bytes(&mut bytes)
        .map_err(io::Error::other)?;
    let token: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let half = path.with_extension("new");
    if let Err(error) = fs::remove_file(&half)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&half)?;
    file.write_all(token.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::rename(&half, path)?;
    if let Some(dir) = path.parent() {
        File::open(dir)?.sync_all()?;
    }
    Ok(token)
}

#[cfg(test)]
mod tests;
