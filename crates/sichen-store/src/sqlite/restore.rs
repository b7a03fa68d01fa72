//! A backup put in place: into a data directory that no server has.
//!
//! # Invariants
//! - All is checked before anything is put in place: seal, soundness, schema. Until then the directory's
//!   store is what it was.
//! - The epoch is raised in the copy before it gets its name: no server ever opens a restored store
//!   under the epoch of its backup.
//! - A store that is replaced is kept beside it, under another name.
//!
//! # Not here
//! What is to become of the time since the backup: nobody is asked about it yet (docs/guarantees.md).

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use sichen_core::epoch;

use super::backup::{self, part_of, sync_parent, take_part};
use super::directory::{DATABASE, DataDirectory};
use super::engine::check_version;
use super::sealed::{self, Backup, Error};
use super::tx::fault;
use super::{migrate, sql};
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
    clock: &dyn Clock,
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
    let ready = prepare(file, &part, &place, clock);
    let (backup, epoch) = ready.inspect_err(|_| {
        // It is ours alone, by the directory's lock.
        let _ = fs::remove_file(&part);
    })?;
    let kept = match occupied {
        true => Some(set_aside(&place, epoch).map_err(|e| not_restored(e.to_string()))?),
        false => None,
    };
    let placed = fs::rename(&part, &place).and_then(|()| sync_parent(&place));
    placed.map_err(|e| not_restored(e.to_string()))?;
    drop(held);
    Ok(Restored {
        backup,
        epoch,
        kept,
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

/// Copies the database out of the backup, checks it, brings it to the present schema and raises its
/// epoch.
fn prepare(
    file: &Path,
    part: &Path,
    place: &Path,
    clock: &dyn Clock,
) -> Result<(Backup, u32), Error> {
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
    let known = backup.epoch.max(epoch_of(place).unwrap_or(0));
    let epoch = epoch::after(known, clock.now());
    let raise = || {
        let tx = conn.unchecked_transaction()?;
        tx.execute(sql::RAISE_EPOCH, [epoch])?;
        tx.execute(
            sql::LEAVE_NUMBERS_OUT,
            [epoch::NUMBERS_LEFT_OUT.cast_signed()],
        )?;
        tx.commit()
    };
    raise().map_err(fault)?;
    drop(conn);
    copy.sync_all().map_err(|e| not_restored(e.to_string()))?;
    Ok((backup, epoch))
}

/// The epoch of the store that is replaced, if it can be read.
fn epoch_of(place: &Path) -> Option<u32> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(place, flags).ok()?;
    backup::about(&conn).ok().map(|about| about.epoch)
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
