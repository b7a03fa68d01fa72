//! Claims about the journal.

use super::*;

fn lease(token: u64) -> Lease {
    Lease {
        run_id: u64::MAX,
        no: -1,
        token,
    }
}

fn finish(token: u64) -> JournalOp {
    let shard = Some(lease(token).shard());
    JournalOp::Finish(Box::new(v1::Finish {
        shard,
        token,
        result: b"42".to_vec(),
        ..v1::Finish::default()
    }))
}

fn start(token: u64) -> JournalOp {
    JournalOp::Start {
        lease: lease(token),
        handler: "work".into(),
    }
}

#[test]
fn a_reopened_journal_knows_what_ran_and_what_ended() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(dir.path()).unwrap();
    journal.write(&[start(1), start(2), start(3)]).unwrap();
    journal.write(&[finish(2)]).unwrap();
    journal
        .write(&[JournalOp::Forget {
            lease: lease(3),
            why: "accepted",
        }])
        .unwrap();
    drop(journal);
    let mut recovered = Journal::open(dir.path()).unwrap().recover().unwrap();
    recovered.sort_by_key(|entry| matches!(entry, Recovered::Finished(_)));
    assert_eq!(recovered.len(), 2);
    assert!(matches!(&recovered[0], Recovered::RunningDead { lease: l } if *l == lease(1)));
    assert!(matches!(&recovered[1], Recovered::Finished(f) if f.token == 2 && f.result == b"42"));
}

/// Taken for an attempt without a result it would be handed in as dead, and its row be gone.
#[test]
fn a_result_that_can_not_be_read_is_no_death_and_its_row_stays() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(dir.path()).unwrap();
    journal.write(&[start(1), finish(2), finish(3)]).unwrap();
    for (token, bytes) in [(2_i64, vec![0xff_u8; 5]), (3, Vec::new())] {
        let update = "update attempt set finish = ?1 where token = ?2";
        journal.db.execute(update, params![bytes, token]).unwrap();
    }
    let recovered = journal.recover().unwrap();
    assert!(
        matches!(&recovered[..], [Recovered::RunningDead { lease: l }] if *l == lease(1)),
        "{recovered:?}"
    );
    drop(journal);
    let journal = Journal::open(dir.path()).unwrap();
    let count = "select count(*) from attempt where finish is not null";
    let kept: i64 = journal.db.query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 2);
}

#[test]
fn a_full_disk_leaves_the_journal_as_it_was_and_writable_later() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(dir.path()).unwrap();
    journal.write(&[start(1)]).unwrap();
    let pages: i64 = journal
        .db
        .pragma_query_value(None, "page_count", |row| row.get(0))
        .unwrap();
    journal
        .db
        .pragma_update(None, "max_page_count", pages)
        .unwrap();
    let big = |token| {
        let shard = Some(lease(token).shard());
        let result = vec![7; 100_000];
        JournalOp::Finish(Box::new(v1::Finish {
            shard,
            token,
            result,
            ..v1::Finish::default()
        }))
    };
    assert_eq!(journal.write(&[start(2), big(2)]), Err(Fault::Unwritable));
    assert_eq!(
        journal.recover().unwrap().len(),
        1,
        "nothing of the batch is written"
    );
    journal
        .db
        .pragma_update(None, "max_page_count", 1_000_000)
        .unwrap();
    assert_eq!(journal.write(&[]), Ok(()));
    assert_eq!(journal.write(&[big(2)]), Ok(()));
}

#[test]
fn a_directory_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = crate::datadir::DataDir::open(dir.path()).unwrap();
    let uid = first.uid().to_owned();
    assert!(matches!(
        crate::datadir::DataDir::open(dir.path()),
        Err(crate::datadir::Error::InUse(_))
    ));
    drop(first);
    assert_eq!(
        crate::datadir::DataDir::open(dir.path()).unwrap().uid(),
        uid
    );
}

mod fuzz {
    use prost::Message as _;

    use super::*;

    /// A row that is damaged is an error that says so, never another attempt's result.
    #[test]
    fn journal() {
        let JournalOp::Finish(finish) = finish(7) else {
            unreachable!()
        };
        sichen_fuzz::fuzz(
            "journal",
            &["42"],
            &[finish.encode_to_vec()],
            |bytes| match read_finish(lease(7), bytes) {
                Ok(finish) => {
                    assert_eq!(Lease::from_wire(finish.shard, finish.token), Some(lease(7)));
                    "good".to_owned()
                }
                Err(error) => error,
            },
        );
    }
}
