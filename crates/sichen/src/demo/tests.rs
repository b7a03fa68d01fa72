//! Claims about the demo's business side, on real SQLite files.

use std::io::Read;
use std::path::Path;

use super::csv_input::{Loaded, MAX_LINE_BYTES, OnBadRow, load};
use super::database::{At, Database};
use super::fence::{Fence, open as open_fence};
use super::ledger::{self, Entry, Generator};
use super::settle::{self, Error, Zoo, commit_batch, read_batch, start_after};
use super::verify::verify;

const RUN: &str = "daily-settlement:2026-08-30T00:00:00+08:00";
const NEXT_RUN: &str = "daily-settlement:2026-08-31T00:00:00+08:00";

fn business(dir: &Path) -> Database {
    let path = dir.join("business.db");
    let fresh = !path.exists();
    let conn = Database::open(&At::File(path)).unwrap();
    if fresh {
        ledger::create(&conn).unwrap();
    }
    conn
}

fn generated(dir: &Path, count: u64) -> Database {
    let conn = business(dir);
    ledger::generate(&conn, count, &mut |_| ()).unwrap();
    conn
}

// ---------------------------------------------------------------------------- the ledger

#[test]
fn generated_ledger_is_the_same_each_time_and_leaves_one_id_out() {
    let first = Generator::new(2_000).collect::<Vec<_>>();
    assert_eq!(first, Generator::new(2_000).collect::<Vec<_>>());
    assert_eq!(first.len(), 2_000);
    assert!(first.windows(2).all(|pair| pair[0].id < pair[1].id));
    assert!(
        first
            .iter()
            .all(|entry| entry.id != ledger::reserved_id(2_000))
    );
    assert_eq!(first.last().map(|entry| entry.id), Some(2_001));
    assert!(first.iter().any(|entry| entry.amount_minor < 0));
    assert!(first.iter().any(|entry| entry.amount_minor > 0));
    let day = "2026-08-28T16:00:00Z".parse().unwrap().."2026-08-29T16:00:00Z".parse().unwrap();
    assert!(first.iter().all(|entry| day.contains(&entry.occurred_at)));
    let accounts = first
        .iter()
        .map(|e| &e.account)
        .collect::<std::collections::BTreeSet<_>>();
    assert_eq!(accounts.len(), 500);
    // Pinned, so that a change of the generator is a decision.
    assert_eq!((first[0].account.as_str(), first[0].amount_minor), PINNED);
}

const PINNED: (&str, i64) = ("acct-0000", -86_356);

#[test]
fn free_id_is_the_first_gap_above_the_given_one() {
    let dir = tempfile::tempdir().unwrap();
    let conn = generated(dir.path(), 1_000);
    assert_eq!(
        ledger::free_id(&conn, 1).unwrap(),
        Some(ledger::reserved_id(1_000))
    );
    assert_eq!(ledger::free_id(&conn, 500).unwrap(), Some(1_002));
    assert_eq!(ledger::extent(&conn).unwrap(), (1_000, Some((1, 1_001))));
}

// ---------------------------------------------------------------------------- the user's file

fn read(text: impl AsRef<[u8]>, on_bad_row: OnBadRow) -> (Result<Loaded, String>, Vec<Entry>) {
    let dir = tempfile::tempdir().unwrap();
    let conn = business(dir.path());
    let loaded = load(&conn, text.as_ref(), on_bad_row, &mut |_| ());
    let entries = conn
        .rows(
            "SELECT id, account, amount_minor, occurred_at FROM ledger ORDER BY id",
            &[],
            |row| {
                Ok(Entry {
                    id: row.int(0)?,
                    account: row.text(1)?,
                    amount_minor: row.int(2)?,
                    occurred_at: row.text(3)?.parse().unwrap(),
                })
            },
        )
        .unwrap();
    (loaded.map_err(|error| format!("{error:#}")), entries)
}

const HEAD: &str = "id,account,amount_minor,occurred_at\n";

#[test]
fn good_rows_are_loaded_as_written() {
    let text = format!(
        "\u{feff}{}7,\"Ah, \"\"Q\"\"\",-5,2026-08-29T09:30:00+08:00\r\n\r\n3,銀行,9223372036854775807,2026-08-29T01:30:00Z",
        HEAD.replace('\n', "\r\n")
    );
    let (loaded, entries) = read(text, OnBadRow::Stop);
    assert_eq!(
        loaded.unwrap(),
        Loaded {
            entries: 2,
            ..Loaded::default()
        }
    );
    let at = "2026-08-29T01:30:00Z".parse().unwrap();
    let entry = |id, account: &str, amount_minor| Entry {
        id,
        account: account.to_owned(),
        amount_minor,
        occurred_at: at,
    };
    assert_eq!(
        entries,
        [entry(3, "銀行", i64::MAX), entry(7, "Ah, \"Q\"", -5)]
    );
}

