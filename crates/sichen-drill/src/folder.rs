//! The folder of evidence that a drill leaves behind.
//!
//! # Invariants
//! - Every file in it was masked, and then looked through for what should have been masked.
//! - A folder is new: nothing of another drill is ever written over.
//!
//! # Not here
//! What a secret is ([`crate::secrets`]); what the record says ([`crate::record`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::record::Record;
use crate::schedule::Plan;
use crate::secrets::Secrets;

/// The record.
pub const RECORD: &str = "record.yaml";
/// What a replay goes by.
pub const PLAN: &str = "plan.yaml";

/// A new folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    secrets: Secrets,
    files: BTreeMap<String, String>,
    /// Files in which a secret was left after masking.
    leaks: Vec<String>,
    /// Files in which something was masked.
    masked: usize,
}

impl Folder {
    /// Makes it.
    ///
    /// # Errors
    /// If something is there already, or it can't be made.
    pub fn make(path: &Path, secrets: Secrets) -> Result<Self, Error> {
        std::fs::create_dir_all(path).map_err(|e| Error::folder(path, e))?;
        let mut there = std::fs::read_dir(path).map_err(|e| Error::folder(path, e))?;
        if there.next().is_some() {
            return Err(Error::folder(
                path,
                "it is not empty; name a new place with --evidence",
            ));
        }
        Ok(Self {
            path: path.to_owned(),
            secrets,
            files: BTreeMap::new(),
            leaks: Vec::new(),
            masked: 0,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// One more secret.
    pub fn hide(&mut self, secret: &str) {
        self.secrets.add(secret);
    }

    /// The password in an address.
    pub fn hide_address(&mut self, address: &str) {
        self.secrets.add_address(address);
    }

    /// Writes a file, masked.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write(&mut self, name: &str, text: &str) -> Result<(), Error> {
        let masked = self.secrets.mask(text);
        if self.secrets.is_in(&masked) {
            self.leaks.push(name.to_owned());
        }
        self.masked += usize::from(masked != text);
        let path = self.path.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|e| Error::folder(parent, e))?;
        }
        std::fs::write(&path, &masked).map_err(|e| Error::folder(&path, e))?;
        let digest = Sha256::digest(masked.as_bytes());
        let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.files.insert(name.to_owned(), digest);
        Ok(())
    }

    /// Writes a value as JSON lines.
    ///
    /// # Errors
    /// As [`Folder::write`].
    pub fn write_lines<T: Serialize>(&mut self, name: &str, items: &[T]) -> Result<(), Error> {
        let mut text = String::new();
        for item in items {
            let line = serde_json::to_string(item);
            text.push_str(&line.map_err(|e| Error::folder(&self.path.join(name), e))?);
            text.push('\n');
        }
        self.write(name, &text)
    }

    /// Writes a value as YAML.
    ///
    /// # Errors
    /// As [`Folder::write`].
    pub fn write_yaml<T: Serialize>(&mut self, name: &str, value: &T) -> Result<(), Error> {
        let text = serde_saphyr::to_string(value);
        let text = text.map_err(|e| Error::folder(&self.path.join(name), e))?;
        self.write(name, &text)
    }

    /// Copies a file, masked; nothing if it is not there.
    ///
    /// # Errors
    /// As [`Folder::write`].
    pub fn copy(&mut self, name: &str, from: &Path) -> Result<String, Error> {
        let bytes = std::fs::read(from).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        self.write(name, &text)?;
        Ok(text)
    }

    /// The files, with their digests.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, String> {
        self.files.clone()
    }

    /// In how many files something was masked.
    #[must_use]
    pub fn masked(&self) -> usize {
        self.masked
    }

    /// Files in which a secret was left.
    #[must_use]
    pub fn leaks(&self) -> Vec<String> {
        self.leaks.clone()
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::folder(path, e))?;
    serde_saphyr::from_str(&text).map_err(|e| Error::folder(path, e))
}

/// The record of a folder.
///
/// # Errors
/// If there is none, or it is not understood.
pub fn record(folder: &Path) -> Result<Record, Error> {
    read(&folder.join(RECORD))
}

/// The plan of a folder.
///
/// # Errors
/// As [`record`].
pub fn plan(folder: &Path) -> Result<Plan, Error> {
    read(&folder.join(PLAN))
}

#[cfg(test)]
mod tests;
