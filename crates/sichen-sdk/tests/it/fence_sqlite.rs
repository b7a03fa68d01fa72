//! The fence kit on a real SQLite file with two holders on connections of their own.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use sichen_sdk::fence::sqlite::{check, dedupe, install, open};
use sichen_sdk::fence::{Claim, Dialect, Opened, Reason};

const KEY: &str = "job/2026-08-30T00:00:00+08:00/0/1";

fn connect(dir: &Path) -> Connection {
    let conn = Connection::open(dir.join("business.db")).unwrap();
    conn.busy_timeout(Duration::from_secs(5)).unwrap();
    conn.pragma_update(None, "journal_mode", "WAL").unwrap();
    install(&conn).unwrap();
    conn.execute_batch("CREATE TABLE IF NOT EXISTS totals (n INTEGER NOT NULL)")
        .unwrap();
    conn
}

fn totals(conn: &Connection) -> i64 {
    conn.query_row("SELECT coalesce(sum(n), 0) FROM totals", [], |row| {
        row.get(0)
    })
    .unwrap()
}

/// One business transaction: the fence first, then a row. What a handler does for each batch.
fn settle(
    conn: &mut Connection,
    fence: &sichen_sdk::fence::sqlite::Fence,
    n: i64,
    checkpoint: i64,
) -> Result<(), sichen_sdk::fence::sqlite::Error> {
    let tx = conn
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .unwrap();
    fence.save(&tx, checkpoint, None)?;
    tx.execute("INSERT INTO totals VALUES (?1)", [n]).unwrap();
    tx.commit().unwrap();
    Ok(())
}

#[test]
fn old_holder_commits_before_open_and_is_refused_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut old, mut new) = (connect(dir.path()), connect(dir.path()));
    let old_fence = open(&old, KEY, 1, Some(100)).unwrap();
    assert_eq!(
        old_fence.opened(),
        &Opened {
            upper_bound: Some(100),
            ..Opened::default()
        }
    );
    settle(&mut old, &old_fence, 7, 10).unwrap();
    // Token 2 is granted, but not opened yet: the old holder's commit still counts …
    settle(&mut old, &old_fence, 5, 20).unwrap();
    // … and open then returns it, so the new holder goes on behind it.
    let new_fence = open(&new, KEY, 2, None).unwrap();
    assert_eq!(new_fence.opened().checkpoint, Some(20));
    assert_eq!(new_fence.opened().upper_bound, Some(100));
    let error = settle(&mut old, &old_fence, 1000, 30).unwrap_err();
    assert!(error.is_stale(), "{error}");
    let refused = error.refused().unwrap();
    assert_eq!((refused.token, refused.key.as_str()), (1, KEY));
    assert!(
        refused.database.starts_with("sichen: stale fencing token"),
        "{refused}"
    );
    assert_eq!(totals(&new), 12, "the stale write changed nothing");
    settle(&mut new, &new_fence, 1, 30).unwrap();
    assert_eq!(totals(&new), 13);
}

#[test]
fn refusal_undoes_the_work_that_came_before_it_in_the_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let (mut old, new) = (connect(dir.path()), connect(dir.path()));
    let old_fence = open(&old, KEY, 1, None).unwrap();
    open(&new, KEY, 2, None).unwrap();
    let tx = old
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .unwrap();
    tx.execute("INSERT INTO totals VALUES (1000)", []).unwrap();
    assert!(old_fence.check(&tx).unwrap_err().is_stale());
    assert!(
        tx.is_autocommit(),
        "SQLite itself has ended the transaction"
    );
    assert!(
        tx.commit().is_err(),
        "a commit that ignores the refusal finds nothing to commit"
    );
    assert_eq!(totals(&new), 0);
}

#[test]
fn a_write_that_has_begun_makes_open_wait_and_is_seen_by_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut old, new) = (connect(dir.path()), connect(dir.path()));
    let old_fence = open(&old, KEY, 1, None).unwrap();
    let tx = old
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .unwrap();
    old_fence.save(&tx, 10, Some("cursor")).unwrap();
    let opener = std::thread::spawn(move || open(&new, KEY, 2, None).unwrap());
    tx.commit().unwrap();
    let opened = opener.join().unwrap().opened().clone();
    // The write lock was held before the opener began, so it can only have come second.
    assert!(opened.checkpoint == Some(10) && opened.payload.as_deref() == Some("cursor"));
}

#[test]
fn checkpoint_survives_the_process_and_never_moves_back() {
    let dir = tempfile::tempdir().unwrap();
    {
        let conn = connect(dir.path());
        let fence = open(&conn, KEY, 1, None).unwrap();
        fence.save(&conn, 10, Some("a")).unwrap();
        fence.check(&conn).unwrap();
        for not_forward in [10, 9] {
            let error = fence.save(&conn, not_forward, Some("b")).unwrap_err();
            assert_eq!(error.refused().unwrap().reason, Reason::NotForward);
        }
        let by_hand = conn
            .execute("UPDATE sichen_fence SET checkpoint = NULL", [])
            .unwrap_err();
        assert!(
            by_hand
                .to_string()
                .contains("sichen: checkpoint would move back"),
            "{by_hand}"
        );
        let token_by_hand = conn
            .execute("UPDATE sichen_fence SET token = 0", [])
            .unwrap_err();
        assert!(
            token_by_hand.to_string().contains("stale fencing token"),
            "{token_by_hand}"
        );
    }
    let conn = connect(dir.path());
    let opened = open(&conn, KEY, 2, None).unwrap().opened().clone();
    assert_eq!(
        (opened.checkpoint, opened.payload.as_deref()),
        (Some(10), Some("a"))
    );
}

