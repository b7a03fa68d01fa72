//! Claims about trace ids.

use proptest::prelude::*;
use uuid::Uuid;

use super::*;

proptest! {
    #[test]
    fn a_trace_id_leads_back_to_its_run(job: u128, run: u64) {
        let job = JobUid(Uuid::from_u128(job | 1));
        let id = TraceId::of(job, RunId(run));
        prop_assert_eq!(id.run(), RunId(run));
        prop_assert_eq!(TraceId::parse(&id.to_string()), Some(id));
        let parent = id.traceparent(ShardKey::new(RunId(run), 3), Token(9));
        prop_assert_eq!(TraceId::parse(&parent), Some(id));
        prop_assert_eq!(parent.len(), 55);
    }
}

#[test]
fn attempts_have_spans_of_their_own() {
    let of = |run, no, token| span(ShardKey::new(RunId(run), no), Token(token));
    let spans = [
        of(1, 0, 1),
        of(1, 0, 2),
        of(1, 1, 1),
        of(2, 0, 1),
        of(1, -1, 1),
    ];
    let different: std::collections::BTreeSet<u64> = spans.into_iter().collect();
    assert_eq!(different.len(), spans.len());
}

#[test]
fn what_is_no_trace_id_is_none() {
    for text in [
        "",
        "17",
        "0",
        &"0".repeat(32),
        &"g".repeat(32),
        &"a".repeat(31),
        "a-b-c-d",
    ] {
        assert_eq!(TraceId::parse(text), None, "{text}");
    }
}
