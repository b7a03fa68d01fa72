//! Streams kept within their limits, read back as a reader does.

use std::collections::BTreeSet;
use std::ffi::OsString;

use sichen_sdk::output::{AttemptOutput, Piece};

use super::*;

const LIMIT: u64 = 1_000;

struct Kit {
    data: tempfile::TempDir,
    attempts: Arc<Attempts>,
    dir: PathBuf,
}

fn kit(total: u64) -> Kit {
    let data = tempfile::tempdir().unwrap();
    let root = AttemptOutput::of(data.path()).path().to_owned();
    let attempts = Arc::new(Attempts::open(root, 100, total));
    let dir = attempts.begin("1.0.1.1").unwrap().0;
    Kit {
        data,
        attempts,
        dir,
    }
}

impl Kit {
    fn kept(&self) -> Kept {
        Kept::new(
            self.dir.clone(),
            Stream::Stdout,
            LIMIT,
            Arc::clone(&self.attempts),
        )
    }

    fn pieces(&self) -> Vec<Piece> {
        let output = AttemptOutput::of(self.data.path());
        let mut pieces: Vec<Piece> = Vec::new();
        loop {
            let at = pieces.last().map_or(0, Piece::next);
            let piece = output.read(1, 0, 1, Stream::Stdout, at, 10_000);
            let piece = piece.unwrap().unwrap();
            if piece.bytes.is_empty() && piece.skipped == 0 {
                return pieces;
            }
            pieces.push(piece);
        }
    }

    fn on_disk(&self) -> u64 {
        let files = fs::read_dir(&self.dir).unwrap();
        files
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum()
    }
}

/// Byte `n` of the stream, so that what is read back says where it was.
fn stream(from: u64, to: u64) -> Vec<u8> {
    (from..to).map(|n| (n % 251) as u8).collect()
}

fn check_pieces(pieces: &[Piece], seen: u64) -> (u64, u64) {
    let mut skipped = 0;
    for piece in pieces {
        assert_eq!(piece.bytes, stream(piece.offset, piece.next()));
        skipped += piece.skipped;
    }
    assert_eq!(pieces.last().map_or(0, Piece::next), seen);
    (skipped, seen - skipped)
}

#[test]
fn a_short_stream_is_kept_whole_in_one_file() {
    let kit = kit(1 << 30);
    let mut kept = kit.kept();
    kept.add(&stream(0, 300));
    kept.add(&stream(300, 400));
    assert_eq!(kept.end(), 400);
    assert_eq!(
        fs::read(kit.dir.join("stdout.log")).unwrap(),
        stream(0, 400)
    );
}

#[test]
fn head_and_tail_are_kept_whatever_the_rhythm() {
    for (chunk, flush_every, seen) in [
        (1, 1, 5_000),
        (7, 3, 5_001),
        (64, 1, 9_999),
        (999, 2, 7_000),
        (5_000, 1, 50_000),
        (10, 1_000_000, 3_000),
    ] {
        let kit = kit(1 << 30);
        let mut kept = kit.kept();
        let mut at = 0;
        let mut turns = 0;
        while at < seen {
            let to = (at + chunk).min(seen);
            kept.add(&stream(at, to));
            at = to;
            turns += 1;
            if turns % flush_every == 0 {
                kept.flush();
            }
            assert!(kit.on_disk() <= LIMIT, "chunk {chunk}");
        }
        let written = kept.end();
        assert_eq!(written, kit.on_disk(), "chunk {chunk}");
        let pieces = kit.pieces();
        let (skipped, whole) = check_pieces(&pieces, seen);
        assert_eq!(whole, written);
        assert!(skipped > 0 && pieces[0].bytes.len() == 500, "chunk {chunk}");
        let tail: usize = pieces[1..].iter().map(|piece| piece.bytes.len()).sum();
        assert!((250..=500).contains(&tail), "chunk {chunk}: {tail}");
        assert_eq!(pieces.iter().filter(|piece| piece.skipped > 0).count(), 1);
    }
}

