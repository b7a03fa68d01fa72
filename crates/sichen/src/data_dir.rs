//! Where a server keeps its data unless it is told otherwise.
//!
//! # Not here
//! Tokens in it (`sichen_server::auth`), locking the directory (the store).

use std::path::PathBuf;

/// `SICHEN_DATA`, else `sichen` in the user's data directory (`XDG_DATA_HOME`, or
/// `~/.local/share`), else `sichen-data` here.
pub fn default() -> PathBuf {
    let dir = |name: &str| {
        let value = std::env::var_os(name).map(PathBuf::from);
        value.filter(|path| !path.as_os_str().is_empty())
    };
    if let Some(data) = dir("SICHEN_DATA") {
        return data;
    }
    let share = dir("XDG_DATA_HOME").or_else(|| dir("HOME").map(|h| h.join(".local/share")));
    share.map_or_else(|| PathBuf::from("sichen-data"), |s| s.join("sichen"))
}
