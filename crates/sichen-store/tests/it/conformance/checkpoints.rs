//! Checkpoints and progress.

use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{RunId, SessionId, ShardKey, Token};
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::{Progress, Shard};
use sichen_core::port::{CheckpointVerdict, Fence, SaveCheckpoint};

use crate::bench::{Bench, wait};

fn save(b: &Bench, item: SaveCheckpoint) -> CheckpointVerdict {
    wait(b.store.save_checkpoints(b.op(), vec![item])).remove(0)
}

fn held(b: &Bench) -> (Fence, SessionId, Shard) {
    let (pool, session) = (b.pool(), b.session(9));
    let shard = b.lease(&pool, ShardKey::new(b.run_of(1), 0), session).shard;
    (pool, session, shard)
}

pub fn a_checkpoint_is_handed_to_the_next_attempt(b: &Bench) {
    let (pool, session, shard) = held(b);
    let first = b.checkpoint(&shard, 3);
    assert_eq!(save(b, first.clone()), CheckpointVerdict::Saved);
    let row = b.shard(shard.key);
    assert_eq!(
        (Some(&row.checkpoint), &row.progress),
        (first.checkpoint.as_ref(), &first.progress)
    );
    assert_eq!((row.ver, row.token), (3, shard.token));
    b.finish(b.report(shard.key, shard.token, Ending::Failed));
    b.pass(10);
    let next = b.lease(&pool, shard.key, session).shard;
    assert_eq!(Some(next.checkpoint), first.checkpoint);
    let granted = b
        .dump()
        .events
        .into_iter()
        .rfind(|e| e.kind == Kind::AttemptGranted)
        .unwrap();
    let data: serde_json::Value = serde_json::from_str(&granted.data).unwrap();
    assert_eq!(data["checkpoint_seq"], 3);
}

/// The log keeps each of them: a position of 64 KiB a second would fill it.
pub fn a_long_position_is_whole_in_its_row_and_cut_in_the_log(b: &Bench) {
    let (_, _, shard) = held(b);
    let mut item = b.checkpoint(&shard, 3);
    let position = format!("a{}", "\u{4efb}".repeat(20_000));
    if let Some(checkpoint) = &mut item.checkpoint {
        checkpoint.position.clone_from(&position);
    }
    assert_eq!(save(b, item), CheckpointVerdict::Saved);
    assert_eq!(b.shard(shard.key).checkpoint.position, position);
    let mut saved = b.dump().events.into_iter();
    let saved = saved.rfind(|e| e.kind == Kind::CheckpointSaved).unwrap();
    let data: serde_json::Value = serde_json::from_str(&saved.data).unwrap();
    let told = data["position"].as_str().unwrap();
    assert!(position.starts_with(told));
    assert_eq!((told.len(), data["bytes"].as_u64()), (256, Some(60_001)));
}

pub fn a_checkpoint_never_moves_back(b: &Bench) {
    let (_, _, shard) = held(b);
    assert_eq!(save(b, b.checkpoint(&shard, 5)), CheckpointVerdict::Saved);
    let before = b.dump();
    for seq in [5, 4, 0] {
        assert_eq!(
            save(b, b.checkpoint(&shard, seq)),
            CheckpointVerdict::Old,
            "{seq}"
        );
    }
    assert_eq!(b.dump(), before);
    assert_eq!(save(b, b.checkpoint(&shard, 6)), CheckpointVerdict::Saved);
}

