//! Words that may not stand in certain places, as one table per kind of place.

use super::source::has_word;
use super::tree::File;
use super::{Finding, Tree};

/// What may not be written where, and what to write instead.
struct Forbidden {
    rule: &'static str,
    words: &'static [&'static str],
    /// Whether the rule speaks about this file.
    place: fn(&File) -> bool,
    /// Whether the rule speaks about test code too.
    tests: bool,
    instead: &'static str,
}

const CODE: &[Forbidden] = &[
    Forbidden {
        rule: "core-is-pure",
        words: &[
            "tokio",
            "tracing",
            "log::",
            "rusqlite",
            "tokio_postgres",
            "tonic",
            "prost",
            "axum",
            "reqwest",
            "rand",
            "futures",
            "std::fs",
            "std::net",
            "std::process",
            "std::thread",
        ],
        place: |file| file.path.starts_with("crates/sichen-core/src/"),
        tests: false,
        instead: "core decides and does nothing else; return a decision and let the engine, a \
                  store or the server act on it",
    },
    Forbidden {
        rule: "core-has-no-clock",
        words: &[
            "SystemTime",
            "Instant::now",
            "Timestamp::now",
            "ZonedDateTime::now",
            "TimeZone::system",
            "Uuid::new_v4",
            "Uuid::now_v7",
        ],
        place: |file| file.path.starts_with("crates/sichen-core/src/"),
        tests: false,
        instead: "take `now: Timestamp` (or the id) as an argument",
    },
    Forbidden {
        rule: "sql-driver",
        words: &["rusqlite", "tokio_postgres"],
        place: |file| !may_hold_sql_driver(&file.path),
        tests: false,
        instead: "ask through the store port; drivers live in sichen-store, the fence kit, data \
                  sources, the worker's journal, the demo and the drills",
    },
    Forbidden {
        rule: "tonic",
        words: &["tonic"],
        place: |file| {
            !["sichen-server", "sichen-sdk", "sichen-proto", "xtask"].contains(&file.krate())
        },
        tests: false,
        instead: "gRPC is an edge of sichen-server and sichen-sdk; call their API",
    },
    Forbidden {
        rule: "unbounded",
        words: &[
            "unbounded_channel",
            "UnboundedSender",
            "UnboundedReceiver",
            "mpsc::unbounded",
            "std::sync::mpsc::channel",
            "mpsc::channel()",
        ],
        place: |_| true,
        tests: true,
        instead: "give the channel a limit: tokio::sync::mpsc::channel(n), sync_channel(n)",
    },
    Forbidden {
        rule: "bare-spawn",
        words: &["tokio::spawn", "task::spawn("],
        place: |file| !SPAWN_MODULES.contains(&file.path.as_str()),
        tests: false,
        instead: "spawn on a JoinSet or TaskTracker that a stop waits for",
    },
    Forbidden {
        rule: "print",
        words: &["println!", "eprintln!", "print!", "eprint!"],
        place: |file| {
            file.path.starts_with("crates/")
                && file.path.contains("/src/")
                && !["sichen", "sichen-bench"].contains(&file.krate())
                && !file.path.ends_with("/src/main.rs")
                && !file.path.contains("/src/bin/")
        },
        tests: false,
        instead: "a library returns values or emits a tracing event; only the binary prints",
    },
    Forbidden {
        rule: "leftover",
        words: &["dbg!", "todo!", "unimplemented!"],
        place: |_| true,
        tests: true,
        instead: "finish it, or return an error that says what is not supported",
    },
];

/// Modules that may start a task by itself: each is the one driver of its program.
const SPAWN_MODULES: &[&str] = &[];

fn may_hold_sql_driver(path: &str) -> bool {
    const PLACES: &[&str] = &[
        "crates/sichen-store/",
        "crates/sichen-sdk/src/fence",
        "crates/sichen-sdk/src/journal",
        "crates/sichen-sdk/src/data_source",
        "crates/sichen-worker/src/journal",
        "crates/sichen-worker/src/source",
        "crates/sichen/src/demo",
        "crates/sichen-drill/src/business",
        "crates/sichen-drill/src/database",
        "crates/sichen-drill/src/task",
        "crates/sichen/src/fence",
        "crates/sichen-sdk/examples/",
        "crates/sichen-bench/",
        "xtask/",
    ];
    PLACES.iter().any(|place| path.starts_with(place))
}

/// The rules of [`CODE`], over code without comments and strings.
pub fn forbidden_in_code(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, views) in tree.rust_files() {
        for Forbidden {
            rule,
            words,
            place,
            tests,
            instead,
        } in CODE
        {
            if !place(file) || (file.is_test() && !tests) {
                continue;
            }
            let view = if *tests { &views.code } else { &views.product };
            for (index, line) in view.lines().enumerate() {
                if let Some(word) = words.iter().find(|word| has_word(line, word)) {
                    let say = format!("`{word}` here: {instead}");
                    findings.push(Finding::new(rule, &file.path, index + 1, say));
                }
            }
        }
    }
    findings
}

/// Marks of unfinished work, in comments too.
pub fn leftovers(tree: &Tree) -> Vec<Finding> {
    let marks = [
        concat!("FIX", "ME"),
        concat!("TO", "DO"),
        concat!("XX", "X"),
    ];
    let kinds = [
        "rs", "sql", "sh", "toml", "md", "proto", "yaml", "yml", "ts", "tsx", "css",
    ];
    let say = "work left over: do it, or write it down as an issue and say here what holds now";
    let mut findings = conflict_marks(tree);
    let marked = tree
        .files
        .iter()
        .filter(|file| kinds.iter().any(|kind| file.has_extension(kind)) && !file.is_generated())
        .flat_map(|file| {
            lines_with(&file.text, &marks)
                .map(|(line, mark)| (line, format!("`{mark}`: {say}")))
                .map(|(line, say)| Finding::new("leftover", &file.path, line, say))
                .collect::<Vec<_>>()
        });
    findings.extend(marked);
    findings
}

/// What a merge left behind.
fn conflict_marks(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for (index, line) in file.text.lines().enumerate() {
            if line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ") {
                let say = "a conflict that was not resolved; keep one side, or join them";
                findings.push(Finding::new("conflict", &file.path, index + 1, say));
            }
        }
    }
    findings
}

/// The project speaks of itself alone: no paths of somebody's machine, no registry hosts.
pub fn forbidden_words(tree: &Tree) -> Vec<Finding> {
    let words = [
        concat!("/wo", "rk/"),
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
        concat!("crates", ".io"),
        concat!("pypi", ".org"),
        concat!("registry.npm", "js.org"),
        concat!("proxy.golang", ".org"),
        concat!("sub", "agent"),
        concat!("work", "place"),
    ];
    let say = "say it without naming a machine, a registry or how the work was done";
    tree.files
        .iter()
        // The lock file names the registry by its format; the cases quote their sources.
        .filter(|file| file.path != "Cargo.lock" && !file.path.starts_with("testdata/"))
        .flat_map(|file| {
            lines_with(&file.text, &words)
                .map(|(line, word)| (line, format!("`{word}`: {say}")))
                .map(|(line, say)| Finding::new("forbidden-word", &file.path, line, say))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn lines_with<'a>(
    text: &'a str,
    words: &'a [&'static str],
) -> impl Iterator<Item = (usize, &'static str)> + 'a {
    text.lines().enumerate().filter_map(|(index, line)| {
        words
            .iter()
            .find(|word| has_word(line, word))
            .map(|word| (index + 1, *word))
    })
}
