//! Nothing that a worker says can keep the store from taking it.

use super::*;

const POISON: &str = "before\0after";

fn failed(message: &str) -> v1::Finish {
    v1::Finish {
        shard: shard_ref(ShardKey::new(sichen_core::ids::RunId(1), 0)),
        token: 1,
        outcome: v1::Outcome::Failed.into(),
        error: Some(v1::AttemptError {
            code: message.to_owned(),
            message: message.to_owned(),
            kind: v1::ErrorKind::Retryable.into(),
        }),
        counters: Some(v1::Counters {
            waiting_on: message.to_owned(),
            ..v1::Counters::default()
        }),
        ..v1::Finish::default()
    }
}

#[test]
fn no_nul_of_an_attempts_end_reaches_the_store() {
    let report = report(failed(POISON)).unwrap();
    let failure = report.failure.unwrap();
    let waiting_on = report.progress.unwrap().waiting_on;
    for text in [failure.code, failure.message, waiting_on] {
        assert_eq!(text, "before\u{fffd}after");
    }
}

#[test]
fn what_stands_for_a_nul_counts_towards_the_limit() {
    let failure = report(failed(&"\0".repeat(5_000)))
        .unwrap()
        .failure
        .unwrap();
    assert_eq!((failure.code.len(), failure.message.len()), (126, 4_095));
}

#[test]
fn a_journal_with_a_nul_does_not_keep_its_worker_out() {
    let finished = v1::journaled_attempt::State::Finished(failed(POISON));
    let hello = hello(v1::Hello {
        worker_name: "w".to_owned(),
        pool: "default".to_owned(),
        journal: vec![v1::JournaledAttempt {
            state: Some(finished),
            ..v1::JournaledAttempt::default()
        }],
        ..v1::Hello::default()
    });
    let journal = hello.unwrap().journal;
    let failure = journal[0].failure.clone().unwrap();
    assert!(!failure.message.contains('\0'));
}

#[test]
fn a_worker_whose_names_have_a_nul_or_no_bound_is_refused() {
    let sound = v1::Hello {
        worker_name: "w".to_owned(),
        pool: "default".to_owned(),
        ..v1::Hello::default()
    };
    assert!(hello(sound.clone()).is_ok());
    let spoil: [fn(&mut v1::Hello); 14] = [
        |h| h.worker_uid = "u".repeat(129),
        |h| h.boot_id = "u".repeat(129),
        |h| h.incarnation = "u".repeat(129),
        |h| h.handlers = vec!["h".repeat(129)],
        |h| h.handlers = (0..1_001).map(|n| format!("h{n}")).collect(),
        |h| {
            let labels = (0..1_001).map(|n| (format!("data-source/{n}"), String::new()));
            h.labels = labels.collect();
        },
        |h| h.worker_uid = POISON.to_owned(),
        |h| h.incarnation = POISON.to_owned(),
        |h| h.handlers = vec![POISON.to_owned()],
        |h| h.labels = [("zone".to_owned(), POISON.to_owned())].into(),
        |h| h.labels = (0..65).map(|n| (format!("l{n}"), String::new())).collect(),
        |h| h.resources = [("CPU".to_owned(), 1_000)].into(),
        |h| h.resources = [("cpu".to_owned(), u64::MAX)].into(),
        |h| {
            drop(
                h.labels
                    .insert(format!("data-source/{POISON}"), String::new()),
            )
        },
    ];
    for spoil in spoil {
        let mut bad = sound.clone();
        spoil(&mut bad);
        assert!(hello(bad).unwrap_err().starts_with("SC4004"));
    }
}

#[test]
fn labels_and_resources_are_an_offer_and_data_sources_are_handlers() {
    let found = hello(v1::Hello {
        worker_name: "w".to_owned(),
        pool: "default".to_owned(),
        labels: [("zone", "a"), ("data-source/ledger", "sqlite")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into(),
        resources: [("gpu/a100".to_owned(), 2_000)].into(),
        ..v1::Hello::default()
    })
    .unwrap();
    assert_eq!(found.handlers, ["data-source/ledger"]);
    assert_eq!(
        found.offer.labels.into_iter().collect::<Vec<_>>(),
        [("zone".to_owned(), "a".to_owned())]
    );
    assert_eq!(found.offer.resources.to_string(), "gpu/a100 2");
}

#[test]
fn a_position_with_a_nul_or_without_bound_is_passed_over() {
    let report = |position: &str| v1::CheckpointReport {
        shard: shard_ref(ShardKey::new(sichen_core::ids::RunId(1), 0)),
        token: 1,
        checkpoint: Some(v1::Checkpoint {
            seq: 1,
            position: position.as_bytes().to_vec(),
            counters: None,
        }),
    };
    assert!(checkpoint(report("id:1"), SessionId(1)).is_some());
    assert!(checkpoint(report(POISON), SessionId(1)).is_none());
    // The SDK keeps to it; who else speaks the protocol must too.
    let longest = "p".repeat(MAX_POSITION_BYTES);
    assert!(checkpoint(report(&longest), SessionId(1)).is_some());
    assert!(checkpoint(report(&format!("{longest}p")), SessionId(1)).is_none());
}
