//! Claims about what passes when beats are lost.

use super::*;

fn message(tag: u8, length: usize) -> Vec<u8> {
    let mut body = vec![7; length];
    body[0] = tag;
    let mut message = vec![0];
    message.extend(u32::try_from(length).unwrap().to_be_bytes());
    message.extend(body);
    message
}

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags, 0, 0, 0, 1]);
    frame.extend(payload);
    frame
}

const FINISH_TAG: u8 = 6 << 3 | 2;

#[test]
fn beats_are_taken_out_and_reports_pass_however_the_bytes_are_cut() {
    let beat = message(BEAT_TAG, 20);
    let finish = message(FINISH_TAG, 30);
    let mut sent = PREFACE.to_vec();
    let mut expected = sent.clone();
    for (one, stays) in [
        (frame(4, 0, &[1, 2, 3]), true),
        (frame(DATA, 0, &beat), false),
        (frame(DATA, 0, &finish), true),
        (
            frame(DATA, 0, &[beat.clone(), beat.clone()].concat()),
            false,
        ),
    ] {
        sent.extend(&one);
        if stays {
            expected.extend(&one);
        }
    }
    sent.extend(frame(DATA, 0, &[beat.clone(), finish.clone()].concat()));
    expected.extend(frame(DATA, 0, &finish));
    for cut in [1, 3, 10, 1_000] {
        let mut beats = Beats::default();
        let mut out = Vec::new();
        for bytes in sent.chunks(cut) {
            out.extend(beats.take(bytes, true).0);
        }
        assert_eq!(out, expected, "cut at {cut}");
    }
    let (out, lost) = Beats::default().take(&sent, false);
    assert_eq!((out, lost), (sent, 0));
}

#[test]
fn the_end_of_a_stream_is_never_taken_out() {
    let beat = message(BEAT_TAG, 20);
    let mut beats = Beats::default();
    beats.take(PREFACE, true);
    let (out, _) = beats.take(&frame(DATA, END_STREAM, &beat), true);
    assert_eq!(out, frame(DATA, END_STREAM, &[]));
}

#[test]
fn what_is_not_understood_passes() {
    let check = |bytes: &[u8]| assert_eq!(Beats::default().take(bytes, true).0, bytes);
    check(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    check(&[0; 100]);
    let mut beats = Beats::default();
    beats.take(PREFACE, true);
    // Half a message, and a padded frame.
    for one in [
        frame(DATA, 0, &message(BEAT_TAG, 20)[..10]),
        frame(DATA, PADDED, &message(BEAT_TAG, 20)),
    ] {
        assert_eq!(beats.take(&one, true).0, one);
    }
}
