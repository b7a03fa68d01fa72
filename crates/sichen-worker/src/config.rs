//! What a worker is told about itself. The file is YAML; every key has a default but `servers`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize, Serializer};
use sichen_sdk::session::DEFAULT_GRACE_MS;

use crate::Error;

/// A worker's configuration. Written out, its secrets are `***`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Servers to dial, `http://host:port` or `https://host:port`; any of them will do.
    pub servers: Vec<String>,
    /// For https: a PEM file with the certificates that may vouch for a server. Default: those of
    /// this machine.
    pub ca_file: Option<PathBuf>,
    /// For https: its own certificate and those that vouch for it, PEM, for servers that ask for one.
    /// A renewed file is taken up when it connects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert: Option<PathBuf>,
    /// The key of that certificate, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
    /// Proves to the servers that this worker may join. Better kept in a file.
    #[serde(serialize_with = "hidden", skip_serializing_if = "Option::is_none")]
    pub join_token: Option<String>,
    /// A file that holds the join token.
    pub join_token_file: Option<PathBuf>,
    /// A name for people. Default: the host's.
    pub name: Option<String>,
    /// The pool that it serves.
    pub pool: String,
    /// Attempts that it runs at once, 1 to 10,000.
    pub slots: u32,
    /// By which jobs choose their workers, such as `zone: a`.
    pub labels: BTreeMap<String, String>,
    /// What of this machine attempts may take together, such as `cpu: 8`, `memory: 32Gi`, `gpu/a100: 2`.
    /// Jobs that ask for a resource run on none that does not list it.
    pub resources: BTreeMap<String, Amount>,
    /// What of that is kept back for everything else on the machine.
    pub reserve: BTreeMap<String, Amount>,
    /// Identity, journal and output of attempts. A local directory of its own. Default:
    /// `sichen-worker` where the worker is started; of `sichen worker`, its own default.
    pub data_dir: Option<PathBuf>,
    /// From TERM to KILL of an attempt whose job says nothing of it (`timeouts.grace`), 100 to 10,000.
    pub grace_ms: u64,
    /// How long running attempts may go on after SIGTERM.
    pub drain_grace_ms: u64,
    /// Offer `noop`, `sleep`, `echo` and `fail`.
    pub builtin: bool,
    /// Named places that plan steps may read bounds from.
    pub data_sources: BTreeMap<String, DataSourceConfig>,
    /// Commands offered as handlers, by the handler's name.
    pub processes: BTreeMap<String, ProcessConfig>,
    /// Programs (absolute paths) that a job may name itself, in the parameter `argv` of the handler
    /// `process`. Empty: there is no such handler.
    pub allow_programs: Vec<PathBuf>,
    /// How the processes of an attempt are held together, besides their supervisor.
    pub containment: Containment,
    /// The most memory that the processes of one attempt may use together, such as `512Mi`; the kernel kills
    /// of them what goes beyond it. Needs a cgroup that limits memory. Default: no limit.
    pub memory_limit: Option<Amount>,
    /// Kept of each of stdout and stderr of one attempt; the rest is counted and dropped.
    pub output_limit_bytes: u64,
    /// Kept of all attempts' outputs together; beyond it the oldest ended attempts go.
    pub output_total_bytes: u64,
    /// Directories of ended attempts that are kept, the newest.
    pub keep_attempts: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            servers: Vec::new(),
            ca_file: None,
            tls_cert: None,
            tls_key: None,
            join_token: None,
            join_token_file: None,
            name: None,
            pool: "default".to_owned(),
            slots: 4,
            labels: BTreeMap::new(),
            resources: BTreeMap::new(),
            reserve: BTreeMap::new(),
            data_dir: None,
            grace_ms: DEFAULT_GRACE_MS,
            drain_grace_ms: worker_drain_grace(),
            builtin: false,
            data_sources: BTreeMap::new(),
            processes: BTreeMap::new(),
            allow_programs: Vec::new(),
            containment: Containment::Auto,
            memory_limit: None,
            output_limit_bytes: 16 * 1024 * 1024,
            output_total_bytes: 2 * 1024 * 1024 * 1024,
            keep_attempts: 500,
        }
    }
}

