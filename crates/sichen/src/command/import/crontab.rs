//! A crontab, line by line.
//!
//! # Invariants
//! - Each line is imported, refused with a reason, or remarked upon; none is passed over in silence
//!   but blank ones and comments.
//! - A line means what cron takes it for: `%` is a line end and begins the input, an assignment
//!   holds for the lines below it, a `#` behind a command belongs to the command.
//!
//! # Not here
//! Reading an expression (`sichen_core::schedule::cron`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use sichen_audit::{Dialect as Slow, Timetable};
use sichen_core::schedule::cron::{Cron, Dialect};
use sichen_core::schedule::zone_by_name;

use super::source::{Import, Imported, Level, document, slug};
use crate::output;

/// Bytes of a crontab.
pub const MAX_CRONTAB_BYTES: usize = 1 << 20;
/// Entries of a crontab.
pub const MAX_ENTRIES: usize = 1_000;
/// Bytes of a title made of comments.
const LONGEST_TITLE: usize = 1_000;
/// What cron starts commands with where the table says nothing.
const CRON_PATH: &str = "/usr/bin:/bin";

/// How a crontab is to be read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Each entry has a user before its command.
    pub system: bool,
    /// The zone of the machine it comes from.
    pub time_zone: Option<String>,
    pub namespace: String,
    pub pool: Option<String>,
}

/// What the lines so far have set.
struct Table<'a> {
    options: &'a Options,
    import: Import,
    env: BTreeMap<String, String>,
    shell: String,
    /// `CRON_TZ`, or what is wrong with it.
    zone: Option<Result<String, u64>>,
    comments: Vec<String>,
    names: BTreeSet<String>,
    shells: BTreeSet<String>,
    without_zone: Option<u64>,
}

/// Reads a crontab.
pub fn read(bytes: &[u8], options: &Options) -> Import {
    let mut table = Table {
        options,
        import: Import::default(),
        env: BTreeMap::new(),
        shell: "/bin/sh".to_owned(),
        zone: None,
        comments: Vec::new(),
        names: BTreeSet::new(),
        shells: BTreeSet::new(),
        without_zone: None,
    };
    let mut carriage = None;
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let last = lines.pop().filter(|last| !last.is_empty());
    for (number, line) in (1..).zip(lines.iter().copied().chain(last)) {
        let line = match line.strip_suffix(b"\r") {
            Some(line) => {
                carriage = carriage.or(Some(number));
                line
            }
            None => line,
        };
        match std::str::from_utf8(line) {
            Ok(text) if !text.contains('\0') => table.line(number, text),
            _ => table.import.say(
                number,
                Level::Refused,
                "",
                "the line is not UTF-8 text; write it as UTF-8",
            ),
        }
    }
    if let Some(line) = carriage {
        let message = "lines end with CR LF; cron would hand the CR to the command, here it is \
                       taken off";
        table.import.say(line, Level::Warning, "", message);
    }
    if last.is_some() {
        let line = lines.len() as u64 + 1;
        let message = "the last line has no end; cron refuses such a line or passes over it, here \
                       it is read";
        table.import.say(line, Level::Warning, "", message);
    }
    table.end()
}

