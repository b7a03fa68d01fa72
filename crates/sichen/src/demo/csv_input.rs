//! Reading the user's own ledger: `id,account,amount_minor,occurred_at`.
//!
//! # Invariants
//! - A row is loaded exactly as written or reported with its line number and the reason.
//! - Memory is bounded: a line longer than [`MAX_LINE_BYTES`] is a bad row, however long it is.
//!
//! # Not here
//! Fields with line breaks inside: no column of a ledger has one, and an open quote would
//! swallow the rest of the file.

use std::collections::HashMap;
use std::io::{BufRead, Read};

use anyhow::{Context, bail};
use jiff::Timestamp;

use super::database::Database;
use super::ledger::{self, Entry, MAX_ENTRIES};

/// The header line.
pub const HEADER: [&str; 4] = ["id", "account", "amount_minor", "occurred_at"];
/// Longest line, in bytes.
pub const MAX_LINE_BYTES: usize = 64 * 1024;
/// Longest account name, in bytes.
pub const MAX_ACCOUNT_BYTES: usize = 256;
/// Bad rows kept as examples when they are skipped.
const EXAMPLES: usize = 10;
const LOAD_BATCH: u64 = 20_000;

/// What to do with a row that can't be loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OnBadRow {
    /// Stop and load nothing.
    #[default]
    Stop,
    /// Leave it out, go on, and report the count.
    Skip,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Loaded {
    pub entries: u64,
    pub skipped: u64,
    /// The first bad rows, `line N: reason`.
    pub examples: Vec<String>,
}

/// Loads a CSV stream into the ledger, telling `progress` how many entries are in.
///
/// # Errors
/// The first bad row under [`OnBadRow::Stop`], a missing or wrong header, a read error, and an
/// input without any entry. The caller throws the half-filled ledger away.
pub fn load(
    database: &Database,
    input: impl Read,
    on_bad_row: OnBadRow,
    progress: &mut dyn FnMut(u64),
) -> anyhow::Result<Loaded> {
    let mut lines = Lines {
        input: std::io::BufReader::new(input),
        number: 0,
        line: Vec::new(),
    };
    read_header(&mut lines)?;
    let mut loaded = Loaded::default();
    let mut sums: HashMap<String, i64> = HashMap::new();
    let mut more = true;
    while more {
        more = database.in_transaction(|| {
            let start = loaded.entries;
            while loaded.entries - start < LOAD_BATCH {
                let row = match lines.next()? {
                    Next::End => return Ok(false),
                    Next::Line([]) => continue,
                    Next::Line(line) => parse(line),
                    Next::TooLong => Err(format!("longer than {MAX_LINE_BYTES} bytes")),
                };
                let outcome = match row {
                    Ok(entry) => add(database, &mut sums, &entry)?,
                    Err(reason) => Err(reason),
                };
                count(outcome, on_bad_row, lines.number, &mut loaded)?;
            }
            anyhow::Ok(true)
        })?;
        progress(loaded.entries);
    }
    if loaded.entries == 0 {
        bail!(
            "the input has no entries ({} bad rows skipped)",
            loaded.skipped
        );
    }
    Ok(loaded)
}

/// Counts what became of the row on line `number`.
fn count(
    outcome: Result<(), String>,
    on_bad_row: OnBadRow,
    number: u64,
    loaded: &mut Loaded,
) -> anyhow::Result<()> {
    match outcome {
        Ok(()) => loaded.entries += 1,
        Err(reason) if on_bad_row == OnBadRow::Stop => {
            bail!(
                "line {number}: {reason}\n(nothing was loaded; --on-bad-row skip leaves such \
                 rows out and counts them)"
            );
        }
        Err(reason) => {
            loaded.skipped += 1;
            if loaded.examples.len() < EXAMPLES {
                loaded.examples.push(format!("line {number}: {reason}"));
            }
        }
    }
    if loaded.entries > MAX_ENTRIES {
        bail!("line {number}: more than {MAX_ENTRIES} entries");
    }
    Ok(())
}

/// Adds a parsed entry; the inner error is the row's fault.
fn add(
    database: &Database,
    sums: &mut HashMap<String, i64>,
    entry: &Entry,
) -> anyhow::Result<Result<(), String>> {
    // Totals are 64-bit too; better refused here, with a line number, than in the middle of a run.
    let sum = sums.get(&entry.account).copied().unwrap_or(0);
    let Some(sum) = sum.checked_add(entry.amount_minor) else {
        let reason = format!("the total of account {:?} would overflow", entry.account);
        return Ok(Err(reason));
    };
    if !ledger::insert(database, entry)? {
        return Ok(Err(format!("id {} appears twice", entry.id)));
    }
    match sums.get_mut(&entry.account) {
        Some(known) => *known = sum,
        None => {
            sums.insert(entry.account.clone(), sum);
        }
    }
    Ok(Ok(()))
}

