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
        let parent = id.traceparent(ShardKey::new(RunId(run), 3), Token(9), true);
        prop_assert_eq!(TraceId::parse(&parent), Some(id));
        prop_assert_eq!(parent.len(), 55);
        prop_assert!(parent.ends_with("-01"));
        let quiet = id.traceparent(ShardKey::new(RunId(run), 3), Token(9), false);
        prop_assert_eq!(&quiet[..53], &parent[..53]);
        prop_assert!(quiet.ends_with("-00"));
    }

    #[test]
    fn what_a_smaller_share_keeps_a_larger_keeps_too(run: u64, small in 0.0..=1.0f64, more in 0.0..=1.0f64) {
        let id = TraceId::of(JobUid(Uuid::from_u128(1)), RunId(run));
        let (small, large) = (Ratio::new(small * more).unwrap(), Ratio::new(more).unwrap());
        prop_assert!(!small.takes(id) || large.takes(id));
        prop_assert!(Ratio::ALL.takes(id));
        prop_assert!(!Ratio::new(0.0).unwrap().takes(id));
    }
}

#[test]
fn a_share_of_runs_that_follow_each_other_is_kept() {
    let job = JobUid(Uuid::from_u128(7));
    for (share, least, most) in [(0.5, 480, 520), (0.1, 85, 115), (0.01, 5, 15)] {
        let ratio = Ratio::new(share).unwrap();
        let ids = (1..=1_000).map(|run| TraceId::of(job, RunId(run)));
        let kept = ids.filter(|id| ratio.takes(*id)).count();
        assert!((least..=most).contains(&kept), "{kept} of 1,000 at {share}");
    }
    for wrong in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert_eq!(Ratio::new(wrong), None);
    }
}

#[test]
fn attempts_have_spans_of_their_own() {
    let of = |run, no, token| SpanId::of(ShardKey::new(RunId(run), no), Token(token));
    let spans = [
        of(1, 0, 1),
        of(1, 0, 2),
        of(1, 1, 1),
        of(2, 0, 1),
        of(1, -1, 1),
        SpanId::of_round(RunId(1), 1),
        SpanId::of_round(RunId(1), 2),
        SpanId::of_round(RunId(2), 1),
    ];
    let different: std::collections::BTreeSet<SpanId> = spans.into_iter().collect();
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
