//! Documents that have gone stale: paths, commands and error codes that are not there.

use std::collections::BTreeMap;

use super::source::{has_word, is_step};
use super::tree::File;
use super::{Finding, Tree};

/// Folders whose names, in backticks, are meant as paths of this repository.
const TOP: &[&str] = &[
    "crates/",
    "docs/",
    "xtask/",
    "testdata/",
    "examples/",
    ".ci/",
    "deploy/",
    "console/",
    "benches/",
    ".config/",
    "sdk/",
];

/// Relative links and paths in backticks lead to something.
pub fn paths_exist(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.has_extension("md")) {
        for (number, line, fenced) in lines(&file.text) {
            for target in links(line).into_iter().filter(|_| !fenced) {
                let path = resolve(&file.path, target);
                if !path.is_empty() && !tree.exists(&path) {
                    let say = format!("dead link `{target}`: no {path}; mend it or take it out");
                    findings.push(Finding::new("dead-path", &file.path, number, say));
                }
            }
            for (path, item) in quoted_paths(line).into_iter().filter(|_| !fenced) {
                let say = if !tree.exists(path) {
                    format!("`{path}` does not exist; name what is there")
                } else if item.is_some_and(|item| !declares(tree, path, item)) {
                    format!(
                        "`{path}` has no `{}`; name what is there",
                        item.unwrap_or("")
                    )
                } else {
                    continue;
                };
                findings.push(Finding::new("dead-path", &file.path, number, say));
            }
        }
    }
    findings
}

/// Each line with its number and whether it stands in a fenced block.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut fenced = false;
    text.lines().enumerate().map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (index + 1, line, fenced || fence)
    })
}

fn links(line: &str) -> Vec<&str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .map(|target| target.split(['#', ' ']).next().unwrap_or(""))
        .filter(|target| !target.is_empty() && !target.contains(':'))
        .collect()
}

