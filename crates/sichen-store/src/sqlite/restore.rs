//! A backup put in place: into a data directory that no server has.
//!
//! # Invariants
//! - All is checked before anything is put in place: seal, soundness, schema. Until then the directory's
//!   store is what it was.
//! - The epoch is raised in the copy before it gets its name: no server ever opens a restored store
//!   under the epoch of its backup.
//! - A store that is replaced is kept beside it, under another name; access tokens that are over there are over
//!   in what replaces it.
//!
//! # Not here
//! What is to become of the time since the backup: people decide it ([`sichen_core::restore`]).

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};
use sichen_core::access::{AccessToken, MAX_ACCESS_TOKENS};
use sichen_core::name::Name;
use sichen_core::port::{Op, Page};
use sichen_core::restore::Restore;

use super::backup::{self, part_of, sync_parent, take_part};
use super::directory::{DATABASE, DataDirectory};
use super::engine::check_version;
use super::sealed::{self, Backup, Error};
use super::tx::{Tx, fault};
use super::write::Writer;
use super::{access, migrate, restored, row, sql};
use crate::clock::Clock;

/// Files that may be there before a store is: the lock and the tokens.
const MAY_BE_THERE: &[&str] = &[
    "lock",
    "token",
    "token.sha256",
    "join-token",
    "join-token.sha256",
    "sichen.db.part",
    "sichen.db.part-journal",
];

/// What was put in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The backup.
    pub backup: Backup,
    /// The epoch from now on.
    pub epoch: u32,
    /// Where the store is that was there before.
    pub kept: Option<PathBuf>,
    /// Access tokens that were live in the backup, and over in the store that was there before.
    pub revoked: Vec<Name>,
}

/// Reads and checks the backup `file`, and puts it nowhere.
///
/// # Errors
/// [`Error::Damaged`].
pub(super) fn inspect(file: &Path) -> Result<Backup, Error> {
    sealed::open(file, &mut io::sink())
}

/// Puts the backup `file` into the data directory `dir`; `replace` allows that a store is there.
///
/// # Errors
/// [`Error`] says what was in the way; the directory's store is then as it was.
pub(super) fn put(
    file: &Path,
    dir: &Path,
    replace: bool,
    clock: Arc<dyn Clock>,
    op: Op,
) -> Result<Restored, Error> {
    let not_restored = |reason: String| Error::NotRestored {
        path: dir.to_owned(),
        reason,
    };
    check_version()?;
    // A damaged backup is found before anything is made here.
    inspect(file)?;
    let held = DataDirectory::take(dir).map_err(|e| not_restored(e.to_string()))?;
    let place = held.database();
    let occupied = place.symlink_metadata().is_ok();
    if !replace {
        let strange = strangers(dir).map_err(|e| not_restored(e.to_string()))?;
        if let Some(name) = strange {
            let text = format!("it is not empty ({name}); choose an empty one, or give --replace");
            return Err(not_restored(text));
        }
    }
    let part = part_of(&place);
    let _ = fs::remove_file(dir.join("sichen.db.part-journal"));
    let ready = prepare(file, &part, &place, clock, op);
    let (backup, begun) = ready.inspect_err(|_| {
        // It is ours alone, by the directory's lock.
        let _ = fs::remove_file(&part);
    })?;
    let kept = match occupied {
        true => {
            Some(set_aside(&place, begun.restore.epoch).map_err(|e| not_restored(e.to_string()))?)
        }
        false => None,
    };
    let placed = fs::rename(&part, &place).and_then(|()| sync_parent(&place));
    placed.map_err(|e| not_restored(e.to_string()))?;
    drop(held);
    Ok(Restored {
        backup,
        epoch: begun.restore.epoch,
        kept,
        revoked: begun.revoked,
    })
}

