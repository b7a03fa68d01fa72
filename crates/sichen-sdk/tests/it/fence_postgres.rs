//! The fence kit on a real PostgreSQL server with two holders on connections of their own.

use sichen_sdk::fence::postgres::{Error, Fence, check, dedupe, install, open};
use sichen_sdk::fence::{Claim, Dialect, Reason};
use tokio_postgres::{Client, IsolationLevel};

use crate::pg;

const KEY: &str = "job/2026-08-30T00:00:00+08:00/0/1";

async fn business(server: &pg::Server) -> Client {
    let client = server.connect().await;
    install(&client).await.unwrap();
    client
        .batch_execute("CREATE TABLE IF NOT EXISTS totals (n bigint NOT NULL)")
        .await
        .unwrap();
    client
}

async fn totals(client: &Client) -> i64 {
    let query = "SELECT coalesce(sum(n), 0)::bigint FROM totals";
    client.query_one(query, &[]).await.unwrap().get(0)
}

async fn settle(client: &mut Client, fence: &Fence, n: i64, to: i64) -> Result<(), Error> {
    let tx = client.transaction().await.unwrap();
    fence.save(&tx, to, None).await?;
    tx.execute("INSERT INTO totals VALUES ($1)", &[&n])
        .await
        .unwrap();
    tx.commit().await.unwrap();
    Ok(())
}

/// All claims on one server: starting it is most of the time.
#[tokio::test]
async fn fence_kit_holds_on_postgres() {
    let Some(server) = pg::start() else {
        return;
    };
    kit_is_complete_and_leaves_nothing(&server).await;
    old_holder_commits_before_open_and_is_refused_after_it(&server).await;
    open_waits_for_a_write_in_flight_and_returns_it(&server).await;
    refusal_holds_under_every_isolation_level(&server).await;
    checkpoint_never_moves_back_and_bound_never_rises(&server).await;
    dedupe_counts_hits(&server).await;
    claims_skip_what_another_transaction_is_taking(&server).await;
    installing_at_once_from_several_workers_is_harmless(&server).await;
    check_fails_where_the_kit_does_not_refuse(&server).await;
}

async fn kit_is_complete_and_leaves_nothing(server: &pg::Server) {
    let mut client = server.connect().await;
    assert!(
        !check(&mut client).await.unwrap().ok(),
        "nothing is installed yet"
    );
    install(&client).await.unwrap();
    let seen = check(&mut client).await.unwrap();
    assert!(seen.ok(), "{seen:#?}");
    let stale = seen
        .probes
        .iter()
        .find(|probe| probe.name == "stale token is refused")
        .unwrap();
    assert!(
        stale.verdict.as_ref().unwrap().contains("SQLSTATE SC001"),
        "{stale:?}"
    );
    let rows = client
        .query_one("SELECT count(*) FROM sichen_fence", &[])
        .await
        .unwrap();
    assert_eq!(rows.get::<_, i64>(0), 0);
}

async fn old_holder_commits_before_open_and_is_refused_after_it(server: &pg::Server) {
    let (mut old, mut new) = (business(server).await, business(server).await);
    let old_fence = open(&old, KEY, 1, Some(100)).await.unwrap();
    settle(&mut old, &old_fence, 7, 10).await.unwrap();
    // Token 2 is granted, but not opened yet: the old holder's commit still counts …
    settle(&mut old, &old_fence, 5, 20).await.unwrap();
    // … and open then returns it, so the new holder goes on behind it.
    let new_fence = open(&new, KEY, 2, None).await.unwrap();
    assert_eq!(new_fence.opened().checkpoint, Some(20));
    assert_eq!(new_fence.opened().upper_bound, Some(100));
    let error = settle(&mut old, &old_fence, 1000, 30).await.unwrap_err();
    assert!(error.is_stale(), "{error}");
    assert!(
        error
            .refused()
            .unwrap()
            .database
            .starts_with("sichen: stale fencing token 1 for")
    );
    assert_eq!(totals(&new).await, 12, "the stale write changed nothing");
    settle(&mut new, &new_fence, 1, 30).await.unwrap();
    assert_eq!(totals(&new).await, 13);
    assert!(
        open(&old, KEY, 1, None).await.unwrap_err().is_stale(),
        "a late open is refused"
    );
}

