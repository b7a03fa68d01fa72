//! The databases that tests start: found, or installed, or told how to install.
//!
//! # Invariants
//! - Only as root on Debian or Ubuntu is anything installed; nothing that is installed is started.
//!
//! # Not here
//! Where programs are looked for (`sichen-testdb`); starting them (each test starts its own).

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use sichen_testdb::Service;

use crate::stage;

/// Sees that every service but those `without` can be started by the tests.
///
/// # Errors
/// When one is missing and can't be installed here: then the words say what to install.
pub fn set_up(without: &[Service]) -> Result<()> {
    let missing = || {
        let wanted = Service::ALL.into_iter().filter(|s| !without.contains(s));
        wanted.filter(|service| !service.is_installed())
    };
    if missing().next().is_none() {
        return Ok(());
    }
    if nix::unistd::geteuid().is_root() && Path::new("/usr/bin/apt-get").exists() {
        // What it can't install is said below.
        let _ = stage::run("set-up", apt_get(&["update", "-qq"]))?;
        for service in missing() {
            for packages in service.debian_packages() {
                if stage::run("set-up", apt_get(&install_words(packages)))?.ok {
                    break;
                }
            }
        }
    }
    refuse(missing())
}

/// Says what to install of what is missing still.
fn refuse(missing: impl Iterator<Item = Service>) -> Result<()> {
    let left: Vec<String> = missing.map(Service::missing).collect();
    if !left.is_empty() {
        bail!("{}", left.join("\n       "));
    }
    Ok(())
}

fn install_words<'p>(packages: &[&'p str]) -> Vec<&'p str> {
    let install = ["install", "-y", "-qq", "--no-install-recommends"];
    install.iter().chain(packages).copied().collect()
}

/// Installs Debian packages where that can be done unasked; else does nothing.
///
/// # Errors
/// When the package tool can't be started.
pub fn install(packages: &[&str]) -> Result<()> {
    if nix::unistd::geteuid().is_root() && Path::new("/usr/bin/apt-get").exists() {
        // What it can't install, whoever needs it misses.
        let _ = stage::run("set-up", apt_get(&["update", "-qq"]))?;
        let _ = stage::run("set-up", apt_get(&install_words(packages)))?;
    }
    Ok(())
}

fn apt_get(words: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command
        .args(words)
        .env("DEBIAN_FRONTEND", "noninteractive")
        // Tests start servers of their own; invoke-rc.d starts none in this runlevel.
        .env("RUNLEVEL", "1");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_still_stops_the_tests_with_what_to_install() {
        assert!(refuse(std::iter::empty()).is_ok());
        let refused = refuse(Service::ALL.into_iter()).unwrap_err().to_string();
        assert_eq!(refused.lines().count(), Service::ALL.len(), "{refused}");
        assert!(refused.contains("apt-get install postgresql"), "{refused}");
    }

    #[test]
    fn on_debian_the_server_itself_is_installed_and_started_by_nobody() {
        let words = install_words(Service::Postgres.debian_packages()[0]);
        let command = apt_get(&words);
        let shown: Vec<_> = command.get_args().collect();
        assert_eq!(shown.last().unwrap(), &"postgresql");
        assert!(shown.contains(&std::ffi::OsStr::new("-y")));
        let mut set = command.get_envs();
        assert!(set.any(|(name, value)| name == "RUNLEVEL" && value == Some("1".as_ref())));
    }
}
