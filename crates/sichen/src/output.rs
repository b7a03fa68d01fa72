//! How answers are written: tables for people, JSON and YAML for programs.
//!
//! # Invariants
//! - Answers go to the standard output, everything else to the error output.
//! - JSON and YAML have the fields of the REST API's answers, in their order.
//! - A reader that has seen enough (`| head`) is no failure.
//!
//! # Not here
//! What is shown ([`crate::command`]).

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write};

use clap::ValueEnum;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use jiff::fmt::temporal::Pieces;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use sichen_core::port::MAX_COUNTED_RUNS;
use textwrap::core::Word;
use textwrap::{WordSeparator, WordSplitter};

use crate::failure::{Exit, Failure};

/// The form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    #[default]
    Table,
    /// One JSON value.
    Json,
    /// The same as YAML.
    Yaml,
}

/// The form, as an option of a command.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Output {
    /// The form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Form,
}

impl Output {
    /// Writes `value` for programs, or what `table` makes of it for people.
    pub fn show<T: Serialize>(
        self,
        value: &T,
        table: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        let text = match self.output {
            Form::Table => table(value),
            Form::Json => {
                let text = serde_json::to_string_pretty(value);
                text.map_err(|e| Failure::new(Exit::Failed, e.to_string()))? + "\n"
            }
            Form::Yaml => serde_saphyr::to_string(value)
                .map_err(|e| Failure::new(Exit::Failed, e.to_string()))?,
        };
        print(&text)
    }

    /// Says for people that a list is empty, and what fills it.
    pub fn remark_empty<T>(self, items: &[T], text: &str) {
        if self.is_table() && items.is_empty() {
            remark(text);
        }
    }

    /// Whether people read it.
    pub fn is_table(self) -> bool {
        self.output == Form::Table
    }
}

/// Writes to the standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Whether the reader of the standard output is gone: writes and says so.
pub fn print_or_gone(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// A last column that would be narrower than this is not broken into lines.
const MIN_LAST_COLUMN: u16 = 24;

/// A table without lines, as other command lines have it. On a terminal the last column is broken
/// into lines so that the table fits; elsewhere one row is one line, for `grep` and its like.
pub fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    table_within(screen_width(), head, rows)
}

/// The columns of the terminal that answers go to; `None` if they go elsewhere.
pub fn screen_width() -> Option<u16> {
    let screen = Table::new();
    screen.is_tty().then(|| screen.width()).flatten()
}

/// [`prose`] for the error output.
pub fn prose_beside(text: &str) -> String {
    let mut screen = Table::new();
    screen.use_stderr();
    prose_within(screen.is_tty().then(|| screen.width()).flatten(), text)
}

/// What is narrower than this is not broken into lines.
const MIN_PROSE: u16 = 40;

/// Sentences, line by line: on a terminal those that are too long are broken between words, and go
/// on below their own beginning; elsewhere a line stays a line.
pub fn prose(text: &str) -> String {
    prose_within(screen_width(), text)
}

fn prose_within(width: Option<u16>, text: &str) -> String {
    let lines = text.lines().map(|line| {
        let blanks = line.len() - line.trim_start_matches(' ').len();
        let hang = u16::try_from(blanks).unwrap_or(u16::MAX).saturating_add(2);
        match width.map(|width| width.saturating_sub(hang)) {
            Some(room) if room >= MIN_PROSE => {
                let folded = folded(line.trim_start_matches(' '), room);
                let indent = format!("\n{}", " ".repeat(blanks + 2));
                format!("{}{}\n", " ".repeat(blanks), folded.join(&indent))
            }
            Some(_) | None => format!("{line}\n"),
        }
    });
    lines.collect()
}

/// A line in pieces of at most `room` columns, broken between words where that is possible.
fn folded(line: &str, room: u16) -> Vec<String> {
    let options = textwrap::Options::new(usize::from(room))
        .word_separator(WordSeparator::Custom(words))
        .word_splitter(WordSplitter::NoHyphenation);
    let pieces = textwrap::wrap(line, options).into_iter();
    pieces.map(Cow::into_owned).collect()
}

