//! Claims about the command line's words.

use super::*;

/// The help of every command, one after the other.
fn help(command: &mut clap::Command, path: &str, text: &mut String) {
    text.push_str(&format!("==== {path}\n{}\n", command.render_long_help()));
    for sub in command.get_subcommands_mut() {
        let path = format!("{path} {}", sub.get_name());
        help(sub, &path, text);
    }
}

#[test]
fn the_help_is_what_was_agreed() {
    let mut text = String::new();
    let mut command = Cli::command().term_width(100);
    command.build();
    help(&mut command, "sichen", &mut text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn the_words_do_not_contradict_each_other() {
    Cli::command().debug_assert();
}

#[test]
fn a_wrong_word_is_refused() {
    for line in [
        "sichen rn",
        "sichen run",
        "sichen run j --planned 2026-08-30T00:00:00Z --key k",
        "sichen run j --timeout 5s",
        "sichen runs --state done",
        "sichen runs --limit 0",
        "sichen server --beat soon",
    ] {
        assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
    }
}

#[test]
fn what_others_call_a_command_is_none_of_ours_and_leads_to_one() {
    let mut known = Cli::command();
    known.build();
    let known: Vec<&str> = known.get_subcommands().map(|c| c.get_name()).collect();
    for (command, names) in ALSO_CALLED {
        let first = command.split(' ').next().unwrap();
        assert!(known.contains(&first), "{command}");
        for name in *names {
            assert!(!known.contains(name), "{name} is a command");
        }
    }
}