fn worker_drain_grace() -> u64 {
    sichen_sdk::worker::DEFAULT_DRAIN_GRACE_MS
}

/// An amount of a resource, in thousandths; written as a number or a text: `2`, `0.5`, `500m`, `4Gi`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount(pub u64);

impl Amount {
    /// As a whole number, such as bytes.
    pub(crate) fn whole(self) -> u64 {
        self.0 / 1_000
    }

    /// Reads an amount; `None` if the text is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Amount> {
        const UNITS: [(&str, u64); 10] = [
            ("Ki", 1 << 10),
            ("Mi", 1 << 20),
            ("Gi", 1 << 30),
            ("Ti", 1 << 40),
            ("k", 1_000),
            ("K", 1_000),
            ("M", 1_000_000),
            ("G", 1_000_000_000),
            ("T", 1_000_000_000_000),
            ("", 1),
        ];
        let text = text.trim();
        if let Some(thousandths) = text.strip_suffix('m') {
            return thousandths.parse().ok().map(Amount);
        }
        let (unit, factor) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
        let number = text.strip_suffix(unit)?;
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 3 {
            return None;
        }
        let part: u64 = format!("{part:0<3}").parse().ok()?;
        let thousandths = whole.parse::<u64>().ok()?.checked_mul(1_000)?;
        let amount = thousandths.checked_add(part)?.checked_mul(*factor)?;
        // What servers take.
        (amount <= 1 << 60).then_some(Amount(amount))
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.0 / 1_000, self.0 % 1_000) {
            (whole, 0) => serializer.serialize_u64(whole),
            (whole, part) => serializer.collect_str(&format_args!("{whole}.{part:03}")),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl serde::de::Visitor<'_> for Reader {
            type Value = Amount;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an amount such as 2, 0.5, 500m or 4Gi")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Amount, E> {
                let wrong = || E::invalid_value(serde::de::Unexpected::Str(text), &self);
                Amount::parse(text).ok_or_else(wrong)
            }
            fn visit_u64<E: serde::de::Error>(self, n: u64) -> Result<Amount, E> {
                self.visit_str(&n.to_string())
            }
            fn visit_f64<E: serde::de::Error>(self, n: f64) -> Result<Amount, E> {
                self.visit_str(&n.to_string())
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// In bytes: less is a slip, such as a unit left out.
const LEAST_MEMORY: u64 = 1 << 20;

/// In place of a secret.
const HIDDEN: &str = "***";

fn hidden<S: Serializer>(_: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(HIDDEN)
}

fn hidden_text<S: Serializer>(_: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(HIDDEN)
}

/// An environment may hold secrets: its names alone are written out.
fn names_alone<S: Serializer>(
    env: &BTreeMap<String, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(env.keys().map(|name| (name, HIDDEN)))
}

/// Where a data source is.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum DataSourceConfig {
    /// A SQLite file, opened read-only.
    Sqlite(PathBuf),
    /// The address of a PostgreSQL database, as a server's `store` has it; each query runs in a
    /// read-only transaction.
    #[serde(serialize_with = "hidden_text")]
    Postgres(String),
}

/// What holds the processes of an attempt together, besides their supervisor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Containment {
    /// The best of the following that this machine allows.
    #[default]
    Auto,
    /// A leaf of cgroup v2, below the worker's own.
    CgroupV2,
    /// A cgroup of version 1's freezer, below the worker's own.
    CgroupV1,
    /// Nothing more.
    None,
}

/// A command offered as a handler.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessConfig {
    /// Program (absolute path) and arguments, given to the system as they stand.
    pub argv: Vec<String>,
    /// Whether the job's parameter `args`, a list of texts, is appended.
    #[serde(default)]
    pub allow_args: bool,
    /// Where it starts. Default: the attempt's own directory.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// Added to its environment.
    #[serde(default, serialize_with = "names_alone")]
    pub env: BTreeMap<String, String>,
    /// Added to its environment: variables whose values are the texts of these files (absolute paths), read
    /// at each start and hidden in what it writes.
    #[serde(default)]
    pub secrets: BTreeMap<String, PathBuf>,
    /// In place of the worker's `memory_limit`.
    #[serde(default)]
    pub memory_limit: Option<Amount>,
}