/// What of a line stays together: what stands between blanks, and in Chinese each character with the
/// marks behind it.
fn words(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    let mut left = line;
    Box::new(std::iter::from_fn(move || {
        if left.is_empty() {
            return None;
        }
        let mut before = None;
        let ends = left.char_indices().find(|(_, c)| {
            let breaks = before.is_some_and(|b| may_break(b, *c));
            before = Some(*c);
            breaks
        });
        let (word, rest) = left.split_at(ends.map_or(left.len(), |(at, _)| at));
        left = rest;
        Some(Word::from(word))
    }))
}

/// Whether a line may end between these two characters.
fn may_break(before: char, after: char) -> bool {
    // No line begins with these, none ends with those.
    let (closes, opens) = ("，。、；：？！）】》”’…%", "（【《“‘");
    let wide =
        |c: char| ('\u{2e80}'..='\u{9fff}').contains(&c) || ('\u{ff00}'..='\u{ffef}').contains(&c);
    let after_blank = before == ' ' && after != ' ';
    let between = after != ' ' && (wide(before) || wide(after));
    after_blank || between && before != ' ' && !closes.contains(after) && !opens.contains(before)
}

fn table_within<const N: usize>(
    width: Option<u16>,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(head);
    for row in rows {
        table.add_row(row.map(|cell| visible(&cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    if let Some(width) = width {
        let widths = table.column_max_content_widths();
        let (last, others) = widths.split_last().unwrap_or((&0, &[]));
        let others: u16 = others.iter().map(|w| w.saturating_add(2)).sum();
        let left = width.saturating_sub(others);
        if *last > left && left >= MIN_LAST_COLUMN {
            table
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(width);
            for column in table.column_iter_mut() {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
            if let Some(column) = table.column_mut(N - 1) {
                column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(left)));
            }
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// One `name: value` a line, aligned; empty values are left out, further lines of a value are
/// indented.
pub fn facts(facts: &[(&str, String)]) -> String {
    facts_within(screen_width(), facts)
}

fn facts_within(screen: Option<u16>, facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|f| f.0.len()).max().unwrap_or(0) + 1;
    let before = u16::try_from(width + 2).unwrap_or(u16::MAX);
    let room = screen.map(|screen| screen.saturating_sub(before));
    let mut text = String::new();
    for (name, value) in facts.iter().filter(|f| !f.1.is_empty()) {
        let name = format!("{name}:");
        let lines = value.lines().flat_map(|line| match room {
            Some(room) if room >= MIN_PROSE => folded(&visible(line), room),
            Some(_) | None => vec![visible(line)],
        });
        for (i, line) in lines.enumerate() {
            let name = if i == 0 { name.as_str() } else { "" };
            text.push_str(&format!("{name:<width$}  {line}\n"));
        }
    }
    text
}

/// The text without control characters, which could move a terminal's cursor or colour it.
pub fn visible(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

/// The first line of a text, cut to `longest` characters.
pub fn short(text: &str, longest: usize) -> String {
    let line = text.lines().next().unwrap_or_default().trim_end();
    let whole = line.len() == text.trim_end().len();
    cut(line, longest, whole)
}

fn cut(line: &str, longest: usize, whole: bool) -> String {
    if whole && line.chars().count() <= longest {
        return line.to_owned();
    }
    let kept: String = line.chars().take(longest.saturating_sub(1)).collect();
    kept.trim_end().to_owned() + "…"
}

/// What a failure comes to, in one line of at most `longest` characters: its first line; where that
/// only announces what follows it (`stderr ends with:`), the last line too, which mostly says why.
pub fn gist(text: &str, longest: usize) -> String {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default().trim_end();
    let last = lines.next_back().filter(|_| first.ends_with(':'));
    match (last, lines.next()) {
        (Some(last), None) => cut(&format!("{first} {}", last.trim()), longest, true),
        (Some(last), Some(_)) => cut(&format!("{first} … {}", last.trim()), longest, true),
        (None, _) => short(text, longest),
    }
}

/// A text of several lines below a heading, without what could move a terminal's cursor.
pub fn block(text: &str) -> String {
    let lines = text.trim_end().lines();
    lines
        .map(|line| format!("    {}\n", visible(line)))
        .collect()
}

/// `1 shard`, `2 shards`.
pub fn count(n: u64, one: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {one}{s}", grouped(n))
}

/// The number of a job's open runs, which is not counted on where nothing asks for it.
pub fn open_runs(n: u32) -> String {
    let more = if n == MAX_COUNTED_RUNS { "+" } else { "" };
    format!("{n}{more}")
}

/// An RFC 3339 instant for people: to the second, or to the millisecond, `Z` for UTC.
pub fn instant(text: &str, digits: usize) -> String {
    let Some((before, after)) = text.split_once('.') else {
        return text.replace("+00:00", "Z");
    };
    let end = after.find(|c: char| !c.is_ascii_digit());
    let (fraction, offset) = after.split_at(end.unwrap_or(after.len()));
    let offset = offset.replace("+00:00", "Z");
    match digits {
        0 => format!("{before}{offset}"),
        _ => format!("{before}.{fraction:0<digits$.digits$}{offset}"),
    }
}

/// [`instant`] at the offset that `like` has, so that instants of one thing are told by one clock;
/// as it is where one of them can't be read.
pub fn instant_like(text: &str, digits: usize, like: Option<&str>) -> String {
    let offset = like.and_then(|like| Pieces::parse(like).ok()?.to_numeric_offset());
    let at = text.parse::<Timestamp>();
    match (at, offset) {
        (Ok(at), Some(offset)) if offset.seconds() != 0 => {
            instant(&format!("{:.6}", at.display_with_offset(offset)), digits)
        }
        _ => instant(text, digits),
    }
}

/// `-` for nothing.
pub fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| v.to_string())
}

/// How long ago an RFC 3339 instant is, in one or two units; as it is if it can't be read.
pub fn age(instant: &str, now: Timestamp) -> String {
    match instant.parse::<Timestamp>() {
        Ok(then) => span(now.duration_since(then)),
        Err(_) => instant.to_owned(),
    }
}

/// From one RFC 3339 instant to another.
pub fn between(from: Option<&str>, to: Option<&str>, now: Timestamp) -> String {
    let read = |text: &str| text.parse::<Timestamp>().ok();
    let Some(from) = from.and_then(read) else {
        return "-".to_owned();
    };
    let to = to.and_then(read).unwrap_or(now);
    span(to.duration_since(from))
}

/// A length in one or two units.
pub fn span(length: SignedDuration) -> String {
    let length = length.max(SignedDuration::ZERO);
    let (s, ms) = (length.as_secs(), length.subsec_millis());
    match s {
        0 => format!("{ms}ms"),
        1..60 if ms >= 100 && s < 10 => format!("{s}.{}s", ms / 100),
        1..60 => format!("{s}s"),
        60..3_600 => format!("{}m{:02}s", s / 60, s % 60),
        3_600..86_400 => format!("{}h{:02}m", s / 3_600, s % 3_600 / 60),
        _ => format!("{}d{:02}h", s / 86_400, s % 86_400 / 3_600),
    }
}

/// 1234567 as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Says something beside the answer, on the error output.
pub fn remark(text: &str) {
    let lines = text.lines().map(visible).collect::<Vec<_>>();
    beside(&prose_beside(&lines.join("\n")));
}

/// Writes to the error output. If nobody reads it any more, the answer and the exit code still count.
pub fn beside(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Asks `question` on a terminal; only `y` or `yes` is yes. An error if nobody is there to say
/// `whether`.
pub fn confirmed(question: &str, whether: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::usage(format!(
            "SC7011: nobody can be asked {whether}; give --yes"
        )));
    }
    beside(question);
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    let answer = answer.trim().to_ascii_lowercase();
    Ok(answer == "y" || answer == "yes")
}

/// Says on the error output that there is more than was shown.
pub fn remark_more(next: Option<&str>) {
    if let Some(next) = next {
        remark(&format!(
            "there is more: --after {next}, or a greater --limit"
        ));
    }
}

#[cfg(test)]
mod tests;
