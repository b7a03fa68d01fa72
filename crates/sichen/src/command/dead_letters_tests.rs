//! Claims about the plan of a bulk retry and its verdicts.

use sichen_server::rest::wire::{Failure as LastFailure, Part, Progress, Shard};

use super::*;

/// A dead letter of a run with three failed and two cancelled shards.
fn letter(run: u64, no: i32, code: &str) -> DeadLetter {
    let shard = Shard {
        run,
        no,
        part: Part::Whole,
        state: "failed".to_owned(),
        token: 1,
        attempt: 1,
        takeovers: 0,
        ready_at: String::new(),
        session: None,
        timeout_at: None,
        checkpoint: None,
        progress: Progress {
            done: 0,
            expected: None,
            rate_milli: 0,
            waiting_on: String::new(),
        },
        failure: Some(LastFailure {
            code: code.to_owned(),
            message: String::new(),
        }),
        started_at: None,
        ended_at: None,
        discarded_at: None,
    };
    DeadLetter {
        run,
        key: format!("job:manual:{run}"),
        namespace: "default".to_owned(),
        job: "job".to_owned(),
        run_state: "failed".to_owned(),
        run_failed: 3,
        run_cancelled: 2,
        shard,
    }
}

fn plan(letters: &[DeadLetter], by_code: bool, limit: usize) -> Plan {
    let mut plan = Plan::default();
    for letter in letters {
        if !plan.add(letter, by_code, limit) {
            break;
        }
    }
    plan
}

fn verdicts(plan: &Plan) -> Vec<Verdict> {
    plan.items.iter().map(|item| item.verdict).collect()
}

#[test]
fn a_whole_run_is_retried_once_with_what_its_failure_cancelled() {
    let letters: Vec<_> = (0..3).map(|no| letter(7, no, "exit-1")).collect();
    let plan = plan(&letters, false, 10);
    let [item] = plan.items.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!((item.failed, item.cancelled, item.left), (3, 2, 0));
    assert_eq!(item.shards, None);
    assert_eq!(item.codes["exit-1"], 3);
}

#[test]
fn by_code_only_the_listed_shards_are_retried_and_no_more_than_one_request_takes() {
    let plan_of_two = plan(&[letter(7, 0, "x"), letter(7, 2, "x")], true, 10);
    let item = &plan_of_two.items[0];
    assert_eq!(item.shards, Some(vec![0, 2]));
    assert_eq!((item.failed, item.cancelled, item.left), (2, 0, 3));

    let many: Vec<_> = (0..600).map(|no| letter(7, no, "x")).collect();
    let item = &plan(&many, true, 10).items[0];
    assert_eq!(item.shards.as_ref().map(Vec::len), Some(MAX_BATCH));
}

#[test]
fn the_limit_counts_runs_and_what_it_left_out_is_said() {
    let letters = [letter(9, 0, "x"), letter(9, 1, "x"), letter(8, 0, "x")];
    let cut = plan(&letters, false, 1);
    assert_eq!((cut.items.len(), cut.more), (1, true));
    let all = plan(&letters, false, 2);
    assert_eq!((all.items.len(), all.more), (2, false));
}

#[tokio::test]
async fn a_run_that_cant_be_retried_stops_no_other_and_the_exit_code_is_its() {
    let letters = [letter(9, 0, "x"), letter(8, 0, "x"), letter(7, 0, "x")];
    let mut plan = plan(&letters, false, 10);
    let exit = carry_out(
        &mut plan.items,
        Verdict::Retried,
        async |run, _| match run {
            8 => Err(Failure::new(Exit::Refused, "SC5012: run 8 has not ended")),
            _ => Ok(()),
        },
    )
    .await;
    assert_eq!(exit, Some(Exit::Refused));
    let wanted = [Verdict::Retried, Verdict::Refused, Verdict::Retried];
    assert_eq!(verdicts(&plan), wanted);
    let shown = planned(&plan);
    assert!(shown.contains("refused: SC5012"), "{shown}");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_not_asked_again() {
    let letters = [letter(9, 0, "x"), letter(8, 0, "x"), letter(7, 0, "x")];
    let mut plan = plan(&letters, false, 10);
    let exit = carry_out(
        &mut plan.items,
        Verdict::Retried,
        async |run, _| match run {
            9 => Ok(()),
            _ => Err(Failure::new(Exit::Unavailable, "SC7003: no answer")),
        },
    )
    .await;
    assert_eq!(exit, Some(Exit::Unavailable));
    let wanted = [Verdict::Retried, Verdict::Failed, Verdict::NotTried];
    assert_eq!(verdicts(&plan), wanted);
}