#[test]
fn bad_rows_stop_with_their_line_and_reason_or_are_skipped_and_counted() {
    let day = "2026-08-29T00:00:00Z";
    let check = |row: &[u8], reason: &str| {
        let mut text = format!("{HEAD}1,a,1,{day}\n").into_bytes();
        text.extend_from_slice(row);
        text.extend_from_slice(format!("\n9,a,1,{day}\n").as_bytes());
        let shown = String::from_utf8_lossy(&row[..row.len().min(60)]).into_owned();
        let (stopped, _) = read(&text, OnBadRow::Stop);
        let error = stopped.expect_err(&shown);
        assert!(
            error.starts_with(&format!("line 3: {reason}")),
            "{shown}: {error}"
        );
        let (skipped, entries) = read(&text, OnBadRow::Skip);
        let skipped = skipped.unwrap();
        assert_eq!((skipped.entries, skipped.skipped), (2, 1), "{shown}");
        assert!(skipped.examples[0].starts_with("line 3: "), "{shown}");
        assert_eq!(
            entries.iter().map(|entry| entry.id).collect::<Vec<_>>(),
            [1, 9],
            "{shown}"
        );
    };
    check(format!("1,b,1,{day}").as_bytes(), "id 1 appears twice");
    check(
        format!("x,b,1,{day}").as_bytes(),
        "id \"x\" is not an integer",
    );
    check(format!("0,b,1,{day}").as_bytes(), "id 0: from 1 to");
    check(format!("-4,b,1,{day}").as_bytes(), "id -4: from 1 to");
    check(
        format!("9223372036854775807,b,1,{day}").as_bytes(),
        "id 9223372036854775807: from 1",
    );
    check(
        format!("9223372036854775808,b,1,{day}").as_bytes(),
        "id \"9223372036854775808\" does not",
    );
    check(
        format!("2,b,1.5,{day}").as_bytes(),
        "amount_minor \"1.5\" is not an integer",
    );
    check(
        format!("2,b,,{day}").as_bytes(),
        "amount_minor \"\" is not an integer",
    );
    check(
        format!("2,b,99999999999999999999,{day}").as_bytes(),
        "amount_minor \"9999",
    );
    check(
        format!("2,a,9223372036854775807,{day}").as_bytes(),
        "the total of account \"a\" would",
    );
    check(format!("2,,1,{day}").as_bytes(), "account of 0 bytes");
    check(
        format!("2, b,1,{day}").as_bytes(),
        "account \" b\" has blanks",
    );
    check(
        b"2,b,1,2026-02-30T00:00:00Z",
        "occurred_at \"2026-02-30T00:00:00Z\" is no instant",
    );
    check(
        b"2,b,1,2026-08-29",
        "occurred_at \"2026-08-29\" is no instant like",
    );
    check(b"2,b,1", "3 columns; expected 4");
    check(format!("2,b,1,{day},x").as_bytes(), "5 columns; expected 4");
    check(",".repeat(60_000).as_bytes(), "17 columns; expected 4");
    check(format!("2,\"b,1,{day}").as_bytes(), "a quote is not closed");
    check(
        format!("2,b\rc,1,{day}").as_bytes(),
        "a carriage return in the middle",
    );
    check(b"2,\xff\xfe,1,2026-08-29T00:00:00Z", "not valid UTF-8");
    check(
        b"2,b\x00,1,2026-08-29T00:00:00Z",
        "account \"b\\0\" has blanks",
    );
    check(
        "z".repeat(MAX_LINE_BYTES + 1).as_bytes(),
        "longer than 65536 bytes",
    );
    check(
        "z".repeat(MAX_LINE_BYTES * 40).as_bytes(),
        "longer than 65536 bytes",
    );
}

#[test]
fn input_without_entries_or_with_another_header_is_refused() {
    let check = |text: &str, reason: &str| {
        let error = read(text, OnBadRow::Skip).0.expect_err(text);
        assert!(error.contains(reason), "{text:?}: {error}");
    };
    check(
        "",
        "the input is empty; its first line must be id,account,amount_minor,occurred_at",
    );
    check("\n", "line 1: the header must be");
    check(
        "ID,account,amount_minor,occurred_at\n1,a,1,2026-08-29T00:00:00Z",
        "found \"ID,",
    );
    check("1,a,1,2026-08-29T00:00:00Z\n", "line 1: the header must be");
    check(HEAD, "the input has no entries (0 bad rows skipped)");
    check(
        &format!("{HEAD}x\ny\n"),
        "the input has no entries (2 bad rows skipped)",
    );
}