impl Table<'_> {
    fn line(&mut self, number: u64, text: &str) {
        let text = text.trim_start_matches([' ', '\t']);
        if text.is_empty() {
            self.comments.clear();
        } else if let Some(comment) = text.strip_prefix('#') {
            self.comment(number, comment.trim_start_matches('#').trim());
        } else if let Some((name, value)) = assignment(text) {
            self.comments.clear();
            self.assign(number, &name, value);
        } else {
            let comments = std::mem::take(&mut self.comments);
            if self.import.jobs.len() == MAX_ENTRIES {
                let message = format!("the table has more than {MAX_ENTRIES} entries; split it");
                return self.import.say(number, Level::Refused, "", message);
            }
            match self.entry(number, text, comments) {
                Ok(job) => self.import.jobs.push(job),
                Err((field, why)) => self.import.say(number, Level::Refused, field, why),
            }
        }
    }

    fn comment(&mut self, number: u64, text: &str) {
        let switched_off = split_entry(text, self.options.system)
            .is_ok_and(|entry| Cron::parse(entry.times, Dialect::CrontabPlain, None).is_ok());
        if switched_off {
            self.comments.clear();
            let message = "a comment that reads as an entry: it is switched off and not imported";
            self.import.say(number, Level::Note, "", message);
        } else if text.chars().any(char::is_alphanumeric) {
            self.comments.push(text.to_owned());
        }
    }

    fn assign(&mut self, number: u64, name: &str, value: String) {
        let mut warn = |message: String| self.import.say(number, Level::Warning, name, message);
        match name {
            "CRON_TZ" => match zone_by_name(&value) {
                Ok(_) => self.zone = Some(Ok(value)),
                Err(error) => {
                    self.zone = Some(Err(number));
                    let message = format!("{error}; the entries below it are refused");
                    self.import.say(number, Level::Refused, name, message);
                }
            },
            "SHELL" if !value.starts_with('/') => {
                warn(format!("{value:?} is no absolute path; /bin/sh stays"));
            }
            "SHELL" => self.shell = value,
            "MAILTO" | "MAILFROM" => {
                if !value.is_empty() {
                    warn(
                        "no mail is sent: a run's output is kept by its worker, its outcome is in \
                          `sichen runs`"
                            .to_owned(),
                    );
                }
            }
            "CONTENT_TYPE" | "CONTENT_TRANSFER_ENCODING" => {
                warn("left out: it is about mail, which is not sent".to_owned());
            }
            "LOGNAME" | "USER" => {
                warn("left out: processes run as the worker's user".to_owned());
            }
            "RANDOM_DELAY" => {
                warn(
                    "left out: cron draws a delay of up to so many minutes when it starts; \
                      `jitter` gives each run its own, if that is wanted"
                        .to_owned(),
                );
            }
            _ if name.starts_with("LD_") || name.starts_with("SICHEN_") => {
                warn("left out: a job can't set this variable; set it for the worker".to_owned());
            }
            _ => {
                if name == "TZ" {
                    warn(
                        "sets the command's environment alone; the times of the entries follow \
                          CRON_TZ or --tz"
                            .to_owned(),
                    );
                }
                if value.contains('$') {
                    warn(
                        "cron does not replace `$` in assignments; the value is taken as it \
                          stands"
                            .to_owned(),
                    );
                }
                self.env.insert(name.to_owned(), value);
            }
        }
    }

    fn entry(
        &mut self,
        number: u64,
        text: &str,
        comments: Vec<String>,
    ) -> Result<Imported, (&'static str, String)> {
        let quiet = text.strip_prefix('-');
        if quiet.is_some() {
            let message = "the leading `-` keeps an entry out of the system's log; it is left out";
            self.import.say(number, Level::Note, "", message);
        }
        let entry = split_entry(quiet.unwrap_or(text), self.options.system)?;
        let times = expression(entry.times)?;
        let zone = self.zone(number)?;
        let command = self.command(entry.command)?;
        let source = Timetable::cron(entry.times, Slow::CrontabPlain, &zone, None, 0);
        let source = source.map_err(|why| ("", why))?;
        let mut metadata = Map::new();
        metadata.insert("name".into(), self.name(&percent(entry.command).0).into());
        if self.options.namespace != "default" {
            metadata.insert("namespace".into(), self.options.namespace.clone().into());
        }
        if let Some(title) = title(&comments) {
            metadata.insert("title".into(), title.into());
        }
        if let Some(user) = entry.user {
            metadata.insert("labels".into(), json!({ "cron-user": user }));
            let message = format!(
                "cron runs it as `{user}`, Sichen as the worker's user: run a worker as `{user}` \
                 and name its pool with --pool; the label cron-user keeps the name"
            );
            self.import.say(number, Level::Warning, "user", message);
        }
        let spec = self.spec(&times, &zone, &command);
        Ok(Imported {
            line: number,
            document: document(metadata, spec),
            comments: comments
                .into_iter()
                .chain([format!("line {number}: {text}")])
                .collect(),
            source: vec![source],
            paused: false,
        })
    }

    fn spec(&mut self, times: &str, zone: &str, command: &str) -> Map<String, Value> {
        self.shells.insert(self.shell.clone());
        let mut env = self.env.clone();
        env.entry("PATH".into()).or_insert_with(|| CRON_PATH.into());
        env.entry("SHELL".into())
            .or_insert_with(|| self.shell.clone());
        let mut process = json!({ "argv": [self.shell, "-c", command], "env": env });
        if let Some(home) = self.env.get("HOME").filter(|home| home.starts_with('/')) {
            process["directory"] = home.as_str().into();
        }
        let mut spec = Map::new();
        spec.insert("schedules".into(), json!([{ "cron": times }]));
        spec.insert("timeZone".into(), zone.into());
        spec.insert("run".into(), json!({ "process": process }));
        if let Some(pool) = &self.options.pool {
            spec.insert("pool".into(), pool.as_str().into());
        }
        // As cron does it: nothing is made up for, nothing tried again, nothing waits for another.
        spec.insert("overlap".into(), "allow".into());
        spec.insert("catchUp".into(), json!({ "policy": "none" }));
        spec.insert("retry".into(), json!({ "maxAttempts": 1 }));
        spec
    }

    fn zone(&mut self, number: u64) -> Result<String, (&'static str, String)> {
        match (&self.zone, &self.options.time_zone) {
            (Some(Err(line)), _) => {
                let message = format!("the CRON_TZ of line {line} names no zone");
                Err(("CRON_TZ", message))
            }
            (Some(Ok(zone)), _) | (None, Some(zone)) => Ok(zone.clone()),
            (None, None) => {
                self.without_zone.get_or_insert(number);
                Ok("UTC".to_owned())
            }
        }
    }

    /// The command with what follows `%` as its input.
    fn command(&self, text: &str) -> Result<String, (&'static str, String)> {
        let (command, input) = percent(text);
        if command.trim().is_empty() {
            return Err(("command", "there is no command before the `%`".to_owned()));
        }
        let Some(mut input) = input else {
            return Ok(command);
        };
        let name = self.shell.rsplit('/').next().unwrap_or_default();
        if !["sh", "bash", "dash", "ksh", "zsh", "ash"].contains(&name) {
            let message = format!(
                "what follows `%` is the command's input, and how {} takes it is not known; put it \
                 into a file",
                self.shell
            );
            return Err(("command", message));
        }
        if !input.ends_with('\n') {
            input.push('\n');
        }
        let mut mark = "SICHEN_INPUT".to_owned();
        while input.lines().any(|line| line == mark) {
            mark.push('_');
        }
        Ok(format!("{{ {command}\n}} <<'{mark}'\n{input}{mark}"))
    }

    fn name(&mut self, command: &str) -> String {
        let first = slug(&program(command), 56);
        let mut name = first.clone();
        let mut more = 2;
        while !self.names.insert(name.clone()) {
            name = format!("{first}-{more}");
            more += 1;
        }
        name
    }

    fn end(mut self) -> Import {
        if let Some(line) = self.without_zone {
            let message = "the table says no zone, and cron takes the machine's; UTC is written: \
                           name the machine's zone with --tz";
            self.import.say(line, Level::Warning, "timeZone", message);
        }
        if let Some(line) = self.import.jobs.first().map(|job| job.line) {
            let shells: Vec<&str> = self.shells.iter().map(String::as_str).collect();
            let message = format!(
                "commands run through a shell, as in cron: the worker's configuration needs \
                 `allow_programs: [{}]`, which allows every job everything; programs of their own \
                 under `processes` are safer",
                shells.join(", ")
            );
            self.import.say(line, Level::Warning, "run", message);
            if self
                .import
                .jobs
                .iter()
                .any(|j| j.document["spec"]["run"]["process"]["directory"].is_null())
            {
                let message = "cron starts commands in the user's home directory, a worker in a \
                               directory of the attempt; write `directory` where that matters";
                self.import.say(line, Level::Note, "run", message);
            }
        }
        self.import.remarks.sort_by_key(|remark| remark.line);
        self.import
    }
}