#[test]
fn a_reader_follows_a_stream_that_grows() {
    let kit = kit(1 << 30);
    let mut kept = kit.kept();
    let mut last = Vec::new();
    for step in 0..40 {
        kept.add(&stream(step * 100, (step + 1) * 100));
        kept.flush();
        let pieces = kit.pieces();
        check_pieces(&pieces, (step + 1) * 100);
        assert!(!pieces.iter().any(|piece| piece.ended));
        last = pieces;
    }
    assert_eq!(last.last().unwrap().next(), 4_000);
}

#[test]
fn without_room_the_stream_says_how_much_is_missing() {
    let kit = kit(100);
    let mut kept = kit.kept();
    kept.add(&stream(0, 80));
    kept.add(&stream(80, 300));
    kept.flush();
    kept.add(&stream(300, 900));
    assert_eq!(kept.end(), 80);
    let pieces = kit.pieces();
    assert_eq!(check_pieces(&pieces, 900), (820, 80));
}

#[test]
fn room_is_made_from_the_oldest_ended_attempts() {
    let kit = kit(1_000);
    for (name, size) in [("2.0.1.1", 400), ("3.0.1.1", 400)] {
        let dir = kit.attempts.begin(name).unwrap().0;
        fs::write(dir.join("own"), vec![0; size]).unwrap();
        kit.attempts.end(dir, 0);
    }
    let mut kept = kit.kept();
    kept.add(&stream(0, 500));
    let there = |name: &str| kit.dir.parent().unwrap().join(name).exists();
    assert!(!there("2.0.1.1") && there("3.0.1.1") && there("1.0.1.1"));
    assert_eq!(kept.end(), 500);
    kit.attempts.end(kit.dir.clone(), 500);
    // Started anew, the same room is counted.
    let again = Attempts::open(kit.dir.parent().unwrap().to_owned(), 100, 1_000);
    assert!(again.take(100));
    assert!(there("3.0.1.1"));
    assert!(again.take(1));
    assert!(!there("3.0.1.1") || !there("1.0.1.1"));
    let none = Attempts::open(kit.dir.parent().unwrap().to_owned(), 0, 1_000);
    assert!(!there("1.0.1.1") && none.take(1_000) && !none.take(1));
}

#[test]
fn a_disk_that_takes_nothing_costs_only_what_it_did_not_take() {
    let kit = kit(1 << 30);
    let mut kept = kit.kept();
    kept.add(&stream(0, 100));
    // As a full disk would have it: the file is there and takes no more.
    kept.file = File::open("/dev/full").ok();
    kept.add(&stream(100, 200));
    kept.add(&stream(200, 260));
    assert_eq!(kept.end(), 260);
    check_pieces(&kit.pieces(), 260);
}

/// A pipe would be waited for, and a link followed to where this user may write.
#[test]
fn what_a_program_puts_where_its_output_goes_is_put_aside() {
    let names = |kit: &Kit| -> BTreeSet<OsString> {
        let files = fs::read_dir(&kit.dir).unwrap();
        files.map(|file| file.unwrap().file_name()).collect()
    };
    let say = |kept: &mut Kept, n: u64| {
        kept.add(&stream(n * 50, (n + 1) * 50));
        kept.flush();
    };
    // Where the pieces of the end will lie.
    let (kit_before, mut there) = (kit(1_000_000), BTreeSet::new());
    let mut kept = kit_before.kept();
    let at_first = names(&kit_before);
    for n in 0..40 {
        say(&mut kept, n);
        there.append(&mut names(&kit_before));
    }
    kept.end();
    let there: Vec<&OsString> = there.difference(&at_first).collect();
    assert!(there.len() > 3, "{there:?}");

    let kit = kit(1_000_000);
    let elsewhere = kit.data.path().join("elsewhere");
    fs::write(&elsewhere, "kept").unwrap();
    let mut kept = kit.kept();
    for (n, name) in there.into_iter().enumerate() {
        let path = kit.dir.join(name);
        if n % 2 == 0 {
            nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        } else {
            std::os::unix::fs::symlink(&elsewhere, path).unwrap();
        }
    }
    for n in 0..40 {
        say(&mut kept, n);
    }
    kept.end();
    assert_eq!(fs::read(&elsewhere).unwrap(), b"kept");
    let end = kit.pieces().last().map_or(0, Piece::next);
    assert_eq!(end, 2_000);
}
