//! The file of a backup: a SQLite database, and behind it the seal.
//!
//! Layout: the database, as any tool of SQLite reads it; a JSON object that says what it is; the SHA-256 of
//! both; the length of the object (4 bytes, highest first); `sichenB1`.
//!
//! # Invariants
//! - A file without its seal, or with one bit changed anywhere, is not taken for a backup.
//!
//! # Not here
//! Making one ([`super::backup`]), putting one in place ([`super::restore`]).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const MAGIC: &[u8; 8] = b"sichenB1";
const DIGEST: usize = 32;
/// Digest, length, magic.
const TAIL: usize = DIGEST + 4 + MAGIC.len();
/// The longest description that is read, in bytes.
const LONGEST: u32 = 65_536;

/// Why a backup can't be made, read or put in place.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It was not written; nothing new stands under its name.
    #[error("SC3010: no backup was written to {path}: {reason}; the store goes on")]
    NotWritten {
        /// Where it was to be.
        path: PathBuf,
        /// What was in the way.
        reason: String,
    },
    /// What is to be read is no whole backup.
    #[error(
        "SC3011: {path} is no backup that can be trusted: {reason}; nothing was changed, take another one"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// It was not put in place.
    #[error("SC3012: the backup was not restored into {path}: {reason}")]
    NotRestored {
        /// The data directory.
        path: PathBuf,
        /// What was in the way, and what to do.
        reason: String,
    },
    /// The store itself.
    #[error(transparent)]
    Store(#[from] sichen_core::port::Error),
}

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The last instant that the store had used: what came later is not in it.
    pub instant: Timestamp,
    /// The number of its newest event.
    pub last_event: u64,
    /// The store's epoch.
    pub epoch: u32,
    /// The number of its newest migration.
    pub schema: u32,
    /// The size of the database in it, in bytes.
    pub database_bytes: u64,
    /// The size of the file, in bytes.
    pub bytes: u64,
    /// The digest in its seal, in hexadecimal.
    pub sha256: String,
}

impl Backup {
    fn described(&self) -> Value {
        json!({
            "instant_us": self.instant.as_microsecond(),
            "last_event": self.last_event,
            "epoch": self.epoch,
            "schema": self.schema,
            "written_by": env!("CARGO_PKG_VERSION"),
        })
    }

    fn from_described(text: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(text).ok()?;
        let number = |key: &str| value.get(key)?.as_u64();
        let small = |key: &str| u32::try_from(number(key)?).ok();
        Some(Self {
            instant: Timestamp::from_microsecond(value.get("instant_us")?.as_i64()?).ok()?,
            last_event: number("last_event")?,
            epoch: small("epoch")?,
            schema: small("schema")?,
            database_bytes: 0,
            bytes: 0,
            sha256: String::new(),
        })
    }
}

/// Puts the seal behind the database that `file` holds, and the whole on the disk. Of `backup` the
/// sizes and the digest are filled in.
pub(super) fn seal(file: &mut File, backup: &mut Backup) -> io::Result<()> {
    let text = backup.described().to_string();
    let length = u32::try_from(text.len()).map_err(io::Error::other)?;
    file.seek(SeekFrom::Start(0))?;
    let mut hash = Sha256::new();
    backup.database_bytes = io::copy(file, &mut Hashing(&mut hash))?;
    hash.update(text.as_bytes());
    let digest = hash.finalize();
    let mut tail = text.into_bytes();
    tail.extend_from_slice(&digest);
    tail.extend_from_slice(&length.to_be_bytes());
    tail.extend_from_slice(MAGIC);
    file.write_all(&tail)?;
    file.sync_all()?;
    backup.bytes = backup.database_bytes + tail.len() as u64;
    backup.sha256 = hex(&digest);
    Ok(())
}

/// Reads all of `path`, checks its seal, and hands the database to `to`.
///
/// # Errors
/// [`Error::Damaged`]; `to` may have got a part by then.
pub(super) fn open(path: &Path, to: &mut dyn Write) -> Result<Backup, Error> {
    let damaged = |reason: String| Error::Damaged {
        path: path.to_owned(),
        reason,
    };
    let unreadable = |e: io::Error| damaged(format!("it can't be read: {e}"));
    let mut file = File::open(path).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    let cut =
        || damaged("it has no seal at its end: it is cut off, or was never a backup".to_owned());
    let before_tail = bytes.checked_sub(TAIL as u64).ok_or_else(cut)?;
    let mut tail = [0; TAIL];
    file.seek(SeekFrom::Start(before_tail))
        .map_err(unreadable)?;
    file.read_exact(&mut tail).map_err(unreadable)?;
    let (digest, rest) = tail.split_at(DIGEST);
    let (length, magic) = rest.split_at(4);
    let length = <[u8; 4]>::try_from(length).map(u32::from_be_bytes);
    let length = length.ok().filter(|length| *length <= LONGEST);
    let (Some(length), true) = (length, magic == MAGIC) else {
        return Err(cut());
    };
    let database = before_tail.checked_sub(u64::from(length)).ok_or_else(cut)?;
    file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    let mut hash = Sha256::new();
    copy(&mut file, database, &mut hash, to).map_err(|e| damaged(e.to_string()))?;
    let mut text = vec![0; length as usize];
    file.read_exact(&mut text).map_err(unreadable)?;
    hash.update(&text);
    if hash.finalize().as_slice() != digest {
        let text = "its checksum does not agree with what is in it";
        return Err(damaged(text.to_owned()));
    }
    let backup = Backup::from_described(&text)
        .ok_or_else(|| damaged("what its seal says can't be read".to_owned()))?;
    Ok(Backup {
        database_bytes: database,
        bytes,
        sha256: hex(digest),
        ..backup
    })
}

fn copy(file: &mut File, length: u64, hash: &mut Sha256, to: &mut dyn Write) -> io::Result<()> {
    let mut left = file.take(length);
    let mut piece = vec![0; 1 << 16];
    loop {
        let n = left.read(&mut piece)?;
        let Some(read) = piece.get(..n).filter(|read| !read.is_empty()) else {
            return Ok(());
        };
        hash.update(read);
        to.write_all(read)?;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Hashing<'h>(&'h mut Sha256);

impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