async fn open_waits_for_a_write_in_flight_and_returns_it(server: &pg::Server) {
    let (mut old, new) = (business(server).await, business(server).await);
    let key = "in-flight";
    let old_fence = open(&old, key, 1, None).await.unwrap();
    let tx = old.transaction().await.unwrap();
    old_fence.save(&tx, 10, Some("cursor")).await.unwrap();
    new.batch_execute("SET lock_timeout = '100ms'")
        .await
        .unwrap();
    let early = open(&new, key, 2, None).await.unwrap_err();
    assert!(
        early.refused().is_none(),
        "it waits for the row, it is not refused: {early}"
    );
    tx.commit().await.unwrap();
    let opened = open(&new, key, 2, None).await.unwrap().opened().clone();
    assert_eq!(
        (opened.checkpoint, opened.payload.as_deref()),
        (Some(10), Some("cursor"))
    );
}

async fn refusal_holds_under_every_isolation_level(server: &pg::Server) {
    let (mut old, new) = (business(server).await, business(server).await);
    for (n, level) in [
        IsolationLevel::ReadCommitted,
        IsolationLevel::RepeatableRead,
        IsolationLevel::Serializable,
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("isolation-{n}");
        let old_fence = open(&old, &key, 1, None).await.unwrap();
        let before = totals(&new).await;
        let tx = old
            .build_transaction()
            .isolation_level(level)
            .start()
            .await
            .unwrap();
        // The snapshot is taken here, before the takeover.
        tx.execute("INSERT INTO totals VALUES (1000)", &[])
            .await
            .unwrap();
        open(&new, &key, 2, None).await.unwrap();
        let refused = old_fence.save(&tx, 1, None).await;
        assert!(refused.is_err(), "{level:?} let a stale holder pass");
        assert!(
            tx.commit().await.is_ok(),
            "COMMIT of a failed transaction is a rollback"
        );
        assert_eq!(totals(&new).await, before, "{level:?}");
    }
}

async fn checkpoint_never_moves_back_and_bound_never_rises(server: &pg::Server) {
    let client = business(server).await;
    let key = "bounds";
    let bound = async |token, given| {
        open(&client, key, token, given)
            .await
            .unwrap()
            .opened()
            .upper_bound
    };
    assert_eq!(bound(1, None).await, None);
    assert_eq!(bound(2, Some(100)).await, Some(100));
    assert_eq!(bound(3, Some(120)).await, Some(100));
    assert_eq!(bound(4, Some(60)).await, Some(60));
    let fence = open(&client, key, 5, None).await.unwrap();
    fence.save(&client, 10, None).await.unwrap();
    let reason = |outcome: Result<(), Error>| outcome.unwrap_err().refused().unwrap().reason;
    fence.check(&client).await.unwrap();
    for not_forward in [10, 9] {
        let outcome = fence.save(&client, not_forward, None).await;
        assert_eq!(reason(outcome), Reason::NotForward);
    }
    assert_eq!(
        reason(fence.save(&client, 61, None).await),
        Reason::BeyondBound
    );
    let raised = "UPDATE sichen_fence SET upper_bound = 999 WHERE fence_key = 'bounds'";
    let error = client.execute(raised, &[]).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "SC005");
}

