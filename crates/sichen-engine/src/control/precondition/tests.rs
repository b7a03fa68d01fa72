//! Claims about what a change asks of a job.

use super::*;

const ALL: [Precondition; 3] = [
    Precondition::None,
    Precondition::Missing,
    Precondition::Present,
];

#[test]
fn a_job_that_is_not_there_meets_only_what_does_not_ask_for_it() {
    let name = JobName::new("default", "daily").unwrap();
    let met = ALL.map(|p| p.judge(&name, None).is_ok());
    assert_eq!(met, [true, true, false]);
    let exact = Precondition::Revision(JobUid(uuid::Uuid::nil()), Revision(1));
    let refused = exact.judge(&name, None).unwrap_err().to_string();
    assert!(refused.starts_with("SC5004: "), "{refused}");
}
