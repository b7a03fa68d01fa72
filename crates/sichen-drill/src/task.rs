//! The task of every drill: works in steps behind the fence, and writes its own evidence.
//!
//! # Invariants
//! - The evidence is in a file that the scheduler knows nothing of, one synced line at a time.
//! - It starts from the checkpoint that stands with the business data, not from what it is shown.
//!
//! # Not here
//! What a step does to the business data ([`crate::business`]).

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use sichen_sdk::fence::sqlite as fence;

use crate::business;
use crate::clock::wall_us;
use crate::drill::Load;
use crate::evidence::{Kind, Line, Occasion};
use crate::load::{STEPS, pace_ms};
use crate::schedule::Mistake;

/// Names the file of a task's [`Setting`] in its environment.
pub const SETTING_VARIABLE: &str = "DRILL_SETTING";
/// Names its worker.
pub const WORKER_VARIABLE: &str = "DRILL_WORKER";
/// Holds a secret, which the task writes into its evidence as a careless program would: it must not
/// be left there.
pub const SECRET_VARIABLE: &str = "DRILL_PLANTED_SECRET";

/// What the drill tells its tasks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setting {
    /// The business database.
    pub business: PathBuf,
    /// Where evidence goes.
    pub evidence: PathBuf,
    /// While this file is there, the service that steps wait for is slow.
    pub slow: PathBuf,
    /// What kind of load this is part of.
    pub load: LoadName,
    /// A deliberate mistake.
    pub mistake: Option<Mistake>,
}

/// [`Load`], by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "those of `Load`")]
pub enum LoadName {
    Usual,
    Skewed,
    HotKey,
    Downstream,
}

impl From<LoadName> for Load {
    fn from(name: LoadName) -> Self {
        match name {
            LoadName::Usual => Load::Usual,
            LoadName::Skewed => Load::Skewed,
            LoadName::HotKey => Load::HotKey,
            LoadName::Downstream => Load::Downstream,
        }
    }
}

impl From<Load> for LoadName {
    fn from(load: Load) -> Self {
        match load {
            Load::Usual => LoadName::Usual,
            Load::Skewed => LoadName::Skewed,
            Load::HotKey => LoadName::HotKey,
            Load::Downstream => LoadName::Downstream,
        }
    }
}

/// Why a task ended without success.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not started by a worker of a drill.
    #[error("{0} is not set: this program is started by the worker of a drill")]
    Alone(&'static str),
    /// A file.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// What it was told is not understood.
    #[error("{0}")]
    Told(String),
    /// The business database.
    #[error("the business database: {0}")]
    Business(#[from] rusqlite::Error),
    /// The fence said no, or could not be asked.
    #[error("the fence: {0}")]
    Fence(#[from] fence::Error),
}

fn variable(name: &'static str) -> Result<String, Error> {
    std::env::var(name).map_err(|_| Error::Alone(name))
}

fn number<T: std::str::FromStr>(name: &'static str) -> Result<T, Error> {
    let text = variable(name)?;
    text.parse()
        .map_err(|_| Error::Told(format!("{name}={text}")))
}

struct Task {
    setting: Setting,
    occasion: Occasion,
    attempt: u32,
    token: u64,
    worker: String,
    fence_key: String,
    evidence: File,
}

/// Does the task that the environment names.
///
/// # Errors
/// [`Error`]; the attempt then fails.
pub fn run() -> Result<(), Error> {
    let path = variable(SETTING_VARIABLE)?;
    let setting: Setting = serde_json::from_str(&std::fs::read_to_string(path)?)
        .map_err(|e| Error::Told(e.to_string()))?;
    let planned = variable("SICHEN_PLANNED_AT")?;
    let planned: jiff::Timestamp = planned.parse().map_err(|_| Error::Told(planned.clone()))?;
    let job = variable("SICHEN_JOB")?;
    let evidence = File::options()
        .create(true)
        .append(true)
        .open(&setting.evidence)?;
    let task = Task {
        occasion: Occasion {
            job: job.strip_prefix("default/").unwrap_or(&job).to_owned(),
            shard: number("SICHEN_SHARD_INDEX")?,
            planned_us: planned.as_microsecond(),
        },
        attempt: number("SICHEN_ATTEMPT")?,
        token: number("SICHEN_TOKEN")?,
        worker: variable(WORKER_VARIABLE)?,
        fence_key: variable("SICHEN_FENCE_KEY")?,
        setting,
        evidence,
    };
    let done = task.work();
    if let Err(Error::Fence(error)) = &done
        && error.refused().is_some()
    {
        task.write(Kind::Refused, 0)?;
    }
    done
}

impl Task {
    fn write(&self, kind: Kind, step: u32) -> Result<(), Error> {
        let line = Line {
            kind,
            job: self.occasion.job.clone(),
            planned_us: self.occasion.planned_us,
            shard: self.occasion.shard,
            attempt: self.attempt,
            token: self.token,
            worker: self.worker.clone(),
            step,
            at_us: wall_us(),
            note: match kind {
                Kind::Begin => std::env::var(SECRET_VARIABLE).unwrap_or_default(),
                _ => String::new(),
            },
        };
        let mut text = serde_json::to_string(&line).map_err(|e| Error::Told(e.to_string()))?;
        text.push('\n');
        // One write: lines of several tasks never mix.
        let mut file = &self.evidence;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        Ok(())
    }

    fn work(&self) -> Result<(), Error> {
        self.write(Kind::Begin, 0)?;
        let load = self.setting.load.into();
        let conn = business::open(&self.setting.business)?;
        let fenced = self.setting.mistake != Some(Mistake::NoFence);
        let fence = match fenced {
            true => Some(fence::open(&conn, &self.fence_key, self.token, None)?),
            false => None,
        };
        let done = fence
            .as_ref()
            .and_then(|f| f.opened().checkpoint)
            .unwrap_or(0);
        let done = u32::try_from(done).unwrap_or(0);
        let last = match self.setting.mistake {
            Some(Mistake::ForgetStep) => STEPS - 1,
            _ => STEPS,
        };
        for step in done + 1..=last {
            self.wait(load);
            self.step(&conn, fence.as_ref(), load, step)?;
            self.write(Kind::Step, step)?;
            self.show(step)?;
        }
        self.write(Kind::End, 0)
    }

    /// Work takes time, and a service may be slow.
    #[expect(
        clippy::disallowed_methods,
        reason = "a task that takes its time, in a process of its own"
    )]
    fn wait(&self, load: Load) {
        std::thread::sleep(Duration::from_millis(pace_ms(load, &self.occasion)));
        while load == Load::Downstream && self.setting.slow.exists() {
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn step(
        &self,
        conn: &Connection,
        fence: Option<&fence::Fence>,
        load: Load,
        step: u32,
    ) -> Result<(), Error> {
        conn.execute_batch("BEGIN IMMEDIATE")?;
        if let Some(fence) = fence {
            // On a refusal everything is rolled back already.
            fence.save(conn, i64::from(step), None)?;
        }
        business::post(conn, load, &self.occasion, step, self.token)?;
        conn.execute_batch("COMMIT")?;
        Ok(())
    }

    /// For people: how far it is.
    fn show(&self, step: u32) -> Result<(), Error> {
        let Some(channel) = std::env::var_os("SICHEN_REPORT") else {
            return Ok(());
        };
        let line = format!("{{\"checkpoint\":\"{step}\",\"done\":{step},\"expected\":{STEPS}}}\n");
        File::options()
            .append(true)
            .open(channel)?
            .write_all(line.as_bytes())?;
        Ok(())
    }
}