/// An expression as it is written into the document.
fn expression(times: &str) -> Result<String, (&'static str, String)> {
    if times.eq_ignore_ascii_case("@reboot") {
        let message = "`@reboot` is an event of a machine, not a time: let the machine's service \
                       manager start it, or have it call `sichen run JOB` at boot";
        return Err(("times", message.to_owned()));
    }
    match Cron::parse_for_job(times, Dialect::CrontabPlain, None) {
        Ok(cron) => Ok(cron.text().to_owned()),
        Err(error) => {
            let mut message = error.to_string();
            if times.contains('~') {
                message.push_str(
                    "; a random time (`~`) has no fixed meaning: `H(0-29)` gives each job its own",
                );
            }
            Err(("times", message))
        }
    }
}

/// What stands for the field where a line is no entry at all.
pub const NO_ENTRY: &str = "";

/// An entry's parts.
struct Entry<'a> {
    times: &'a str,
    user: Option<&'a str>,
    command: &'a str,
}

fn split_entry(text: &str, system: bool) -> Result<Entry<'_>, (&'static str, String)> {
    let text = text.trim_start_matches([' ', '\t']);
    let fields = if text.starts_with('@') { 1 } else { 5 };
    let mut rest = text;
    for _ in 0..fields + usize::from(system) {
        let Some(end) = rest.find([' ', '\t']) else {
            let wanted = if system {
                "five times (or a nickname), a user and a command"
            } else {
                "five times (or a nickname) and a command"
            };
            let n = output::count(text.split_whitespace().count() as u64, "word");
            return Err((NO_ENTRY, format!("{n} alone; an entry has {wanted}")));
        };
        rest = rest[end..].trim_start_matches([' ', '\t']);
    }
    let mut head = text[..text.len() - rest.len()].trim_end_matches([' ', '\t']);
    let mut user = None;
    if system {
        let at = head.rfind([' ', '\t']).unwrap_or(0);
        user = Some(head[at..].trim());
        head = head[..at].trim_end_matches([' ', '\t']);
    }
    if rest.is_empty() {
        return Err(("command", "there is no command".to_owned()));
    }
    Ok(Entry {
        times: head,
        user,
        command: rest,
    })
}

