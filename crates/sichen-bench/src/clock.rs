//! The one clock of the benchmark: all its processes run on one machine.
//!
//! # Not here
//! The clocks of what is measured.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the clock"
)]
pub fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(i64::MAX)
}

/// Waits until `at_us`.
pub async fn until(at_us: i64) {
    let left = u64::try_from(at_us - now_us()).unwrap_or(0);
    tokio::time::sleep(Duration::from_micros(left)).await;
}

/// `us` microseconds since 1970, as RFC 3339.
#[must_use]
pub fn instant(us: i64) -> String {
    let (seconds, rest) = (us / 1_000_000, us % 1_000_000);
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, date) = civil(day);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}.{rest:06}Z")
}

/// Year, month and day of the `day`-th day since 1970 (proleptic Gregorian calendar).
fn civil(day: i64) -> (i64, i64, i64) {
    let mut year = 1970;
    let mut left = day;
    let leap = |y: i64| (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    while left >= 365 + i64::from(leap(year)) {
        left -= 365 + i64::from(leap(year));
        year += 1;
    }
    let february = 28 + i64::from(leap(year));
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < days {
            break;
        }
        left -= days;
        month += 1;
    }
    (year, month, left + 1)
}
