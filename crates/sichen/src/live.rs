//! What of a server's configuration changes while it runs: at SIGHUP its file, its certificates and its file of
//! alerts are read again.
//!
//! # Invariants
//! - All of a file is taken up or nothing: one that can't be used leaves in force what was.
//! - What was said as an option or in the environment goes before the file, as at the start.
//! - A key that needs a restart keeps its value, and is named in one warning.
//!
//! # Not here
//! What is wrong with a configuration ([`crate::config`]); certificates that change without being asked
//! ([`sichen_server::tls`]).

use std::path::PathBuf;
use std::sync::Arc;

use sichen_core::alert;
use sichen_engine::alerts::Sender;
use sichen_engine::driver::Engine;
use sichen_server::tls::Tls;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::{self, ServerConfig, alerts};
use crate::failure::Failure;
use crate::logging;
use crate::serve;

/// The keys that change without a restart.
const LIVE_KEYS: [&str; 2] = ["log", "retention"];

/// A server's configuration, as it is told and as it is in force.
#[derive(Debug)]
pub struct Live {
    options: ServerConfig,
    file: Option<PathBuf>,
    /// With what is derived and the defaults.
    force: ServerConfig,
    asked: Signal,
}

/// What is told, and the way to those who are.
type Told = (Arc<alert::Settings>, Arc<dyn Sender>);

/// What a file that was read again says otherwise.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changed {
    taken: Vec<&'static str>,
    for_a_restart: Vec<String>,
}

impl Live {
    /// Of a server that was started with these `options` and this file, with `force` in force. From here on
    /// SIGHUP ends the process no more.
    ///
    /// # Errors
    /// If the system lets nobody listen to a signal.
    pub fn new(
        options: ServerConfig,
        file: Option<PathBuf>,
        force: ServerConfig,
    ) -> Result<Self, Failure> {
        Ok(Self {
            options,
            file,
            force: force.whole(),
            asked: signal(SignalKind::hangup())?,
        })
    }

    /// Reads again whenever it is asked to, for ever.
    pub async fn run(mut self, engine: &Engine, tls: Option<&Tls>) {
        while self.asked.recv().await.is_some() {
            if let Some(tls) = tls {
                tls.look();
            }
            let read = self.alerts().and_then(|told| Ok((told, self.read()?)));
            let (told, changed) = match read {
                Ok(read) => read,
                Err(failure) => {
                    tracing::error!(
                        "SC7017: the configuration was read again and can't be used; what was in force \
                         stays: {failure}"
                    );
                    continue;
                }
            };
            if let Some(retention) = self.force.retention {
                engine.keep_for(retention.0);
            }
            if let Some((settings, sender)) = told {
                engine.retell(settings, sender);
            }
            tracing::info!(taken = ?changed.taken, "the configuration was read again");
            if !changed.for_a_restart.is_empty() {
                tracing::warn!(
                    "SC7018: these keys have changed and need a restart; until then the values before \
                     stay in force: {}",
                    changed.for_a_restart.join(", ")
                );
            }
        }
    }

    /// The file of alerts as it is now, with its secrets, if this server tells anything.
    fn alerts(&self) -> Result<Option<Told>, Failure> {
        let file = self.force.alerts.as_ref();
        file.map(|file| serve::told(&alerts::load(file)?))
            .transpose()
    }

    /// Takes up what the file says now, as far as it can without a restart.
    fn read(&mut self) -> Result<Changed, Failure> {
        let Some(file) = &self.file else {
            return Ok(Changed::default());
        };
        let read = config::read::<ServerConfig>(file)?;
        let new = self.options.clone().over(read.config);
        let problems = new.problems();
        if !problems.is_empty() {
            return Err(config::refused(&file.display().to_string(), &problems));
        }
        let new = new.whole();
        let changed = compared(&self.force, &new);
        if changed.taken.contains(&"log")
            && let Some(log) = &new.log
        {
            logging::change(log).map_err(|why| Failure::usage(format!("log: {why}")))?;
        }
        self.force.log = new.log;
        self.force.retention = new.retention;
        Ok(changed)
    }
}

/// The keys that differ.
fn compared(force: &ServerConfig, new: &ServerConfig) -> Changed {
    let keys = |config: &ServerConfig| {
        let value = serde_json::to_value(config).unwrap_or_default();
        value.as_object().cloned().unwrap_or_default()
    };
    let (old, now) = (keys(force), keys(new));
    let mut changed = Changed::default();
    let mut all: Vec<&String> = old.keys().chain(now.keys()).collect();
    all.sort_unstable();
    all.dedup();
    for key in all {
        // A store's password is shown to nobody, and may be what has changed.
        let same = match key.as_str() {
            "store" => force.store == new.store,
            key => old.get(key) == now.get(key),
        };
        match LIVE_KEYS.into_iter().find(|live| *live == key.as_str()) {
            _ if same => {}
            Some(live) => changed.taken.push(live),
            None => changed.for_a_restart.push(key.clone()),
        }
    }
    changed
}

#[cfg(test)]
mod tests;
