//! Where a password comes from, so that it need not stand on a command line.
//!
//! # Invariants
//! - A file is read anew for each connection: a password can be changed while the server runs.
//! - A password is never in an error.
//!
//! # Not here
//! The rest of an address ([`super::address`]).

use std::path::{Path, PathBuf};

use sichen_core::port::Error;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::fault::Result;

/// A source of passwords.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Password {
    /// In the address, or none at all.
    #[default]
    Given,
    /// The whole of a file, but for a line's end.
    File(PathBuf),
    /// Lines of host, port, database, user and password, as libpq keeps them.
    Lines { path: PathBuf, must: bool },
}

impl Password {
    /// Completes `config`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if a file that was named can't be used.
    pub fn fill(&self, config: &mut Config) -> Result<()> {
        match self {
            Password::Given => {}
            Password::File(path) => {
                let text = read(path)?;
                config.password(text.trim_end_matches(['\r', '\n']));
            }
            Password::Lines { path, must } => {
                let found = private(path).and_then(|()| read(path));
                match found {
                    Ok(text) => {
                        if let Some(password) = look_up(&text, config) {
                            config.password(password);
                        }
                    }
                    Err(e) if *must => return Err(e),
                    Err(error) => tracing::debug!(%error, "no password file"),
                }
            }
        }
        Ok(())
    }
}

fn wrong(path: &Path, what: &str) -> Error {
    Error::Unavailable(format!("password file {}: {what}", path.display()))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| wrong(path, &e.to_string()))
}

/// As libpq, a file of lines that others may read is not used.
fn private(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let meta = std::fs::metadata(path).map_err(|e| wrong(path, &e.to_string()))?;
    if meta.permissions().mode() & 0o077 != 0 {
        return Err(wrong(path, "others may read it; chmod 0600 it"));
    }
    Ok(())
}

/// The password of the first line that fits.
fn look_up(text: &str, config: &Config) -> Option<String> {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        // So libpq calls it.
        _ => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let user = config.get_user().unwrap_or_default();
    let wanted = [
        host.as_str(),
        &port.to_string(),
        config.get_dbname().unwrap_or(user),
        user,
    ];
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .find_map(|line| {
            let fields = fields(line);
            let (password, keys) = fields.split_last()?;
            let fits = keys.len() == wanted.len()
                && keys.iter().zip(wanted).all(|(k, w)| k == "*" || k == w);
            fits.then(|| password.clone())
        })
}

/// The five fields of a line: a backslash takes the next sign as it is, the last may have colons.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut signs = line.chars();
    while let Some(sign) = signs.next() {
        let last = fields.len() == 5;
        let (sign, ends) = match sign {
            '\\' => (signs.next(), false),
            ':' if !last => (None, true),
            sign => (Some(sign), false),
        };
        if ends {
            fields.push(String::new());
        } else if let (Some(sign), Some(field)) = (sign, fields.last_mut()) {
            field.push(sign);
        }
    }
    fields
}

#[cfg(test)]
mod tests;