#[test]
fn an_endless_line_is_read_in_bounded_memory() {
    let endless = std::io::repeat(b'z').take(50 << 20);
    let dir = tempfile::tempdir().unwrap();
    let conn = business(dir.path());
    let error = load(&conn, endless, OnBadRow::Skip, &mut |_| ()).unwrap_err();
    assert!(
        error.to_string().starts_with("line 1: longer than"),
        "{error}"
    );
}

#[test]
fn many_rows_are_loaded_over_several_transactions() {
    let mut text = HEAD.to_owned();
    for id in 1..=45_000 {
        text.push_str(&format!("{id},a,1,2026-08-29T00:00:00Z\n"));
    }
    let dir = tempfile::tempdir().unwrap();
    let conn = business(dir.path());
    let mut seen = Vec::new();
    load(&conn, text.as_bytes(), OnBadRow::Stop, &mut |n| {
        seen.push(n)
    })
    .unwrap();
    assert_eq!(seen, [20_000, 40_000, 45_000]);
}

// ---------------------------------------------------------------------------- settling

/// Settles `from..=upper` to its end as one attempt; the ids of the batches are its answer.
fn settle_all(
    conn: &Database,
    fence: &Fence,
    run: &str,
    mut after: i64,
    upper: i64,
    zoo: Option<Zoo>,
) {
    while let Some(batch) = read_batch(conn, after, upper, run, 100).unwrap() {
        commit_batch(conn, fence, &batch, zoo).unwrap();
        after = batch.last_id();
    }
}

fn late_entry(id: i64) -> Entry {
    Entry {
        id,
        account: "acct-late".to_owned(),
        amount_minor: 12_345,
        occurred_at: "2026-08-29T12:00:00Z".parse().unwrap(),
    }
}

#[test]
fn entries_that_come_during_a_run_are_counted_in_exactly_one_run() {
    let dir = tempfile::tempdir().unwrap();
    let conn = generated(dir.path(), 1_000);
    let upper = 1_001;
    let fence = open_fence(&conn, "uid/day/0/0", 1, Some(upper)).unwrap();
    let first = read_batch(&conn, 0, upper, RUN, 100).unwrap().unwrap();
    // While the batch is open: one into its very range, one beyond the run's bound.
    assert!(ledger::insert(&conn, &late_entry(ledger::reserved_id(1_000))).unwrap());
    assert!(ledger::insert(&conn, &late_entry(5_000)).unwrap());
    commit_batch(&conn, &fence, &first, None).unwrap();
    settle_all(&conn, &fence, RUN, first.last_id(), upper, None);
    let counted = settle::count(&conn, 1, first.last_id(), upper, RUN).unwrap();
    assert_eq!(
        counted,
        (1_000, 0),
        "what came late is not expected of this run"
    );
    let seen = verify(&conn).unwrap();
    assert_eq!(
        (seen.entries, seen.marked, seen.counted),
        (1_002, 1_000, 1_000)
    );
    assert!(!seen.ok(), "two entries wait for the next run");
    // The next run's bounds come from the unsettled predicate, so it begins below the first's.
    let bounds = "SELECT min(id), max(id) FROM ledger WHERE settled_run IS NULL";
    let (min, max) = conn
        .row(bounds, &[], |row| Ok((row.int(0)?, row.int(1)?)))
        .unwrap()
        .unwrap();
    assert_eq!((min, max), (ledger::reserved_id(1_000), 5_000));
    let fence = open_fence(&conn, "uid/next day/0/0", 2, Some(max)).unwrap();
    let after = start_after(&fence, None, min, None);
    settle_all(&conn, &fence, NEXT_RUN, after, max, None);
    let seen = verify(&conn).unwrap();
    assert!(seen.ok(), "{seen:#?}");
    assert_eq!(
        seen.runs.iter().map(|run| run.entries).collect::<Vec<_>>(),
        [1_000, 2]
    );
}

