//! What a loop makes of a step that comes to no end.

use futures::executor::block_on;

use super::*;

#[test]
fn a_step_that_panics_has_failed_and_ends_no_loop() {
    let step = async {
        // As an assertion about a row would.
        let rows: Vec<u64> = Vec::new();
        Ok(Some(Duration::from_millis(rows[0])))
    };
    match block_on(whole(step)) {
        Err(Stumble::Panicked(why)) => assert!(why.contains("index out of bounds"), "{why}"),
        _ => panic!("the step panicked, and that was not seen"),
    }
}

#[test]
fn a_duty_that_goes_on_failing_alone_keeps_no_dead_workers_session() {
    let lost = Error::Unavailable("temporary file size exceeds its limit (53400)".to_owned());
    for duty in [
        "janitor", "alerts", "backfill", "trigger", "dispatch", "preempt",
    ] {
        assert!(tells_of_outage(duty, &lost, true), "{duty} began to fail");
        assert!(
            !tells_of_outage(duty, &lost, false),
            "{duty} goes on failing"
        );
    }
    for duty in ["coordinate", "reap"] {
        assert!(
            tells_of_outage(duty, &lost, false),
            "{duty} goes on failing"
        );
    }
    let busy = Error::Busy("a row is locked (55P03)".to_owned());
    assert!(!tells_of_outage("reap", &busy, true));
}
