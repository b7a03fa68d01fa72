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

#[test]
fn what_a_program_has_closed_for_its_own_user_is_opened_and_removed() {
    let (data, attempts) = attempts(1);
    let (old, new) = (
        write(&attempts, "1.0.1.1", 300),
        write(&attempts, "2.0.1.1", 400),
    );
    let closed = old.join("cache/module");
    fs::create_dir_all(&closed).unwrap();
    fs::write(closed.join("file"), "x").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for dir in [&closed, &old.join("cache")] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o500)).unwrap();
    }
    let elsewhere = data.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o500)).unwrap();
    std::os::unix::fs::symlink(&elsewhere, old.join("link")).unwrap();
    // What the removal does first, whoever asks for it: the superuser would need none of it.
    open_up(&old);
    assert_eq!([mode(&closed), mode(&old.join("cache"))], [0o700, 0o700]);
    assert_eq!(mode(&elsewhere), 0o500, "links are not followed");
    attempts.end(old.clone(), 0);
    attempts.end(new.clone(), 0);
    assert!(!old.exists() && new.exists());
}
