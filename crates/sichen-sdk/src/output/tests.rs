//! Reading what a runner has kept.

use super::*;

fn kept(pieces: &[(u64, &str)], running: bool) -> (tempfile::TempDir, AttemptOutput) {
    let dir = tempfile::tempdir().unwrap();
    let attempt = dir.path().join("attempts/7.0.2.5");
    fs::create_dir_all(&attempt).unwrap();
    for (offset, text) in pieces {
        fs::write(attempt.join(Stream::Stdout.file_name(*offset)), text).unwrap();
    }
    if running {
        fs::write(attempt.join(RUNNING), "").unwrap();
    }
    let output = AttemptOutput::of(dir.path());
    (dir, output)
}

#[test]
fn a_stream_is_read_over_its_gap_to_the_end() {
    let (_dir, output) = kept(&[(0, "head"), (100, "tail"), (104, "end")], false);
    let (mut at, mut text) = (0, String::new());
    loop {
        let read = output.read(7, 0, 2, Stream::Stdout, at, 3);
        let piece = read.unwrap().unwrap();
        text.push_str(&piece.gap_line().unwrap_or_default());
        text.push_str(str::from_utf8(&piece.bytes).unwrap());
        at = piece.next();
        if piece.bytes.is_empty() {
            assert!(piece.ended);
            break;
        }
    }
    assert_eq!(text, "head\n[96 bytes were not kept]\ntailend");
    assert_eq!(at, 107);
}

#[test]
fn a_running_attempt_has_no_end_yet() {
    let (_dir, output) = kept(&[(0, "head")], true);
    let piece = output.read(7, 0, 2, Stream::Stdout, 4, 10);
    let nothing_yet = Piece {
        offset: 4,
        skipped: 0,
        bytes: Vec::new(),
        ended: false,
    };
    assert_eq!(piece.unwrap(), Some(nothing_yet));
}

#[test]
fn what_is_not_kept_is_told_from_what_is_empty() {
    let (dir, output) = kept(&[], false);
    let piece = output.read(7, 0, 2, Stream::Stderr, 0, 10);
    assert!(piece.unwrap().unwrap().ended);
    assert_eq!(output.read(7, 0, 1, Stream::Stdout, 0, 10).unwrap(), None);
    assert_eq!(output.read(8, 0, 2, Stream::Stdout, 0, 10).unwrap(), None);
    let nobody = AttemptOutput::of(&dir.path().join("none"));
    assert_eq!(nobody.list(7, 0).unwrap(), []);
}

#[test]
fn of_two_attempts_with_one_number_the_newer_is_read() {
    let (dir, output) = kept(&[(0, "old")], false);
    let newer = dir.path().join("attempts/7.0.2.6");
    fs::create_dir_all(&newer).unwrap();
    fs::write(newer.join("stdout.log"), "new").unwrap();
    fs::create_dir_all(dir.path().join("attempts/no key")).unwrap();
    let piece = output.read(7, 0, 2, Stream::Stdout, 0, 10);
    assert_eq!(piece.unwrap().unwrap().bytes, b"new");
    assert_eq!(output.list(7, 0).unwrap().len(), 2);
}
