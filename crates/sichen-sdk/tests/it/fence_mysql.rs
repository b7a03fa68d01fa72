//! The fence kit on a real MariaDB server with two holders on connections of their own.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, IsolationLevel, TxOpts, params};
use sichen_sdk::fence::mysql::{Error, Fence, check, dedupe, install, open};
use sichen_sdk::fence::{Claim, ClaimSql, Dialect, Reason};

use crate::mariadb;

const KEY: &str = "job/2026-08-30T00:00:00+08:00/0/1";

async fn totals(conn: &mut Conn) -> i64 {
    let sum: Option<i64> = conn
        .query_first("SELECT CAST(coalesce(sum(n), 0) AS SIGNED) FROM totals")
        .await
        .unwrap();
    sum.unwrap()
}

async fn settle(conn: &mut Conn, fence: &Fence, n: i64, to: i64) -> Result<(), Error> {
    let mut tx = conn.start_transaction(TxOpts::default()).await.unwrap();
    fence.save(&mut tx, to, None).await?;
    tx.exec_drop("INSERT INTO totals VALUES (?)", (n,))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    Ok(())
}

/// All claims on one server: starting it is most of the time.
#[tokio::test]
async fn fence_kit_holds_on_mariadb() {
    let Some(server) = mariadb::start() else {
        return;
    };
    let mut admin = server.connect().await;
    assert!(
        !check(&mut admin).await.unwrap().ok(),
        "nothing is installed yet"
    );
    install(&mut admin).await.unwrap();
    install(&mut admin).await.unwrap();
    let seen = check(&mut admin).await.unwrap();
    assert!(seen.ok(), "{seen:#?}");
    let rows: Option<i64> = admin
        .query_first("SELECT count(*) FROM sichen_fence")
        .await
        .unwrap();
    assert_eq!(rows, Some(0));
    admin
        .query_drop("CREATE TABLE totals (n BIGINT NOT NULL) ENGINE = InnoDB")
        .await
        .unwrap();
    old_holder_commits_before_open_and_is_refused_after_it(&server).await;
    refusal_holds_under_every_isolation_level(&server).await;
    checkpoint_moves_only_forward_and_bound_only_down(&server).await;
    keys_differ_by_case_and_trailing_blanks(&server).await;
    dedupe_counts_hits(&server).await;
    claims_skip_what_another_transaction_is_taking(&server).await;
}

async fn old_holder_commits_before_open_and_is_refused_after_it(server: &mariadb::Server) {
    let (mut old, mut new) = (server.connect().await, server.connect().await);
    let old_fence = open(&mut old, KEY, 1, Some(100)).await.unwrap();
    settle(&mut old, &old_fence, 7, 10).await.unwrap();
    // Token 2 is granted, but not opened yet: the old holder's commit still counts …
    settle(&mut old, &old_fence, 5, 20).await.unwrap();
    // … and open then returns it, so the new holder goes on behind it.
    let new_fence = open(&mut new, KEY, 2, None).await.unwrap();
    assert_eq!(new_fence.opened().checkpoint, Some(20));
    assert_eq!(new_fence.opened().upper_bound, Some(100));
    let error = settle(&mut old, &old_fence, 1000, 30).await.unwrap_err();
    assert!(error.is_stale(), "{error}");
    let database = &error.refused().unwrap().database;
    assert!(
        database.contains("SQLSTATE 45000") && database.contains("31001"),
        "{database}"
    );
    assert_eq!(
        totals(&mut new).await,
        12,
        "the stale write changed nothing"
    );
    settle(&mut new, &new_fence, 1, 30).await.unwrap();
    assert_eq!(totals(&mut new).await, 13);
    assert!(open(&mut old, KEY, 1, None).await.unwrap_err().is_stale());
}

async fn refusal_holds_under_every_isolation_level(server: &mariadb::Server) {
    let (mut old, mut new) = (server.connect().await, server.connect().await);
    for (n, level) in [
        IsolationLevel::ReadCommitted,
        IsolationLevel::RepeatableRead,
        IsolationLevel::Serializable,
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("isolation-{n}");
        let old_fence = open(&mut old, &key, 1, None).await.unwrap();
        let before = totals(&mut new).await;
        let mut options = TxOpts::default();
        options.with_isolation_level(level);
        let mut tx = old.start_transaction(options).await.unwrap();
        // The snapshot is taken here, before the takeover.
        let _: Vec<i64> = tx.query("SELECT n FROM totals LIMIT 1").await.unwrap();
        tx.query_drop("INSERT INTO totals VALUES (1000)")
            .await
            .unwrap();
        open(&mut new, &key, 2, None).await.unwrap();
        let error = old_fence.save(&mut tx, 1, None).await.unwrap_err();
        assert!(error.is_stale(), "{level:?}: {error}");
        tx.commit().await.unwrap();
        let after = totals(&mut new).await;
        assert_eq!(
            after, before,
            "{level:?}: the procedure rolled back before the commit"
        );
    }
}