fn read_header(lines: &mut Lines<impl BufRead>) -> anyhow::Result<()> {
    let expected = HEADER.join(",");
    let line = match lines.next()? {
        Next::End => bail!("the input is empty; its first line must be {expected}"),
        Next::TooLong => bail!("line 1: longer than {MAX_LINE_BYTES} bytes; expected {expected}"),
        Next::Line(line) => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
    };
    let fields = cut(line).unwrap_or_default();
    if fields.iter().map(String::as_str).ne(HEADER) {
        let shown = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
        bail!("line 1: the header must be {expected}, found {shown:?}");
    }
    Ok(())
}

fn parse(line: &[u8]) -> Result<Entry, String> {
    let fields = cut(line)?;
    let count = fields.len();
    let [id, account, amount, occurred_at] = <[String; 4]>::try_from(fields)
        .map_err(|_| format!("{count} columns; expected 4 ({})", HEADER.join(",")))?;
    let integer = |column: &str, text: &str| {
        text.parse::<i64>().map_err(|error| match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => {
                format!("{column} {text:?} does not fit 64 bits")
            }
            _ => format!("{column} {text:?} is not an integer"),
        })
    };
    let id = integer("id", &id)?;
    if !(1..i64::MAX).contains(&id) {
        return Err(format!("id {id}: from 1 to {} are possible", i64::MAX - 1));
    }
    if account.is_empty() || account.len() > MAX_ACCOUNT_BYTES {
        return Err(format!(
            "account of {} bytes; 1 to {MAX_ACCOUNT_BYTES}",
            account.len()
        ));
    }
    if account.trim() != account || account.chars().any(char::is_control) {
        return Err(format!(
            "account {account:?} has blanks around it or control characters"
        ));
    }
    let amount_minor = integer("amount_minor", &amount)?;
    let occurred_at = occurred_at.parse::<Timestamp>().map_err(|_| {
        format!("occurred_at {occurred_at:?} is no instant like 2026-08-29T09:30:00+08:00")
    })?;
    Ok(Entry {
        id,
        account,
        amount_minor,
        occurred_at,
    })
}

/// Cuts one line at its commas, minding quotes.
fn cut(line: &[u8]) -> Result<Vec<String>, String> {
    if !line
        .iter()
        .filter(|byte| **byte == b'"')
        .count()
        .is_multiple_of(2)
    {
        return Err("a quote is not closed on this line".to_owned());
    }
    if line.is_empty() {
        return Ok(Vec::new());
    }
    let mut reader = csv_core::Reader::new();
    // Unescaping never makes text longer; the extra bytes keep "full" from meaning "just enough".
    let mut output = vec![0; line.len() + 8];
    let mut ends = vec![0; 16.min(line.len()) + 1];
    let (mut read, mut written, mut fields) = (0, 0, 0);
    // The second, empty input tells the reader that the line is over.
    while fields < ends.len() {
        let (result, taken, wrote, ended) =
            reader.read_record(&line[read..], &mut output[written..], &mut ends[fields..]);
        read += taken;
        written += wrote;
        fields += ended;
        match result {
            csv_core::ReadRecordResult::InputEmpty => {}
            csv_core::ReadRecordResult::OutputFull => return Err("can't be read".to_owned()),
            csv_core::ReadRecordResult::OutputEndsFull => break,
            csv_core::ReadRecordResult::Record if read < line.len() => {
                return Err("a carriage return in the middle of the line".to_owned());
            }
            csv_core::ReadRecordResult::Record | csv_core::ReadRecordResult::End => break,
        }
    }
    let mut start = 0;
    ends[..fields]
        .iter()
        .map(|end| {
            let field = output[start..*end].to_vec();
            start = *end;
            String::from_utf8(field).map_err(|_| "not valid UTF-8".to_owned())
        })
        .collect()
}

/// Lines of bounded length, without their `\n` or `\r\n`, counted from 1.
struct Lines<R> {
    input: R,
    number: u64,
    line: Vec<u8>,
}

enum Next<'a> {
    Line(&'a [u8]),
    TooLong,
    End,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> anyhow::Result<Next<'_>> {
        self.line.clear();
        self.number += 1;
        let limit = MAX_LINE_BYTES as u64 + 2;
        let context = || "can't read the input";
        let read = self
            .input
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut self.line)
            .with_context(context)?;
        if read == 0 {
            return Ok(Next::End);
        }
        let ended = self.line.ends_with(b"\n");
        if !ended && read as u64 == limit {
            self.input.skip_until(b'\n').with_context(context)?;
            return Ok(Next::TooLong);
        }
        let mut line = self.line.as_slice();
        line = line.strip_suffix(b"\n").unwrap_or(line);
        line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() > MAX_LINE_BYTES {
            Ok(Next::TooLong)
        } else {
            Ok(Next::Line(line))
        }
    }
}