async fn dedupe_counts_hits(server: &pg::Server) {
    let mut client = business(server).await;
    assert_eq!(dedupe(&client, "job", "day", "item").await.unwrap(), 0);
    assert_eq!(dedupe(&client, "job", "day", "item").await.unwrap(), 1);
    let tx = client.transaction().await.unwrap();
    assert_eq!(dedupe(&tx, "job", "day", "undone").await.unwrap(), 0);
    tx.rollback().await.unwrap();
    assert_eq!(dedupe(&client, "job", "day", "undone").await.unwrap(), 0);
}

async fn claims_skip_what_another_transaction_is_taking(server: &pg::Server) {
    let (mut one, two) = (business(server).await, business(server).await);
    let sql = Claim {
        table: "city",
        id: "id",
        ready: "state = 'new'",
        finish: "state = 'done'",
    }
    .sql(Dialect::Postgres);
    let schema = "CREATE TABLE city (id bigint PRIMARY KEY, state text NOT NULL DEFAULT 'new');
                  INSERT INTO city SELECT generate_series(1, 4)";
    two.batch_execute(schema).await.unwrap();
    for column in &sql.columns {
        two.batch_execute(column).await.unwrap();
    }
    let ids = |rows: Vec<tokio_postgres::Row>| {
        let mut ids = rows
            .iter()
            .map(|row| row.get::<_, i64>(0))
            .collect::<Vec<_>>();
        ids.sort_unstable();
        ids
    };
    let tx = one.transaction().await.unwrap();
    let first = tx
        .query(&sql.take, &[&"a", &1_i64, &60_000_i64, &2_i64])
        .await
        .unwrap();
    assert_eq!(ids(first), [1, 2]);
    two.batch_execute("SET lock_timeout = '2s'").await.unwrap();
    let other = two
        .query(&sql.take, &[&"b", &2_i64, &60_000_i64, &9_i64])
        .await
        .unwrap();
    assert_eq!(
        ids(other),
        [3, 4],
        "rows locked by an open transaction are passed over"
    );
    tx.commit().await.unwrap();
    let next = two
        .query(&sql.take, &[&"a", &3_i64, &60_000_i64, &9_i64])
        .await
        .unwrap();
    assert_eq!(
        ids(next),
        [1, 2],
        "the next attempt does not wait for the lease"
    );
    assert_eq!(
        one.execute(&sql.done, &[&"a", &1_i64, &1_i64])
            .await
            .unwrap(),
        0
    );
    assert_eq!(
        two.execute(&sql.done, &[&"a", &3_i64, &1_i64])
            .await
            .unwrap(),
        1
    );
    assert_eq!(
        ids(two.query(&sql.held, &[&"a", &3_i64]).await.unwrap()),
        [2]
    );
    assert_eq!(two.execute(&sql.release, &[&"a", &3_i64]).await.unwrap(), 2);
}

async fn installing_at_once_from_several_workers_is_harmless(server: &pg::Server) {
    let admin = server.connect().await;
    admin.batch_execute("CREATE SCHEMA fresh").await.unwrap();
    let mut workers = Vec::new();
    for _ in 0..4 {
        let client = server.connect().await;
        client
            .batch_execute("SET search_path = fresh")
            .await
            .unwrap();
        workers.push(tokio::spawn(async move { install(&client).await }));
    }
    for worker in workers {
        worker.await.unwrap().unwrap();
    }
}

async fn check_fails_where_the_kit_does_not_refuse(server: &pg::Server) {
    let mut client = server.connect().await;
    client
        .batch_execute("CREATE SCHEMA broken; SET search_path = broken")
        .await
        .unwrap();
    install(&client).await.unwrap();
    client
        .batch_execute(
            "CREATE OR REPLACE FUNCTION sichen_fence_save(p_key text, p_token bigint,
               p_checkpoint bigint, p_payload text DEFAULT NULL) RETURNS void LANGUAGE sql
             AS 'UPDATE sichen_fence SET checkpoint = p_checkpoint WHERE fence_key = p_key'",
        )
        .await
        .unwrap();
    let seen = check(&mut client).await.unwrap();
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
