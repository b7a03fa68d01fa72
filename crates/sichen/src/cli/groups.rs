//! The commands as people look for them: by what they want to do, a line each.
//!
//! # Not here
//! What a command does: its own `--help`.

use clap::Command;

/// What people want to do, and the commands for it.
const GROUPS: &[(&str, &[&str])] = &[
    ("Begin", &["demo", "dev", "doctor", "completions", "man"]),
    (
        "Say what is to run",
        &[
            "new",
            "apply",
            "validate",
            "diff",
            "delete",
            "revisions",
            "rollback",
            "schema",
            "import",
        ],
    ),
    (
        "And when",
        &["next", "calendar", "due", "forecast", "pause", "resume"],
    ),
    (
        "Run it, and look",
        &[
            "run", "get", "describe", "runs", "shards", "logs", "events", "explain", "trace",
        ],
    ),
    (
        "Put right",
        &["cancel", "retry", "dead-letters", "backfill"],
    ),
    ("Prove", &["verify", "audit", "export", "drill"]),
    (
        "Keep servers and workers",
        &[
            "server",
            "worker",
            "ready",
            "config",
            "backup",
            "restore",
            "alerts",
            "clock",
            "token",
            "user",
            "namespace",
            "capacity",
        ],
    ),
    ("In a task", &["report", "fence"]),
];

/// What is said of `command` as a whole.
pub fn help(command: &Command) -> String {
    let about = |name: &str| {
        let found = command.find_subcommand(name)?;
        let about = found.get_about()?.to_string();
        Some(format!("  {name:<14}{}\n", brief(&about)))
    };
    let mut text = "Usage: sichen COMMAND\n".to_owned();
    for (what, names) in GROUPS {
        text.push_str(&format!("\n{what}\n"));
        text.extend(names.iter().filter_map(|name| about(name)));
    }
    if let Some(about) = command.get_about() {
        text.push_str(&format!("\n{about}\n"));
    }
    text + "`sichen help COMMAND` says more; `sichen --version` which one this is.\n"
}

/// What a line has room for of a text.
const BRIEF: usize = 62;

/// The first sentence of a text; if it is long, as far as its last comma that fits.
fn brief(about: &str) -> &str {
    let end = about.find([':', '.', ';', '`']).unwrap_or(about.len());
    let sentence = about[..end].trim_end_matches(", such as ");
    if sentence.chars().count() <= BRIEF {
        return sentence;
    }
    let mut commas = sentence.match_indices(',').map(|(at, _)| at);
    let fits = commas.rfind(|at| *at <= BRIEF);
    fits.map_or(sentence, |at| &sentence[..at])
}

#[cfg(test)]
mod tests;
