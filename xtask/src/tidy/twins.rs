//! Pages that are there in English and in Chinese say the same: `X.md` and its twin `X.zh.md`.
//!
//! Compared is what needs no reader: the order of headings, paragraphs, list items, table rows and
//! code; code without its comments, so that a block which is tried in one language is tried in both;
//! words in backticks; figures; where links lead, headings included.
//!
//! # Not here
//! Whether the sentences mean the same. Links from any other page, and into it ([`super::docs`]).

use std::collections::BTreeSet;

use super::docs::resolve;
use super::tree::File;
use super::{Finding, Tree};

const RULE: &str = "twin";

/// Findings in one page: after a missing paragraph all that follows differs.
const SHOWN: usize = 5;

/// Pages besides the guides that must have a twin.
const PAGES: &[&str] = &["README.md", "docs/glossary.md", "docs/postgres.md"];

/// Each guide has a twin, each twin its page, and the two are in step.
pub fn in_step(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.has_extension("md")) {
        let own = english(&file.path);
        if own == file.path {
            let twin = chinese(&own);
            let must = own.starts_with("docs/guide/") || PAGES.contains(&own.as_str());
            if must && !tree.exists(&twin) {
                let say = format!("no twin; say the same in Chinese in {twin}");
                findings.push(Finding::new(RULE, &own, 0, say));
            }
        } else if let Some(page) = tree.file(&own) {
            findings.extend(differences(tree, page, file).into_iter().take(SHOWN));
        } else {
            let say = format!("there is no {own}; write it, or take this one out");
            findings.push(Finding::new(RULE, &file.path, 0, say));
        }
    }
    findings
}

fn english(path: &str) -> String {
    path.replace(".zh.md", ".md")
}

fn chinese(path: &str) -> String {
    english(path).replace(".md", ".zh.md")
}

/// What stands between two blank lines, or on a line of its own.
struct Block<'a> {
    kind: Kind<'a>,
    line: usize,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind<'a> {
    Heading(usize),
    Paragraph,
    Item,
    Row,
    /// With its language.
    Code(&'a str),
}

impl std::fmt::Display for Kind<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Kind::Heading(level) => write!(f, "a heading of level {level}"),
            Kind::Paragraph => f.write_str("a paragraph"),
            Kind::Item => f.write_str("a list item"),
            Kind::Row => f.write_str("a table row"),
            Kind::Code(language) => write!(f, "code ({language})"),
        }
    }
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut all: Vec<Block<'_>> = Vec::new();
    let mut fenced = false;
    // Whether the next line of text goes on with the last block.
    let mut open = false;
    for (index, line) in page.lines().enumerate() {
        let text = line.trim();
        let kind = if let Some(language) = line.strip_prefix("```") {
            fenced = !fenced;
            open = false;
            if !fenced {
                continue;
            }
            Kind::Code(language.trim())
        } else if fenced {
            if let Some(block) = all.last_mut() {
                block.text.push_str(line);
                block.text.push('\n');
            }
            continue;
        } else if text.is_empty() {
            open = false;
            continue;
        } else {
            kind_of(text)
        };
        match all.last_mut() {
            Some(block) if open && kind == Kind::Paragraph => {
                block.text.push(' ');
                block.text.push_str(text);
            }
            _ => {
                open = matches!(kind, Kind::Paragraph | Kind::Item);
                let text = match kind {
                    Kind::Code(_) => String::new(),
                    _ => text.to_owned(),
                };
                let line = index + 1;
                all.push(Block { kind, line, text });
            }
        }
    }
    all
}

fn kind_of(text: &str) -> Kind<'static> {
    let level = text.bytes().take_while(|byte| *byte == b'#').count();
    let numbered = text.trim_start_matches(|c: char| c.is_ascii_digit());
    if level > 0 && text[level..].starts_with(' ') {
        Kind::Heading(level)
    } else if text.starts_with('|') {
        Kind::Row
    } else if text.starts_with("- ") || (numbered.len() < text.len() && numbered.starts_with(". "))
    {
        Kind::Item
    } else {
        Kind::Paragraph
    }
}

fn differences(tree: &Tree, page: &File, twin: &File) -> Vec<Finding> {
    let (ours, theirs) = (blocks(&page.text), blocks(&twin.text));
    let mut findings = Vec::new();
    for (own, other) in ours.iter().zip(&theirs) {
        let place = format!("{}:{}", page.path, own.line);
        let said = match (own.kind, other.kind) {
            (a, b) if a != b => {
                let say = format!("{b} here, {a} at {place}; bring them in step");
                findings.push(Finding::new(RULE, &twin.path, other.line, say));
                return findings;
            }
            (Kind::Code(language), _) => other_code(&own.text, &other.text, language)
                .map(|(line, a, b)| {
                    let say =
                        format!("`{b}` here, `{a}` at {place}; code is the same but for comments");
                    (other.line + line, say)
                })
                .into_iter()
                .collect(),
            _ => other_text(tree, (page, &own.text), (twin, &other.text), &place)
                .into_iter()
                .map(|say| (other.line, say))
                .collect::<Vec<_>>(),
        };
        let said = said.into_iter();
        findings.extend(said.map(|(line, say)| Finding::new(RULE, &twin.path, line, say)));
    }
    if ours.len() != theirs.len() {
        let (a, b) = (theirs.len(), ours.len());
        let say = format!("{a} blocks here, {b} in {}; bring them in step", page.path);
        findings.push(Finding::new(RULE, &twin.path, 0, say));
    }
    findings
}

