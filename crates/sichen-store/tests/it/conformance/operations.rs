//! Operations: found when they were committed, never applied twice.

use sichen_core::ids::{OpId, ShardKey};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, StopCause};
use sichen_core::model::DutyKey;
use sichen_core::port::{
    AdvanceVerdict, ApplyVerdict, CheckpointVerdict, CreateVerdict, FinishVerdict, GrantRefused,
    GrantVerdict, ReapVerdict, RequestVerdict,
};
use uuid::Uuid;

use crate::bench::{Bench, wait};

pub fn a_committed_operation_is_found(b: &Bench) {
    let op = b.op();
    assert!(!wait(b.store.find_op(op.id)));
    wait(b.store.apply_job(op.clone(), b.new_job("nightly")));
    assert!(wait(b.store.find_op(op.id)));
    // One whose items were all refused was committed as well.
    let op = b.op();
    let stale = b.new_job("nightly");
    assert_eq!(
        wait(b.store.apply_job(op.clone(), stale)),
        ApplyVerdict::Conflict
    );
    assert!(wait(b.store.find_op(op.id)));
    assert!(!wait(b.store.find_op(OpId(Uuid::max()))));
}

pub fn the_same_operation_again_does_not_apply_twice(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let (op, new) = (b.op(), b.new_job("nightly"));
    let job = new.new_uid;
    assert_eq!(
        wait(b.store.apply_job(op.clone(), new.clone())),
        ApplyVerdict::Created(job)
    );
    assert_eq!(wait(b.store.apply_job(op, new)), ApplyVerdict::Conflict);

    let (op, fences) = (b.op(), vec![b.trigger(job)]);
    b.pass(1);
    let step = b.step(job, b.now());
    let advance = || {
        wait(
            b.store
                .advance_schedules(op.clone(), fences.clone(), vec![step.clone()]),
        )
    };
    assert_eq!(advance(), [AdvanceVerdict::Advanced(vec![])]);
    assert_eq!(advance(), [AdvanceVerdict::Conflict]);

    let (op, new) = (b.op(), b.new_run(job, "key", vec![Descriptor::Index; 2]));
    let create = || wait(b.store.create_runs(op.clone(), vec![], vec![new.clone()])).remove(0);
    let CreateVerdict::Created(run, None) = create() else {
        panic!("not created")
    };
    assert_eq!(create(), CreateVerdict::Exists(run));

    let (op, key) = (b.op(), ShardKey::new(run, 0));
    let grant = b.grant(key, session);
    let lease = || wait(b.store.lease_shards(op.clone(), pool.clone(), vec![grant])).remove(0);
    let GrantVerdict::Granted(granted, _) = lease() else {
        panic!("not granted")
    };
    assert_eq!(lease(), GrantVerdict::Refused(GrantRefused::NotReady));

    let (op, item) = (b.op(), b.checkpoint(&granted.shard, 1));
    let save = || wait(b.store.save_checkpoints(op.clone(), vec![item.clone()])).remove(0);
    assert_eq!(
        (save(), save()),
        (CheckpointVerdict::Saved, CheckpointVerdict::Old)
    );

    // How far it is may be said twice, and is said often: it is not recorded.
    let mut progress = b.checkpoint(&granted.shard, 1);
    progress.checkpoint = None;
    let op = b.op();
    let save = || wait(b.store.save_checkpoints(op.clone(), vec![progress.clone()])).remove(0);
    assert_eq!(
        (save(), save()),
        (CheckpointVerdict::Saved, CheckpointVerdict::Saved)
    );
    assert!(!wait(b.store.find_op(op.id)));

    let (op, report) = (
        b.op(),
        b.report(key, granted.shard.token, Ending::FailedForGood),
    );
    let finish = || wait(b.store.finish_attempts(op.clone(), vec![report.clone()])).remove(0);
    assert_eq!(
        (finish(), finish()),
        (FinishVerdict::Accepted(None), FinishVerdict::Duplicate)
    );

    let key = ShardKey::new(run, 1);
    let token = b.lease(&pool, key, session).shard.token;
    b.pass(15);
    let (op, reap) = (b.op(), b.reaping(key, token));
    let reap = || {
        wait(
            b.store
                .reap_shards(op.clone(), pool.clone(), vec![reap.clone()]),
        )
        .remove(0)
    };
    assert_eq!(
        (reap(), reap()),
        (ReapVerdict::Reaped(None), ReapVerdict::Gone)
    );

    let op = b.op();
    let stop = || {
        wait(
            b.store
                .request_stop(op.clone(), None, run, StopCause::Deadline),
        )
    };
    assert_eq!(stop(), RequestVerdict::Done(Some(RunState::Failed)));
    assert!(matches!(
        stop(),
        RequestVerdict::NotNow(_) | RequestVerdict::Already
    ));

    let op = b.op();
    let reopen = || wait(b.store.reopen_run(op.clone(), run, None, b.now()));
    assert_eq!(reopen(), RequestVerdict::Done(None));
    assert!(matches!(
        reopen(),
        RequestVerdict::NotNow(_) | RequestVerdict::Already
    ));
    assert_eq!(b.run(run).round, 2);

    let op = b.op();
    let end = || {
        wait(
            b.store
                .end_session(op.clone(), None, session, "drained".to_owned()),
        )
    };
    assert_eq!((end(), end()), (true, false));

    let op = b.op();
    let delete = || {
        wait(
            b.store
                .delete_job(op.clone(), job, None, b.get_job(job).ver),
        )
    };
    assert_eq!((delete(), delete()), (true, false));
}

pub fn an_empty_batch_is_no_harm(b: &Bench) {
    let (pool, janitor) = (b.pool(), b.fence(DutyKey::Janitor));
    let before = b.dump();
    assert!(wait(b.store.create_runs(b.op(), vec![], vec![])).is_empty());
    assert!(wait(b.store.advance_schedules(b.op(), vec![], vec![])).is_empty());
    assert!(wait(b.store.lease_shards(b.op(), pool.clone(), vec![])).is_empty());
    assert!(wait(b.store.reap_shards(b.op(), pool, vec![])).is_empty());
    assert!(wait(b.store.finish_attempts(b.op(), vec![])).is_empty());
    assert!(wait(b.store.save_checkpoints(b.op(), vec![])).is_empty());
    assert!(wait(b.store.renew_sessions(vec![], crate::bench::TTL)).is_empty());
    assert!(wait(b.store.get_shards(vec![])).is_empty());
    assert_eq!(
        wait(b.store.remove_history(b.op(), janitor, b.now(), 10)).runs,
        0
    );
    assert_eq!(b.dump(), before);
}
