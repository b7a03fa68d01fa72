//! Exports that nobody meant.

use sichen_check::{Checker, Options, jsonl};

const WORDS: &[&str] = &[
    "\"seq\":",
    "\"ver\":",
    "\"token\":",
    "\"attempt\":",
    "null",
    "\"data\":{}",
    "run_settled",
    "attempt_ended",
    "shard_reopened",
    "succeeded",
    "running",
    "checkpoint_saved",
    "schedule_advanced",
    "\n",
    "duty_acquired",
    "session_registered",
    "backfill_created",
    "user_created",
    "18446744073709551615",
];

/// Lines are refused with their number, or judged, whatever is said in them.
#[test]
fn export() {
    sichen_fuzz::fuzz("export", WORDS, &[], |bytes| {
        let mut checker = Checker::new(Options::default());
        match jsonl::read(bytes, |event| checker.event(&event)) {
            Ok(_) => checker.finish().to_string(),
            Err(error) => error.to_string(),
        }
    });
}
