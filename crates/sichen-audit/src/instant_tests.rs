//! What documents write as instants and lengths is read as the rest of the project reads it.

use super::{instant, length};

#[test]
fn instants_are_read_as_the_library_reads_them() {
    for text in [
        "2026-08-30T00:00:00+08:00",
        "2026-08-30T00:00:00Z",
        "2026-08-30t23:59:59.25z",
        "2026-08-30 12:30:00-03:30",
        "2024-02-29T12:30:00.000000001+0530",
        "1969-07-20T20:17:40Z",
        "2400-12-31T23:59:59-11",
        "2026-08-30T00:00:00+01:02:03",
    ] {
        let ours = instant(text).map(|at| (at.second, at.nanosecond));
        let theirs: jiff::Timestamp = text.parse().unwrap();
        let floor = theirs.as_nanosecond().div_euclid(1_000_000_000);
        let rest = theirs.as_nanosecond().rem_euclid(1_000_000_000);
        assert_eq!(ours, Some((floor as i64, rest as i64)), "{text}");
    }
    for text in [
        "",
        "2026-08-30",
        "2026-02-30T00:00:00Z",
        "noon",
        "2026-08-30T00:00:00",
    ] {
        assert_eq!(instant(text), None, "{text}");
    }
}

#[test]
fn lengths_are_read_as_documents_write_them() {
    for (text, seconds, rest) in [
        ("20m", 1_200, 0),
        ("1h 30m", 5_400, 0),
        ("1h30m5s", 5_405, 0),
        ("1500ms", 1, 500_000_000),
        ("0s", 0, 0),
    ] {
        let read = length(text).map(|l| (l.second, l.nanosecond));
        assert_eq!(read, Some((seconds, rest)), "{text}");
        // What a document holds is what the library writes.
        let theirs: jiff::SignedDuration = text.parse().unwrap();
        let again = length(&format!("{theirs:#}")).map(|l| (l.second, l.nanosecond));
        assert_eq!(again, read, "{text}");
    }
    for text in ["", "5", "m", "1x", "-5m"] {
        assert_eq!(length(text), None, "{text}");
    }
}