/// The first thing in `dir` that no restore expects.
fn strangers(dir: &Path) -> io::Result<Option<String>> {
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !MAY_BE_THERE.contains(&name.as_str()) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// What was written into the copy.
struct Begun {
    restore: Restore,
    revoked: Vec<Name>,
}

/// Copies the database out of the backup, checks it, brings it to the present schema, raises its epoch and
/// begins its restore.
fn prepare(
    file: &Path,
    part: &Path,
    place: &Path,
    clock: Arc<dyn Clock>,
    op: Op,
) -> Result<(Backup, Begun), Error> {
    let not_restored = |reason: String| Error::NotRestored {
        path: place.to_owned(),
        reason,
    };
    let damaged = |e: sichen_core::port::Error| Error::Damaged {
        path: file.to_owned(),
        reason: e.to_string(),
    };
    let copy = take_part(part).map_err(|e| not_restored(format!("{}: {e}", part.display())))?;
    let mut to = BufWriter::new(&copy);
    let backup = sealed::open(file, &mut to)?;
    let written = to.flush();
    drop(to);
    written.map_err(|e| not_restored(e.to_string()))?;
    let mut conn = Connection::open(part).map_err(|e| damaged(fault(e)))?;
    backup::check(&conn).map_err(damaged)?;
    migrate::migrate(&mut conn)?;
    // The store that is replaced may have lived on after another restore of the same backup.
    let (known, tokens) = known(place).unwrap_or_default();
    let (mut writer, _) = Writer::new(conn, clock)?;
    writer.begin().map_err(|e| e.error(None))?;
    let begun = writer.run(Some(op), |tx| {
        Ok(Begun {
            restore: restored::begin(tx, known)?,
            revoked: revoke_what_is_over(tx, &tokens)?,
        })
    });
    writer.commit().map_err(|e| e.error(None))?;
    let begun = begun?;
    drop(writer);
    copy.sync_all().map_err(|e| not_restored(e.to_string()))?;
    Ok((backup, begun))
}

/// Epoch and access tokens of the store that is replaced, if it can be read.
fn known(place: &Path) -> Option<(u32, Vec<AccessToken>)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(place, flags).ok()?;
    let epoch = backup::about(&conn).ok()?.epoch;
    // One that is damaged further on, or of another version, has at least an epoch.
    Some((epoch, tokens_of(&conn).unwrap_or_default()))
}

fn tokens_of(conn: &Connection) -> Option<Vec<AccessToken>> {
    let mut all = conn.prepare(sql::LIST_ACCESS_TOKENS).ok()?;
    let rows = all.query_map(("", MAX_ACCESS_TOKENS), |row| {
        Ok(row::row(row).access_token())
    });
    rows.ok()?.map(|token| token.ok()?.ok()).collect()
}

/// Revokes what is over by the store that is replaced, which knows more than its backup did.
fn revoke_what_is_over(tx: &mut Tx<'_>, later: &[AccessToken]) -> super::tx::Result<Vec<Name>> {
    let page = Page {
        after: None,
        limit: MAX_ACCESS_TOKENS,
    };
    let mut revoked = Vec::new();
    for token in access::list(tx, &page)? {
        let same = |other: &&AccessToken| other.asked.name == token.asked.name;
        let over = later
            .iter()
            .find(same)
            .is_some_and(|later| token.is_over_by(later));
        if over && token.revoked_at.is_none() {
            access::revoke(tx, token.asked.name.clone())?;
            revoked.push(token.asked.name);
        }
    }
    Ok(revoked)
}

/// Gives the store that is there another name, with the log that belongs to it. The old name goes on
/// until the new store takes it.
fn set_aside(place: &Path, epoch: u32) -> io::Result<PathBuf> {
    // What its log holds goes into the database, which then can do without.
    let folded = Connection::open(place).and_then(|conn| {
        conn.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?;
        conn.close().map_err(|(_, e)| e)
    });
    if let Err(error) = folded {
        tracing::warn!(%error, "the store that is replaced can't be read; it is kept as it is");
    }
    let kept = place.with_file_name(format!("{DATABASE}.before-epoch-{epoch}"));
    fs::hard_link(place, &kept)?;
    for end in ["-wal", "-shm"] {
        let beside = |path: &Path| {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        };
        // A log under the old name would be taken for the new store's.
        match fs::rename(beside(place), beside(&kept)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            Ok(()) | Err(_) => {}
        }
    }
    File::open(place)?.sync_all()?;
    Ok(kept)
}