async fn checkpoint_moves_only_forward_and_bound_only_down(server: &mariadb::Server) {
    let mut conn = server.connect().await;
    let key = "bounds";
    for (token, given, expect) in [
        (1, None, None),
        (2, Some(100), Some(100)),
        (3, Some(120), Some(100)),
        (4, Some(60), Some(60)),
    ] {
        let fence = open(&mut conn, key, token, given).await.unwrap();
        assert_eq!(fence.opened().upper_bound, expect);
    }
    let fence = open(&mut conn, key, 5, None).await.unwrap();
    fence.save(&mut conn, 10, Some("cursor")).await.unwrap();
    fence.check(&mut conn).await.unwrap();
    for (checkpoint, reason) in [
        (10, Reason::NotForward),
        (9, Reason::NotForward),
        (61, Reason::BeyondBound),
    ] {
        let error = fence.save(&mut conn, checkpoint, None).await.unwrap_err();
        assert_eq!(error.refused().unwrap().reason, reason);
    }
    let opened = open(&mut conn, key, 6, None)
        .await
        .unwrap()
        .opened()
        .clone();
    assert_eq!(
        (opened.checkpoint, opened.payload.as_deref()),
        (Some(10), Some("cursor"))
    );
    let never = Fence::clone(&open(&mut conn, "never", 1, None).await.unwrap());
    conn.query_drop("DELETE FROM sichen_fence WHERE fence_key = 'never'")
        .await
        .unwrap();
    let error = never.save(&mut conn, 1, None).await.unwrap_err();
    assert_eq!(error.refused().unwrap().reason, Reason::NotOpened);
}

async fn keys_differ_by_case_and_trailing_blanks(server: &mariadb::Server) {
    let mut conn = server.connect().await;
    for (token, key) in [(3, "tenant-A"), (2, "tenant-a"), (1, "tenant-a ")] {
        open(&mut conn, key, token, None).await.unwrap();
    }
}

async fn dedupe_counts_hits(server: &mariadb::Server) {
    let mut conn = server.connect().await;
    assert_eq!(dedupe(&mut conn, "job", "day", "item").await.unwrap(), 0);
    assert_eq!(dedupe(&mut conn, "job", "day", "item").await.unwrap(), 1);
    let mut tx = conn.start_transaction(TxOpts::default()).await.unwrap();
    assert_eq!(dedupe(&mut tx, "job", "day", "undone").await.unwrap(), 0);
    tx.rollback().await.unwrap();
    assert_eq!(dedupe(&mut conn, "job", "day", "undone").await.unwrap(), 0);
}

async fn claims_skip_what_another_transaction_is_taking(server: &mariadb::Server) {
    let (mut one, mut two) = (server.connect().await, server.connect().await);
    let sql = Claim {
        table: "city",
        id: "id",
        ready: "state = 'new'",
        finish: "state = 'done'",
    }
    .sql(Dialect::Mysql);
    two.query_drop(
        "CREATE TABLE city (id BIGINT PRIMARY KEY, state VARCHAR(9) NOT NULL DEFAULT 'new')
         ENGINE = InnoDB",
    )
    .await
    .unwrap();
    for column in &sql.columns {
        two.query_drop(column).await.unwrap();
    }
    two.query_drop("INSERT INTO city (id) VALUES (1), (2), (3), (4)")
        .await
        .unwrap();
    let mine = |key: &str, token: i64| params! { "key" => key, "token" => token };
    let (mut first, mut second) = (committed(&mut one).await, committed(&mut two).await);
    assert_eq!(take(&mut first, &sql, "a", 1, 2).await, [1, 2]);
    second
        .query_drop("SET innodb_lock_wait_timeout = 2")
        .await
        .unwrap();
    let other = take(&mut second, &sql, "b", 2, 9).await;
    assert_eq!(
        other,
        [3, 4],
        "rows locked by an open transaction are passed over"
    );
    first.commit().await.unwrap();
    second.commit().await.unwrap();
    let held: Vec<i64> = two.exec(&sql.held, mine("b", 2)).await.unwrap();
    assert_eq!(held, [3, 4]);
    let mut next = committed(&mut two).await;
    let taken_over = take(&mut next, &sql, "a", 3, 9).await;
    assert_eq!(
        taken_over,
        [1, 2],
        "the next attempt does not wait for the lease"
    );
    next.commit().await.unwrap();
    let done = |key: &str, token: i64, id: i64| {
        params! { "key" => key, "token" => token, "id" => id }
    };
    let lost = one
        .exec_iter(&sql.done, done("a", 1, 1))
        .await
        .unwrap()
        .affected_rows();
    assert_eq!(lost, 0);
    let kept = two
        .exec_iter(&sql.done, done("a", 3, 1))
        .await
        .unwrap()
        .affected_rows();
    assert_eq!(kept, 1);
}

async fn committed(conn: &mut Conn) -> mysql_async::Transaction<'_> {
    let mut options = TxOpts::default();
    options.with_isolation_level(IsolationLevel::ReadCommitted);
    conn.start_transaction(options).await.unwrap()
}

async fn take(
    tx: &mut mysql_async::Transaction<'_>,
    sql: &ClaimSql,
    key: &str,
    token: i64,
    limit: i64,
) -> Vec<i64> {
    let pick = sql.pick.as_ref().unwrap();
    let free = params! { "key" => key, "token" => token, "limit" => limit };
    let ids: Vec<i64> = tx.exec(pick, free).await.unwrap();
    for id in &ids {
        let one = params! { "key" => key, "token" => token, "lease_ms" => 60_000, "id" => id };
        tx.exec_drop(&sql.take, one).await.unwrap();
    }
    ids
}