/// A link target as a path from the root.
pub fn resolve(from: &str, target: &str) -> String {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = if target.starts_with('/') {
        Vec::new()
    } else {
        folder.split('/').filter(|part| !part.is_empty()).collect()
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Backticked words that look like paths here, and what follows `::` in `path::item`.
fn quoted_paths(line: &str) -> Vec<(&str, Option<&str>)> {
    line.split('`')
        .skip(1)
        .step_by(2)
        .map(|token| match token.split_once("::") {
            Some((path, item)) => (path, Some(item)),
            None => (token, None),
        })
        .filter(|(path, _)| TOP.iter().any(|top| path.starts_with(top)))
        .filter(|(path, _)| !path.contains(|c: char| " *<>{}…$?|".contains(c)))
        .collect()
}

/// Whether the file declares a function, constant or type of this name, or a step of these words.
fn declares(tree: &Tree, path: &str, item: &str) -> bool {
    let kinds = [
        "fn", "const", "static", "struct", "enum", "trait", "mod", "type",
    ];
    tree.file(path).is_some_and(|file| {
        let declared = file.text.lines().any(|line| {
            kinds
                .iter()
                .any(|kind| has_word(line, &format!("{kind} {item}")))
        });
        declared || is_step(path, &file.text, item)
    })
}

/// The commands that the READMEs and the guides show can be typed.
pub fn commands_exist(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let shown = |file: &&File| {
        file.has_extension("md")
            && (!file.path.contains('/') || file.path.starts_with("docs/guide/"))
    };
    for file in tree.files.iter().filter(shown) {
        for (number, line, fenced) in lines(&file.text) {
            let mut texts: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
            if fenced {
                texts = vec![line];
            }
            for text in texts {
                if let Some(say) = missing_command(tree, text.trim().trim_start_matches("$ ")) {
                    findings.push(Finding::new("dead-command", &file.path, number, say));
                }
            }
        }
    }
    findings
}

/// What is wrong with a command line, if it is one of ours and its subcommand is unknown.
fn missing_command(tree: &Tree, text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let name = |word: &&str| {
        let plain = |c: char| c.is_ascii_lowercase() || c == '-';
        word.starts_with(|c: char| c.is_ascii_lowercase()) && word.chars().all(plain)
    };
    match words.as_slice() {
        ["cargo", "xtask", sub, ..] if name(sub) => (!tree.xtask_commands.contains(&(*sub).into()))
            .then(|| {
                format!(
                    "no `cargo xtask {sub}`; there are {:?}",
                    tree.xtask_commands
                )
            }),
        ["cargo", "run", rest @ ..] => {
            let sub = rest
                .iter()
                .skip_while(|word| **word != "--")
                .nth(1)
                .filter(|s| name(s))?;
            (!cli_has(tree, sub)).then(|| format!("the binary has no subcommand `{sub}`"))
        }
        ["sichen", sub, ..] if name(sub) => {
            (!cli_has(tree, sub)).then(|| format!("the binary has no subcommand `{sub}`"))
        }
        [script, ..] if script.starts_with("./") || script.starts_with(".ci/") => {
            let path = script.trim_start_matches("./");
            let ours = TOP.iter().any(|top| path.starts_with(top));
            (ours && !tree.exists(path)).then(|| format!("no script `{path}`"))
        }
        _ => None,
    }
}

/// Whether the binary's sources hold a clap variant or a name for this subcommand.
fn cli_has(tree: &Tree, sub: &str) -> bool {
    let variant: String = sub
        .split('-')
        .map(|part| part[..1].to_uppercase() + &part[1..])
        .collect();
    tree.files
        .iter()
        .filter(|file| file.path.starts_with("crates/sichen/src/"))
        .any(|file| {
            file.text.lines().any(|line| {
                let line = line.trim_start();
                let after = line.strip_prefix(variant.as_str());
                after.is_some_and(|rest| rest.starts_with([',', '(', ' ', '{']))
                    || line.contains(&format!("name = \"{sub}\""))
                    || line.contains(&format!("alias = \"{sub}\""))
            })
        })
}

const ERRORS: &str = "docs/errors.md";

/// Each `SCnnnn` that code can show has a section, and each section a code that is used.
pub fn error_codes(tree: &Tree) -> Vec<Finding> {
    let mut used: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for (file, views) in tree.rust_files() {
        if !file.path.starts_with("crates/") || file.is_test() {
            continue;
        }
        for (view, text) in [(0, &views.strings), (1, &views.product)] {
            for (index, line) in text.lines().enumerate() {
                for code in codes(line)
                    .into_iter()
                    .filter(|_| view == 0 || !line.contains("//"))
                {
                    used.entry(code)
                        .or_insert_with(|| (file.path.clone(), index + 1));
                }
            }
        }
    }
    let page = tree.file(ERRORS).map_or("", |file| file.text.as_str());
    let mut findings = Vec::new();
    let mut explained = BTreeMap::new();
    for (number, line, _) in lines(page).filter(|(_, line, _)| line.starts_with("## ")) {
        for code in codes(line) {
            if explained.insert(code.clone(), number).is_some() {
                let say = format!("{code} has two sections; keep one");
                findings.push(Finding::new("error-code", ERRORS, number, say));
            }
        }
    }
    for (code, (path, line)) in &used {
        if !explained.contains_key(code) {
            let say = format!("{code} has no page; add `## {code} …` to {ERRORS}");
            findings.push(Finding::new("error-code", path, *line, say));
        }
    }
    for (code, line) in explained
        .iter()
        .filter(|(code, _)| !used.contains_key(*code))
    {
        let say = format!("{code} is used nowhere; take its section out");
        findings.push(Finding::new("error-code", ERRORS, *line, say));
    }
    findings
}

/// Every `SC` with exactly four digits.
fn codes(line: &str) -> Vec<String> {
    line.match_indices("SC")
        .filter(|(at, _)| {
            let before = line[..*at].chars().next_back();
            let digits = line[at + 2..]
                .bytes()
                .take_while(u8::is_ascii_digit)
                .count();
            digits == 4 && !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
        })
        .map(|(at, _)| line[at..at + 6].to_owned())
        .collect()
}
