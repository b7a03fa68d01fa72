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
