//! Ended attempts and the room that they take.

use super::*;

fn attempts(keep: usize) -> (tempfile::TempDir, Arc<Attempts>) {
    let data = tempfile::tempdir().unwrap();
    let attempts = Attempts::open(data.path().to_owned(), keep, 1_000);
    (data, Arc::new(attempts))
}

fn write(attempts: &Attempts, name: &str, bytes: usize) -> PathBuf {
    let dir = attempts.begin(name).unwrap().0;
    fs::write(dir.join("own"), vec![0; bytes]).unwrap();
    dir
}

/// Whoever holds the lock may be at the disk for long.
#[test]
fn the_end_of_an_attempt_waits_neither_for_the_disk_nor_for_another() {
    let (_data, attempts) = attempts(1);
    let endings = Endings::start(Arc::clone(&attempts));
    let (old, new) = (
        write(&attempts, "1.0.1.1", 300),
        write(&attempts, "2.0.1.1", 400),
    );
    let at_the_disk = (attempts.removing(), attempts.room());
    endings.add(old.clone(), 0);
    endings.add(new.clone(), 0);
    assert!(!new.join(RUNNING).exists(), "readers know of it at once");
    drop(at_the_disk);
    while old.exists() || attempts.room().used != 400 {
        std::thread::yield_now();
    }
    assert!(new.exists());
}

#[test]
fn a_stream_that_finds_room_does_not_wait_for_a_removal() {
    let (_data, attempts) = attempts(10);
    let _removing = attempts.removing();
    assert!(attempts.take(900));
}