impl Config {
    /// Reads a YAML text.
    ///
    /// # Errors
    /// Where and what is wrong with it.
    pub fn from_yaml(text: &str) -> Result<Config, Error> {
        serde_saphyr::from_str(text).map_err(|error| Error::Config(error.to_string()))
    }

    /// Whether it can be used.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check(&self) -> Result<(), Error> {
        let bad = |message: String| Err(Error::Config(message));
        if self.servers.is_empty() {
            return bad(
                "servers: name at least one, http://host:port or https://host:port".to_owned(),
            );
        }
        if !(1..=10_000).contains(&self.slots) {
            return bad(format!("slots: {} is not within 1 to 10,000", self.slots));
        }
        if !(100..=DEFAULT_GRACE_MS).contains(&self.grace_ms) {
            return bad(format!(
                "grace_ms: {} is not within 100 to 10,000; a longer one is a job's to ask for \
                 (`timeouts.grace`)",
                self.grace_ms
            ));
        }
        for (name, process) in &self.processes {
            match process.argv.first() {
                None => return bad(format!("processes.{name}.argv: empty")),
                Some(program) if !program.starts_with('/') => {
                    return bad(format!(
                        "processes.{name}.argv: {program:?} is no absolute path"
                    ));
                }
                Some(_) => {}
            }
            let mut secrets = process.secrets.iter();
            if let Some((secret, path)) = secrets.find(|(_, path)| !path.is_absolute()) {
                return bad(format!(
                    "processes.{name}.secrets.{secret}: {} is no absolute path",
                    path.display()
                ));
            }
        }
        let of_processes = self.processes.iter().map(|(name, process)| {
            let key = format!("processes.{name}.memory_limit");
            (key, process.memory_limit)
        });
        let of_all = ("memory_limit".to_owned(), self.memory_limit);
        for (key, limit) in of_processes.chain([of_all]) {
            if limit.is_some_and(|limit| limit.whole() < LEAST_MEMORY) {
                return bad(format!(
                    "{key}: is less than 1Mi, with which nothing starts"
                ));
            }
        }
        for (name, reserve) in &self.reserve {
            let Some(total) = self.resources.get(name) else {
                return bad(format!(
                    "reserve.{name}: there is no resource of that name; list it under `resources`"
                ));
            };
            if reserve.0 > total.0 {
                return bad(format!(
                    "reserve.{name}: is more than there is of it under `resources`"
                ));
            }
        }
        if self.processes.contains_key("process") && !self.allow_programs.is_empty() {
            return bad("processes.process: that name belongs to allow_programs".to_owned());
        }
        if let Some(program) = self
            .allow_programs
            .iter()
            .find(|program| !program.is_absolute())
        {
            return bad(format!(
                "allow_programs: {} is no absolute path",
                program.display()
            ));
        }
        Ok(())
    }

    /// Whether any attempt's memory is limited.
    pub(crate) fn limits_memory(&self) -> bool {
        let mut processes = self.processes.values();
        self.memory_limit.is_some() || processes.any(|process| process.memory_limit.is_some())
    }

    /// What attempts may take together, in thousandths: what there is without the reserve.
    pub(crate) fn offered(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let reserved = |name: &String| self.reserve.get(name).map_or(0, |n| n.0);
        let left = self
            .resources
            .iter()
            .map(move |(name, n)| (name.clone(), n.0.saturating_sub(reserved(name))));
        left.filter(|(_, n)| *n > 0)
    }

    pub(crate) fn read_join_token(&self) -> Result<Option<String>, Error> {
        let Some(path) = &self.join_token_file else {
            return Ok(self.join_token.clone());
        };
        let text = std::fs::read_to_string(path).map_err(|source| Error::Io {
            what: format!("read {}", path.display()),
            source,
        })?;
        match text.trim() {
            "" => Err(Error::Config(format!(
                "join_token_file: {} is empty",
                path.display()
            ))),
            token => Ok(Some(token.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests;
