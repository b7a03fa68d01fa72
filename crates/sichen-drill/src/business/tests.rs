//! Claims about `business`.

use super::*;

fn occasion(planned_us: i64) -> Occasion {
    Occasion {
        job: "a".to_owned(),
        shard: 0,
        planned_us,
    }
}

fn posted(steps: &[(i64, u32)]) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("business.db");
    create(&path).unwrap();
    let conn = open(&path).unwrap();
    for &(planned, step) in steps {
        post(&conn, Load::Usual, &occasion(planned), step, 1).unwrap();
    }
    (dir, path)
}

#[test]
fn what_was_done_once_has_the_checksum_that_the_plan_has() {
    let (_dir, path) = posted(&[(1, 1), (1, 2), (1, 3), (1, 4)]);
    let compared = compare(&path, Load::Usual, &[occasion(1)], &[occasion(2)]).unwrap();
    assert_eq!(compared.found, compared.expected);
    assert!(doubled(&path).unwrap().is_empty());
}

#[test]
fn a_step_left_out_and_a_step_done_twice_are_named() {
    let (_dir, path) = posted(&[(1, 1), (1, 2), (1, 2), (1, 3)]);
    let compared = compare(&path, Load::Usual, &[occasion(1)], &[]).unwrap();
    assert_ne!(compared.found.checksum, compared.expected.checksum);
    assert_eq!((compared.missing.len(), compared.surplus.len()), (1, 1));
    assert_eq!(doubled(&path).unwrap().len(), 1);
}

#[test]
fn what_nobody_planned_is_surplus() {
    let (_dir, path) = posted(&[(9, 1)]);
    let compared = compare(&path, Load::Usual, &[], &[]).unwrap();
    assert_eq!(compared.surplus.len(), 1);
    assert_ne!(compared.found.checksum, compared.expected.checksum);
}