#[test]
fn open_twice_with_one_token_is_the_same_and_an_older_open_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let conn = connect(dir.path());
    let first = open(&conn, KEY, 5, Some(50)).unwrap();
    let again = open(&conn, KEY, 5, Some(50)).unwrap();
    assert_eq!(first.opened(), again.opened());
    assert!(open(&conn, KEY, 4, None).unwrap_err().is_stale());
    let unknown = open(&conn, "other", 9, None).unwrap();
    conn.execute("DELETE FROM sichen_fence WHERE fence_key = 'other'", [])
        .unwrap();
    let gone = unknown.save(&conn, 1, None).unwrap_err();
    assert_eq!(gone.refused().unwrap().reason, Reason::NotOpened);
}

#[test]
fn upper_bound_only_shrinks_and_holds_the_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let conn = connect(dir.path());
    let bound = |token, given| open(&conn, KEY, token, given).unwrap().opened().upper_bound;
    assert_eq!(bound(1, None), None);
    assert_eq!(bound(2, Some(100)), Some(100));
    assert_eq!(bound(3, Some(120)), Some(100));
    assert_eq!(bound(4, Some(60)), Some(60));
    assert_eq!(bound(5, None), Some(60));
    let fence = open(&conn, KEY, 5, None).unwrap();
    let beyond = fence.save(&conn, 61, None).unwrap_err();
    assert_eq!(beyond.refused().unwrap().reason, Reason::BeyondBound);
    fence.save(&conn, 60, None).unwrap();
}

#[test]
fn dedupe_counts_hits_and_rolls_back_with_the_work() {
    let dir = tempfile::tempdir().unwrap();
    let mut conn = connect(dir.path());
    assert_eq!(dedupe(&conn, "job", "day", "item").unwrap(), 0);
    assert_eq!(dedupe(&conn, "job", "day", "item").unwrap(), 1);
    assert_eq!(dedupe(&conn, "job", "day", "item").unwrap(), 2);
    assert_eq!(dedupe(&conn, "job", "next day", "item").unwrap(), 0);
    let tx = conn.transaction().unwrap();
    assert_eq!(dedupe(&tx, "job", "day", "undone").unwrap(), 0);
    drop(tx);
    assert_eq!(dedupe(&conn, "job", "day", "undone").unwrap(), 0);
}

#[test]
fn claims_share_a_table_without_sharing_an_item() {
    let dir = tempfile::tempdir().unwrap();
    let conn = connect(dir.path());
    let sql = Claim {
        table: "city",
        id: "id",
        ready: "state = 'new'",
        finish: "state = 'done'",
    }
    .sql(Dialect::Sqlite);
    conn.execute_batch("CREATE TABLE city (id INTEGER PRIMARY KEY, state TEXT NOT NULL)")
        .unwrap();
    sql.columns
        .iter()
        .for_each(|column| conn.execute_batch(column).unwrap());
    for id in 1..=5 {
        conn.execute(
            "INSERT INTO city VALUES (?1, 'new', NULL, NULL, NULL)",
            [id],
        )
        .unwrap();
    }
    let take = |key: &str, token: i64, lease_ms: i64, limit: i64| -> Vec<i64> {
        let mut statement = conn.prepare(&sql.take).unwrap();
        let rows = statement
            .query_map((key, token, lease_ms, limit), |row| row.get(0))
            .unwrap();
        let mut ids = rows.collect::<Result<Vec<i64>, _>>().unwrap();
        ids.sort_unstable();
        ids
    };
    let done = |key: &str, token: i64, id: i64| conn.execute(&sql.done, (key, token, id)).unwrap();
    assert_eq!(take("a", 1, 60_000, 2), [1, 2]);
    assert_eq!(take("b", 2, 60_000, 2), [3, 4]);
    assert_eq!(done("a", 1, 1), 1);
    assert_eq!(done("b", 2, 2), 0, "not b's item");
    // The next attempt of a's shard takes over at once; the old claim no longer finishes anything.
    assert_eq!(take("a", 3, 60_000, 1), [2]);
    assert_eq!(done("a", 1, 2), 0, "the claim was taken over");
    assert_eq!(done("a", 3, 2), 1);
    // b's lease is already over: anyone may have its items, unfinished ones only.
    assert_eq!(take("c", 4, -1, 9), [5]);
    assert_eq!(take("d", 5, 60_000, 9), [5]);
    assert_eq!(conn.execute(&sql.release, ("d", 5)).unwrap(), 1);
    assert_eq!(take("b", 2, 60_000, 9), [5]);
}

#[test]
fn check_finds_the_kit_proves_refusal_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut conn = connect(dir.path());
    let seen = check(&mut conn).unwrap();
    assert!(seen.ok(), "{seen:#?}");
    let rows: i64 = conn
        .query_row("SELECT count(*) FROM sichen_fence", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 0);
}

#[test]
fn check_fails_where_the_kit_is_missing_or_does_not_refuse() {
    let mut empty = Connection::open_in_memory().unwrap();
    assert!(!check(&mut empty).unwrap().ok());
    let dir = tempfile::tempdir().unwrap();
    let mut conn = connect(dir.path());
    conn.execute_batch(
        "DROP TRIGGER sichen_fence_save_row;
         CREATE TRIGGER sichen_fence_save_row INSTEAD OF INSERT ON sichen_fence_save BEGIN
           UPDATE sichen_fence SET checkpoint = NEW.checkpoint WHERE fence_key = NEW.fence_key;
         END;",
    )
    .unwrap();
    let seen = check(&mut conn).unwrap();
    let bad = seen.probes.iter().filter(|probe| probe.verdict.is_err());
    let names = bad.map(|probe| probe.name).collect::<Vec<_>>();
    assert_eq!(
        names,
        [
            "stale token is refused",
            "token that was not opened is refused",
            "checkpoint is not saved twice",
        ]
    );
}