/// A name and a value, if the line assigns one.
fn assignment(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    let name = unquoted(name.trim_matches([' ', '\t']));
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let good = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !good || !name.chars().all(plain) {
        return None;
    }
    let value = unquoted(value.trim_matches([' ', '\t']));
    Some((name.to_owned(), value.to_owned()))
}

fn unquoted(text: &str) -> &str {
    for sign in ['"', '\''] {
        let inside = text.strip_prefix(sign).and_then(|t| t.strip_suffix(sign));
        if let Some(inside) = inside {
            return inside;
        }
    }
    text
}

/// The command before the first `%`, and what follows as lines. `\%` is a `%`.
fn percent(text: &str) -> (String, Option<String>) {
    let mut parts = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let last = parts.len() - 1;
        match c {
            '\\' if chars.peek() == Some(&'%') => {
                chars.next();
                parts[last].push('%');
            }
            '%' => parts.push(String::new()),
            c => parts[last].push(c),
        }
    }
    let command = parts.remove(0);
    let input = (!parts.is_empty()).then(|| parts.join("\n"));
    (command, input)
}

/// Comments as one title.
fn title(comments: &[String]) -> Option<String> {
    let mut title = comments.join(" ");
    title.truncate(title.floor_char_boundary(LONGEST_TITLE));
    (!title.is_empty()).then_some(title)
}

/// Programs that only run another one: their options that take a word, and how many words stand
/// before the other program's.
const WRAPPERS: &[(&str, &[&str], usize)] = &[
    ("test", &[], 0),
    ("[", &[], 0),
    ("nice", &["-n"], 0),
    ("ionice", &["-c", "-n"], 0),
    ("exec", &["-a"], 0),
    ("sudo", &["-u", "-g"], 0),
    ("env", &["-u", "-C"], 0),
    ("timeout", &["-k", "-s"], 1),
    ("flock", &["-w", "-E"], 1),
    ("nohup", &[], 0),
    ("chronic", &[], 0),
];

/// The words of a simple command without what only wraps it.
fn unwrapped(command: &str) -> Vec<&str> {
    let mut words = command.split_whitespace().peekable();
    while let Some(word) = words.peek() {
        let name = word.rsplit('/').next();
        let Some((_, valued, operands)) = WRAPPERS.iter().find(|w| Some(w.0) == name) else {
            break;
        };
        words.next();
        while let Some(option) = words.next_if(|w| w.starts_with('-') || w.contains('=')) {
            if valued.contains(&option) {
                words.next();
            }
        }
        for _ in 0..*operands {
            words.next();
        }
    }
    words.collect()
}

/// The word of a command that tells most: the program, past what only wraps it.
fn program(command: &str) -> String {
    let separators = [';', '&', '|', '(', ')', '{', '}'];
    let mut parts = command
        .split(separators)
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let plain = |part: &&str| !["cd ", "test ", "[ "].iter().any(|w| part.starts_with(w));
    let part = parts
        .clone()
        .find(plain)
        .or(parts.next())
        .unwrap_or(command);
    let words = unwrapped(part).into_iter().filter(|word| {
        let option = word.starts_with(['-', '>', '<']) || word.contains('=');
        !option && !word.bytes().all(|b| b.is_ascii_digit())
    });
    let mut words = words.map(|word| {
        let name = word
            .trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap_or(word);
        let end = [".sh", ".py", ".pl", ".rb", ".php"]
            .iter()
            .find_map(|e| name.strip_suffix(e));
        end.unwrap_or(name).to_owned()
    });
    let first = words.next().unwrap_or_default();
    // A runner says little; what it runs says more.
    let runners = [
        "run-parts",
        "sh",
        "bash",
        "python",
        "python3",
        "perl",
        "php",
        "ruby",
        "java",
    ];
    match words.next() {
        Some(second) if runners.contains(&first.as_str()) => format!("{first}-{second}"),
        _ => first,
    }
}

#[cfg(test)]
#[path = "crontab_tests.rs"]
mod tests;
