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

#[test]
fn a_token_without_place_and_end_is_told_both_at_once() {
    let words = "sichen token create eve --role viewer".split(' ');
    let error = Cli::try_parse_from(words).unwrap_err().to_string();
    for missing in ["--expires <LENGTH>", "--namespace <NAMESPACE>"] {
        assert!(error.contains(missing), "{error}");
    }
}

/// The words of each `sichen …` in the shell blocks of a page.
fn commands(page: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut block: Option<&str> = None;
    let mut document = false;
    let mut line = String::new();
    for text in page.lines() {
        match (text.strip_prefix("```"), block) {
            (Some(kind), None) => block = Some(kind),
            (Some(_), Some(_)) => block = None,
            (None, Some("sh" | "console")) => {
                // What is written into a file is not said to the shell.
                document = (document || text.contains("<<'END'")) && text != "END";
                if document {
                    continue;
                }
                match text.strip_suffix('\\') {
                    Some(part) => line.push_str(part),
                    None => {
                        line.push_str(text);
                        found.extend(said(&std::mem::take(&mut line)));
                    }
                }
            }
            (None, _) => {}
        }
    }
    found
}

/// The commands of one line: quotes are heeded, what the shell would put in is left as it stands.
fn said(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line
        .strip_prefix("$ ")
        .unwrap_or(line)
        .chars()
        .chain(['\n'])
    {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ' | '\n' | '|' | '&' | ';' | '>' | '<') => {
                commands.last_mut().unwrap().extend(word.take());
                if !matches!(c, ' ' | '\n') {
                    commands.push(Vec::new());
                }
            }
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    let commands = commands.into_iter().filter_map(|mut words: Vec<String>| {
        words.extend(word.take());
        let first = words
            .iter()
            .position(|w| !w.contains('=') && w != "until")?;
        words.drain(..first);
        // `2>` was cut at its sign.
        words.pop_if(|w| w == "2");
        (words.first()? == "sichen").then_some(words)
    });
    commands.collect()
}

#[test]
fn every_command_in_the_readmes_and_guides_is_one() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md"), root.join("README.zh.md")];
    for directory in ["docs", "docs/guide"] {
        let entries = std::fs::read_dir(root.join(directory)).unwrap();
        let entries = entries.map(|e| e.unwrap().path());
        pages.extend(entries.filter(|p| p.extension().is_some_and(|e| e == "md")));
    }
    let mut seen = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for words in commands(&text) {
            seen += 1;
            // A variable may stand for anything; a number goes everywhere.
            let words = words
                .iter()
                .map(|w| if w.starts_with('$') { "1" } else { w });
            let words: Vec<&str> = words.collect();
            let read = Cli::try_parse_from(&words);
            let error = read.err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.is_empty(), "{}: {words:?}: {error}", page.display());
        }
    }
    assert!(seen > 50, "{seen}");
}

/// A notice names commands; who reads it at night types them.
#[test]
fn what_a_notice_says_to_do_can_be_done() {
    let root = Cli::command();
    for rule in sichen_core::alert::Rule::ALL {
        for line in sichen_core::alert::notice::what_to_do(*rule).split("; ") {
            let mut command = &root;
            let mut words = line.split(' ');
            assert_eq!(words.next(), Some("sichen"), "{line}");
            // What is in capitals stands for a name; what begins with a dash is an option.
            let is_word = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
            for word in words.take_while(is_word) {
                let next = command.find_subcommand(word);
                command = next.unwrap_or_else(|| panic!("{line}: there is no {word}"));
            }
            assert_ne!(command.get_name(), root.get_name(), "{line}");
        }
    }
}
