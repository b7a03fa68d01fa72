//! A smaller cluster that breaks a promise still: fewer faults of fewer kinds, fewer hosts and jobs, less
//! time.
//!
//! # Invariants
//! - What is found fails: each step is simulated before it is taken.
//! - It can be said in words ([`Options::set`]), so that it can be played again.
//!
//! # Not here
//! Simulating ([`crate::sim`]).

use crate::options::{Every, Options};

/// What can be left out as a whole.
pub const PARTS: [&str; 21] = [
    "server_crash",
    "server_freeze",
    "server_cut",
    "server_deaf",
    "sign_lost",
    "worker_crash",
    "worker_freeze",
    "link_cut",
    "link_one_way",
    "isolate",
    "all_crash",
    "lost_answers",
    "lost_commits",
    "failing_attempts",
    "drift_ppm",
    "shared",
    "preempting",
    "sqlite",
    "checks",
    "past",
    "strike_hellos",
];

/// What can be less, and the least of it.
const AMOUNTS: [(&str, i64); 4] = [
    ("unsafe_secs", 5),
    ("jobs", 1),
    ("workers", 1),
    ("servers", 1),
];

impl Options {
    fn every(&mut self, part: &str) -> Option<&mut Every> {
        Some(match part {
            "server_crash" => &mut self.server_crash,
            "server_freeze" => &mut self.server_freeze,
            "server_cut" => &mut self.server_cut,
            "server_deaf" => &mut self.server_deaf,
            "sign_lost" => &mut self.sign_lost,
            "worker_crash" => &mut self.worker_crash,
            "worker_freeze" => &mut self.worker_freeze,
            "link_cut" => &mut self.link_cut,
            "link_one_way" => &mut self.link_one_way,
            "isolate" => &mut self.isolate,
            "all_crash" => &mut self.all_crash,
            _ => return None,
        })
    }

    fn leave_out(&mut self, part: &str) -> bool {
        if let Some(every) = self.every(part) {
            *every = None;
            return true;
        }
        match part {
            "lost_answers" => self.lost_answers = 0,
            "lost_commits" => self.lost_commits = 0,
            "failing_attempts" => self.failing_attempts = 0,
            "drift_ppm" => self.drift_ppm = 0,
            "shared" => self.shared = false,
            "preempting" => self.preempting = false,
            "sqlite" => self.sqlite = false,
            "checks" => self.checks = false,
            "past" => (self.past, self.checks) = (false, false),
            "strike_hellos" => self.strike_hellos = false,
            _ => return false,
        }
        true
    }

    fn amount(&self, name: &str) -> i64 {
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        match name {
            "jobs" => count(self.jobs),
            "workers" => count(self.workers),
            "servers" => count(self.servers),
            _ => self.unsafe_secs,
        }
    }

    fn set_amount(&mut self, name: &str, n: i64) {
        let count = usize::try_from(n).unwrap_or(1);
        match name {
            "jobs" => self.jobs = count,
            "workers" => self.workers = count,
            "servers" => self.servers = count,
            _ => self.unsafe_secs = n,
        }
    }

    /// Changes one of them: `link_cut=off`, `link_cut=5` (each five seconds or so), `jobs=2`.
    ///
    /// # Errors
    /// What can be said instead.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let wrong = || {
            let amounts = AMOUNTS.map(|(name, _)| name).join(", ");
            let parts = PARTS.join(", ");
            format!(
                "{text:?}: say NAME=off of {parts}, NAME=SECONDS of a fault among them, or NAME=N of {amounts}"
            )
        };
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        if text == "strike_hellos=on" {
            self.strike_hellos = true;
            return Ok(());
        }
        if value == "off" {
            return self.leave_out(name).then_some(()).ok_or_else(wrong);
        }
        if let Some(every) = self.every(name) {
            let secs: i64 = value.parse().map_err(|_| wrong())?;
            *every = Some(secs.clamp(1, 3_600) * 1_000);
            return Ok(());
        }
        let least = AMOUNTS.iter().find(|(amount, _)| *amount == name);
        let (_, least) = least.ok_or_else(wrong)?;
        let n: i64 = value.parse().map_err(|_| wrong())?;
        self.set_amount(name, n.max(*least));
        Ok(())
    }
}

/// Leaves out and lessens what can be while it `fails`; the words that make `options` so small.
pub fn shrink(options: &Options, mut fails: impl FnMut(&Options) -> bool) -> Vec<String> {
    let mut small = options.clone();
    let mut words: Vec<String> = Vec::new();
    loop {
        let before = small.clone();
        let parts = PARTS.iter().map(|part| (*part, format!("{part}=off")));
        for (name, text) in parts.collect::<Vec<_>>() {
            take(&mut small, &mut words, name, text, &mut fails);
        }
        for (name, least) in AMOUNTS {
            let n = small.amount(name);
            for less in [n / 2, n - 1] {
                let text = format!("{name}={}", less.max(least));
                take(&mut small, &mut words, name, text, &mut fails);
            }
        }
        if small == before {
            return words;
        }
    }
}

/// Takes a change if what it leads to is smaller and fails.
fn take(
    small: &mut Options,
    words: &mut Vec<String>,
    name: &str,
    text: String,
    fails: &mut impl FnMut(&Options) -> bool,
) {
    let mut smaller = small.clone();
    let known = smaller.set(&text).is_ok();
    if !known || smaller == *small || smaller.amount(name) > small.amount(name) || !fails(&smaller)
    {
        return;
    }
    *small = smaller;
    words.retain(|word| word.split_once('=').is_none_or(|(of, _)| of != name));
    words.push(text);
}

#[cfg(test)]
mod tests;