/// Two attempts of one shard. The first reads a batch, is frozen before it commits, is replaced,
/// and commits when the second is through. Answers the outcome of that late commit.
fn frozen_between_read_and_commit(dir: &Path, zoo: Option<Zoo>) -> Result<(), Error> {
    let (old, new) = (generated(dir, 1_000), business(dir));
    let upper = 1_001;
    let key = "uid/day/0/0";
    let old_fence = open_fence(&old, key, 1, Some(upper)).unwrap();
    let first = read_batch(&old, 0, upper, RUN, 100).unwrap().unwrap();
    commit_batch(&old, &old_fence, &first, zoo).unwrap();
    let display = first.last_id();
    let second = read_batch(&old, display, upper, RUN, 100).unwrap().unwrap();
    commit_batch(&old, &old_fence, &second, zoo).unwrap();
    // Sichen has heard of the first checkpoint only when the old holder freezes.
    let held = read_batch(&old, second.last_id(), upper, RUN, 100)
        .unwrap()
        .unwrap();
    let new_fence = open_fence(&new, key, 2, Some(upper)).unwrap();
    assert_eq!(new_fence.opened().checkpoint, Some(second.last_id()));
    let after = start_after(&new_fence, Some(display), 1, zoo);
    settle_all(&new, &new_fence, RUN, after, upper, zoo);
    commit_batch(&old, &old_fence, &held, zoo)
}

fn is_stale(error: &super::fence::Error) -> bool {
    error
        .refused()
        .is_some_and(|refused| refused.reason == sichen_sdk::fence::Reason::Stale)
}

#[test]
fn a_frozen_holder_is_refused_and_the_totals_are_right() {
    let dir = tempfile::tempdir().unwrap();
    let error = frozen_between_read_and_commit(dir.path(), None).unwrap_err();
    let Error::Fence(fence) = &error else {
        panic!("{error}")
    };
    assert!(is_stale(fence), "{error}");
    assert!(
        error.to_string().contains("sichen: stale fencing token"),
        "{error}"
    );
    let seen = verify(&business(dir.path())).unwrap();
    assert!(seen.ok(), "{seen:#?}");
    assert_eq!(seen.runs.len(), 1);
}

#[test]
fn without_the_fence_a_frozen_holder_makes_the_totals_wrong() {
    let dir = tempfile::tempdir().unwrap();
    frozen_between_read_and_commit(dir.path(), Some(Zoo::NoFence)).unwrap();
    let seen = verify(&business(dir.path())).unwrap();
    assert!(!seen.ok());
    assert_eq!(
        (seen.entries, seen.marked, seen.counted),
        (1_000, 1_000, 1_100)
    );
    assert!(
        seen.wrong_accounts > 0 && seen.wrong_in_runs > 0,
        "{seen:#?}"
    );
    assert!(!seen.examples.is_empty());
}

#[test]
fn starting_from_the_displayed_checkpoint_makes_the_totals_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let zoo = Some(Zoo::StartFromDisplayCheckpoint);
    let late = frozen_between_read_and_commit(dir.path(), zoo).unwrap_err();
    assert!(
        matches!(&late, Error::Fence(fence) if is_stale(fence)),
        "the fence itself works"
    );
    let seen = verify(&business(dir.path())).unwrap();
    assert!(!seen.ok());
    assert_eq!(
        (seen.entries, seen.marked, seen.counted),
        (1_000, 1_000, 1_100)
    );
}

#[test]
fn two_runs_at_once_never_count_an_entry_twice() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (generated(dir.path(), 500), business(dir.path()));
    let fence_one = open_fence(&one, "uid/day/0/0", 1, None).unwrap();
    let fence_two = open_fence(&two, "uid/next day/0/0", 2, None).unwrap();
    let batch_one = read_batch(&one, 0, 501, RUN, 100).unwrap().unwrap();
    let batch_two = read_batch(&two, 0, 501, NEXT_RUN, 100).unwrap().unwrap();
    commit_batch(&one, &fence_one, &batch_one, None).unwrap();
    let error = commit_batch(&two, &fence_two, &batch_two, None).unwrap_err();
    assert!(
        matches!(error, Error::SettledElsewhere { id: 1 }),
        "{error}"
    );
    assert_eq!(verify(&two).unwrap().counted, 100);
}

#[test]
fn verification_sees_a_total_that_is_off_by_one_even_if_counts_agree() {
    let dir = tempfile::tempdir().unwrap();
    let conn = generated(dir.path(), 300);
    let fence = open_fence(&conn, "uid/day/0/0", 1, None).unwrap();
    settle_all(&conn, &fence, RUN, 0, 301, None);
    assert!(verify(&conn).unwrap().ok());
    conn.batch(
        "UPDATE settlement_totals SET amount_minor = amount_minor + 1
          WHERE account = (SELECT min(account) FROM settlement_totals)",
    )
    .unwrap();
    let seen = verify(&conn).unwrap();
    assert_eq!(
        (seen.wrong_accounts, seen.wrong_in_runs, seen.counted),
        (1, 1, 300)
    );
    assert_eq!(
        seen.examples[0].settled_minor - seen.examples[0].expected_minor,
        1
    );
}