/// In what two texts differ that stand for each other: links, words in backticks, figures.
fn other_text(tree: &Tree, own: (&File, &str), other: (&File, &str), place: &str) -> Vec<String> {
    let (ours, dead) = links(tree, own.0, own.1);
    let (theirs, more) = links(tree, other.0, other.1);
    let mut said = dead;
    said.extend(more);
    let pairs = [
        ("links", ours, theirs),
        ("words in backticks", quoted(own.1), quoted(other.1)),
    ];
    for (what, ours, theirs) in pairs {
        let here: Vec<_> = theirs.difference(&ours).collect();
        let there: Vec<_> = ours.difference(&theirs).collect();
        if !here.is_empty() || !there.is_empty() {
            said.push(format!(
                "{what}: {here:?} here alone, {there:?} at {place} alone"
            ));
        }
    }
    // Chinese has figures where English has words; the other way round something is lost.
    let (ours, theirs) = (figures(own.1), figures(other.1));
    let lost: Vec<_> = ours.difference(&theirs).collect();
    if !lost.is_empty() {
        said.push(format!("the figures {lost:?} of {place} are not here"));
    }
    said
}

/// The first line in which two blocks of code differ, comments apart.
fn other_code(own: &str, other: &str, language: &str) -> Option<(usize, String, String)> {
    let (mut ours, mut theirs) = (own.lines(), other.lines());
    let mut at = 0;
    loop {
        at += 1;
        let (a, b) = (ours.next(), theirs.next());
        if a.is_none() && b.is_none() {
            return None;
        }
        if a.map(|line| bare(line, language)) != b.map(|line| bare(line, language)) {
            let said = |line: Option<&str>| line.unwrap_or("(its end)").trim().to_owned();
            return Some((at, said(a), said(b)));
        }
    }
}

/// A line of code without its comment: a mark between blanks, outside of quotes.
fn bare<'a>(line: &'a str, language: &str) -> &'a str {
    let mark = match language {
        "sh" | "console" | "yaml" | "ini" | "toml" | "python" => "#",
        "rust" => "//",
        "sql" => "--",
        _ => return line.trim_end(),
    };
    for (at, _) in line.match_indices(mark) {
        let (before, after) = (&line[..at], &line[at + mark.len()..]);
        let alone = before.chars().next_back().is_none_or(char::is_whitespace)
            && after.chars().next().is_none_or(char::is_whitespace);
        let even = |quote: char| before.matches(quote).count().is_multiple_of(2);
        if alone && even('\'') && even('"') {
            return before.trim_end();
        }
    }
    line.trim_end()
}

/// Where the links of `text` lead, in words that both languages share, and what is wrong with them.
fn links(tree: &Tree, from: &File, text: &str) -> (BTreeSet<String>, Vec<String>) {
    let mut targets = BTreeSet::new();
    let mut wrong = Vec::new();
    for target in text.split("](").skip(1) {
        let target = target.split([')', ' ']).next().unwrap_or("");
        if target.contains("://") {
            targets.insert(target.to_owned());
            continue;
        }
        let (path, heading) = target.split_once('#').unwrap_or((target, ""));
        let path = match path {
            "" => from.path.clone(),
            path => resolve(&from.path, path),
        };
        // The two link to each other at the top; every other link stays in its language.
        if english(&path) == english(&from.path) && path != from.path {
            continue;
        }
        let is_chinese = |path: &str| path != english(path);
        let twin = if is_chinese(&from.path) {
            chinese(&path)
        } else {
            english(&path)
        };
        if path != twin && tree.exists(&twin) {
            wrong.push(format!("link `{target}` leaves the language; link {twin}"));
        }
        let mut place = english(&path);
        if !heading.is_empty() {
            let number = tree
                .file(&path)
                .and_then(|page| slugs(&page.text).position(|slug| slug == heading));
            match number {
                Some(number) => place = format!("{place}, heading {number}"),
                None => wrong.push(format!("link `{target}`: {path} has no such heading")),
            }
        }
        targets.insert(place);
    }
    (targets, wrong)
}

/// The anchors of a page's headings, as the forge makes them.
fn slugs(page: &str) -> impl Iterator<Item = String> {
    let headings = blocks(page)
        .into_iter()
        .filter(|block| matches!(block.kind, Kind::Heading(_)));
    headings.map(|block| {
        let text = block.text.trim_start_matches('#').trim().to_lowercase();
        let kept = text
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

/// What stands in backticks.
fn quoted(text: &str) -> BTreeSet<String> {
    let words = text.split('`').skip(1).step_by(2);
    words.map(str::to_owned).collect()
}

/// The numbers of a text outside of backticks and link targets.
fn figures(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for plain in text.split('`').step_by(2) {
        for (index, part) in plain.split("](").enumerate() {
            let part = match part.split_once(')') {
                Some((_, rest)) if index > 0 => rest,
                _ => part,
            };
            let chars: Vec<char> = part.chars().collect();
            let mut figure = String::new();
            for (at, c) in chars.iter().enumerate() {
                let inner = !figure.is_empty()
                    && ",.:".contains(*c)
                    && chars.get(at + 1).is_some_and(char::is_ascii_digit);
                if c.is_ascii_digit() || inner {
                    figure.push(*c);
                } else if !figure.is_empty() {
                    found.insert(std::mem::take(&mut figure));
                }
            }
            if !figure.is_empty() {
                found.insert(figure);
            }
        }
    }
    found
}
