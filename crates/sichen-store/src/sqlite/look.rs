//! Reads a data directory that no server has, and writes nothing to it: for checks after the fact,
//! on a copy, a read-only medium, or what is left after a crash.
//!
//! # Invariants
//! - Nothing in the directory is made, changed or removed. The write-ahead log that a killed server
//!   left is read, and its index kept in memory.
//! - While it is read, no server can take the directory.
//!
//! # Not here
//! The store itself ([`super::engine`]).

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use sichen_core::port::Error;
use sichen_core::timekeeping::Told;

use super::directory::{self, DATABASE};
use super::engine::check_version;
use super::migrate;
use super::tx::{Read, Result, fault};
use crate::clock::Clock;

/// What `f` reads of the store in `dir`, from one snapshot.
///
/// # Errors
/// [`Error::Unavailable`] if there is none, a server has it, or it is of another version;
/// [`Error::Corrupt`] if the database can't be read.
pub(super) fn at<T>(
    dir: &Path,
    clock: &dyn Clock,
    f: impl FnOnce(&Read<'_>) -> Result<T>,
) -> Result<T> {
    check_version()?;
    let database = dir.join(DATABASE);
    if !database.is_file() {
        return Err(Error::Unavailable(format!(
            "there is no {DATABASE} in {}",
            dir.display()
        )));
    }
    let held = directory::hold(dir)?;
    let conn = connect(&database).map_err(fault)?;
    migrate::check(&conn)?;
    let snapshot = conn.unchecked_transaction().map_err(fault)?;
    let now = clock.now();
    let told = Told {
        now,
        wall: now,
        steady: now,
        held: false,
    };
    let read = f(&Read::new(&snapshot, told));
    drop(snapshot);
    drop(conn);
    drop(held);
    read
}

/// Our own lock keeps writers away, so that SQLite's, for which it would write, are not needed.
fn connect(database: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    let in_use = std::fs::metadata(Path::new(&log)).is_ok_and(|log| log.len() > 0);
    if !in_use {
        // Without this it would make an empty log.
        let uri = format!("file:{}?immutable=1", escaped(database));
        return Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI);
    }
    let conn = Connection::open_with_flags_and_vfs(database, flags, c"unix-none")?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // With this the index of the log is memory, not a file.
    conn.pragma_update(None, "locking_mode", "exclusive")?;
    Ok(conn)
}

/// A path as a part of a URI.
fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}
