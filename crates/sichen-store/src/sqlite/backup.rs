//! A backup of the store in a data directory, made while a server has it.
//!
//! SQLite writes one consistent copy (`vacuum into`) from a snapshot of its own: the server's writer
//! goes on meanwhile, and only the write-ahead log grows until the copy is done.
//!
//! # Invariants
//! - Under the final name there is a whole, checked and flushed backup, or nothing: it is written under
//!   `NAME.part`, and renamed last.
//! - What stands under the name already is never replaced.
//! - The data directory is only read.
//!
//! # Not here
//! The form of the file ([`super::sealed`]), putting one in place ([`super::restore`]), tokens: they
//! are no part of the store.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::directory::DATABASE;
use super::engine::check_version;
use super::sealed::{self, Backup, Error};
use super::tx::fault;
use super::{migrate, row, sql};

/// Backs the store in `dir` up to the file `to`.
///
/// # Errors
/// [`Error::NotWritten`] says what was in the way: nothing new stands under the name then.
pub(super) fn make(dir: &Path, to: &Path) -> Result<Backup, Error> {
    let not_written = |reason: String| Error::NotWritten {
        path: to.to_owned(),
        reason,
    };
    check_version()?;
    let database = dir.join(DATABASE);
    if !database.is_file() {
        return Err(not_written(format!(
            "there is no {DATABASE} in {} (a server on PostgreSQL keeps its store there, and `pg_dump` \
             backs it up)",
            dir.display()
        )));
    }
    if to.symlink_metadata().is_ok() {
        let text = "something of that name is there already; choose another name, or remove it";
        return Err(not_written(text.to_owned()));
    }
    if let Some(parent) = parent_of(to).filter(|parent| !parent.is_dir()) {
        return Err(not_written(format!(
            "there is no directory {}; make it first",
            parent.display()
        )));
    }
    let part = part_of(to);
    let mut file = take_part(&part).map_err(|e| not_written(format!("{}: {e}", part.display())))?;
    let made = write(&database, &part, &mut file).and_then(|backup| {
        fs::rename(&part, to)
            .and_then(|()| sync_parent(to))
            .map_err(|e| e.to_string())?;
        Ok(backup)
    });
    made.map_err(|reason| {
        // It is ours alone, by its lock.
        let _ = fs::remove_file(&part);
        not_written(format!("{reason}; nothing stands under that name"))
    })
}

/// The directory that a file is to stand in. A name that ends like a directory's is that directory's.
fn parent_of(to: &Path) -> Option<&Path> {
    if to.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Some(to);
    }
    to.parent().filter(|parent| !parent.as_os_str().is_empty())
}

fn write(database: &Path, part: &Path, file: &mut File) -> Result<Backup, String> {
    let mut backup = copy(database, part).map_err(|e| e.to_string())?;
    sealed::seal(file, &mut backup).map_err(|e| e.to_string())?;
    Ok(backup)
}

/// Where it is written before it has its name.
pub(super) fn part_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".part");
    name.into()
}

/// An empty file that nobody else writes to; what a killed predecessor left is thrown away.
pub(super) fn take_part(part: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(part)?;
    match file.try_lock() {
        // Its writer may have given it its name between the two: then it is a backup.
        Ok(()) if file.metadata()?.ino() == part.symlink_metadata()?.ino() => file.set_len(0)?,
        Ok(()) => return Err(io::Error::other("another command has just written it")),
        Err(TryLockError::WouldBlock) => {
            return Err(io::Error::other("another command is writing it"));
        }
        Err(TryLockError::Error(e)) => return Err(e),
    }
    Ok(file)
}

/// Makes a new name in a directory survive the power.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Copies one snapshot, and checks the copy.
fn copy(database: &Path, part: &Path) -> Result<Backup, sichen_core::port::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let source = Connection::open_with_flags(database, flags).map_err(fault)?;
    source.busy_timeout(Duration::from_secs(5)).map_err(fault)?;
    source
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .map_err(fault)?;
    let name = part
        .to_str()
        .ok_or_else(|| sichen_core::port::Error::Unavailable("its name is no UTF-8".to_owned()))?;
    source
        .execute("vacuum main into ?1", [name])
        .map_err(fault)?;
    drop(source);
    let copy = Connection::open_with_flags(part, flags).map_err(fault)?;
    check(&copy)?;
    about(&copy)
}

/// Whether a database that nobody writes to is sound.
pub(super) fn check(conn: &Connection) -> Result<(), sichen_core::port::Error> {
    let corrupt = sichen_core::port::Error::Corrupt;
    let found: String = conn
        .query_row("pragma integrity_check(1)", [], |row| row.get(0))
        .map_err(fault)?;
    if found != "ok" {
        return Err(corrupt(format!("SQLite finds it damaged: {found}")));
    }
    let mut orphans = conn.prepare("pragma foreign_key_check").map_err(fault)?;
    if orphans.exists([]).map_err(fault)? {
        let text = "rows in it refer to rows that are not there";
        return Err(corrupt(text.to_owned()));
    }
    Ok(())
}

/// What a store's database says of itself.
pub(super) fn about(conn: &Connection) -> Result<Backup, sichen_core::port::Error> {
    let schema = migrate::newest(conn)?;
    let mut meta = conn.prepare(sql::GET_META).map_err(fault)?;
    let mut rows = meta.query([]).map_err(fault)?;
    let Some(found) = rows.next().map_err(fault)? else {
        let text = "the meta row is missing";
        return Err(sichen_core::port::Error::Corrupt(text.to_owned()));
    };
    let found = row::row(found);
    Ok(Backup {
        instant: found.at(1)?,
        last_event: found.u64(3)?,
        epoch: found.u32(0)?,
        schema,
        database_bytes: 0,
        bytes: 0,
        sha256: String::new(),
    })
}