pub fn a_checkpoint_under_an_old_token_is_refused(b: &Bench) {
    let (pool, session, old) = held(b);
    b.finish(b.report(old.key, old.token, Ending::Released));
    let current = old.token;
    let refused = CheckpointVerdict::Stale { current };
    assert_eq!(
        save(b, b.checkpoint(&old, 1)),
        refused,
        "its attempt has ended"
    );
    let current = b.lease(&pool, old.key, session).shard.token;
    assert_eq!(
        save(b, b.checkpoint(&old, 1)),
        CheckpointVerdict::Stale { current }
    );
    let newer = SaveCheckpoint {
        token: Token(current.0 + 1),
        ..b.checkpoint(&old, 1)
    };
    assert_eq!(save(b, newer), CheckpointVerdict::Stale { current });
    assert_eq!(b.shard(old.key).checkpoint.seq, 0);
    let events = b.dump().events.into_iter();
    let causes: Vec<String> = events
        .filter(|e| e.entity == Entity::Shard(old.key) && e.kind == Kind::ReportRefused)
        .map(|e| e.cause)
        .collect();
    assert_eq!(causes, ["stale", "stale", "lost_tail"]);
    let unknown = SaveCheckpoint {
        key: ShardKey::new(RunId(987_654), 0),
        ..b.checkpoint(&old, 1)
    };
    assert_eq!(
        save(b, unknown),
        CheckpointVerdict::Stale { current: Token(0) }
    );
}

pub fn a_checkpoint_under_an_expired_session_is_refused(b: &Bench) {
    let (_, session, shard) = held(b);
    b.pass(14);
    assert_eq!(save(b, b.checkpoint(&shard, 1)), CheckpointVerdict::Saved);
    b.pass(1);
    assert_eq!(
        save(b, b.checkpoint(&shard, 2)),
        CheckpointVerdict::SessionOver
    );
    let progress = SaveCheckpoint {
        checkpoint: None,
        ..b.checkpoint(&shard, 2)
    };
    assert_eq!(
        save(b, progress),
        CheckpointVerdict::SessionOver,
        "progress alone, too"
    );
    assert_eq!(b.shard(shard.key).checkpoint.seq, 1);
    let last = b.dump().events.pop().unwrap();
    assert_eq!(
        (last.kind, last.cause.as_str()),
        (Kind::ReportRefused, "session_over")
    );
    assert_eq!(b.shard(shard.key).session, Some(session));
}

pub fn a_checkpoint_by_another_session_is_refused(b: &Bench) {
    let (_, _, shard) = held(b);
    let other = SaveCheckpoint {
        session: b.session(1),
        ..b.checkpoint(&shard, 1)
    };
    assert_eq!(save(b, other), CheckpointVerdict::SessionOver);
    assert_eq!(b.shard(shard.key).checkpoint.seq, 0);
}

pub fn progress_alone_is_no_new_version(b: &Bench) {
    let (_, _, shard) = held(b);
    let progress = Progress {
        done: 9,
        waiting_on: "api".to_owned(),
        ..Progress::default()
    };
    let item = SaveCheckpoint {
        checkpoint: None,
        progress: progress.clone(),
        ..b.checkpoint(&shard, 1)
    };
    let events = b.dump().events.len();
    assert_eq!(save(b, item), CheckpointVerdict::Saved);
    let row = b.shard(shard.key);
    assert_eq!(
        (row.progress, row.ver, row.checkpoint.seq),
        (progress, shard.ver, 0)
    );
    assert_eq!(b.dump().events.len(), events);
}

pub fn one_bad_checkpoint_spares_its_neighbours(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let run = b.run_of(2);
    let shards: Vec<Shard> = (0..2)
        .map(|no| b.lease(&pool, ShardKey::new(run, no), session).shard)
        .collect();
    let batch = vec![
        b.checkpoint(&shards[0], 2),
        SaveCheckpoint {
            token: Token(99),
            ..b.checkpoint(&shards[1], 1)
        },
        b.checkpoint(&shards[0], 1),
        SaveCheckpoint {
            session: SessionId(987_654),
            ..b.checkpoint(&shards[1], 1)
        },
        b.checkpoint(&shards[1], 7),
    ];
    let verdicts = wait(b.store.save_checkpoints(b.op(), batch));
    use CheckpointVerdict::{Old, Saved, SessionOver, Stale};
    assert_eq!(
        verdicts,
        [
            Saved,
            Stale {
                current: shards[1].token
            },
            Old,
            SessionOver,
            Saved
        ]
    );
    assert_eq!(b.shard(shards[1].key).checkpoint.seq, 7);
}
