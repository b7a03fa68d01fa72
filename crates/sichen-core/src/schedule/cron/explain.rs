//! An expression in words.
//!
//! The words are made from the parsed sets, not from the text: they say what will happen, not what
//! was typed.
//!
//! # Not here
//! Reading words: an expression is never made from them.

use super::parse::Body;
use super::pattern::{DayRule, Pattern};
use super::{Class, Cron, Fold, Gap};

/// A language that expressions are explained in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    English,
    Chinese,
}

/// Times of day listed one by one; more are described field by field.
const LISTED_TIMES: u64 = 6;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [(&str, &str); 7] = [
    ("Sunday", "周日"),
    ("Monday", "周一"),
    ("Tuesday", "周二"),
    ("Wednesday", "周三"),
    ("Thursday", "周四"),
    ("Friday", "周五"),
    ("Saturday", "周六"),
];
const NTH: [(&str, &str); 5] = [
    ("first", "第一个"),
    ("second", "第二个"),
    ("third", "第三个"),
    ("fourth", "第四个"),
    ("fifth", "第五个"),
];

impl Cron {
    /// What the expression means, and what it does when the clock changes.
    pub fn explain(&self, language: Language) -> String {
        let words = Words { language };
        let pattern = match &self.body {
            Body::Every(period) => return words.every(*period),
            Body::Fields { .. } if self.never => {
                return words
                    .pick("never: no such date exists", "永不触发：不存在这样的日期")
                    .to_owned();
            }
            Body::Fields { pattern, .. } => pattern,
        };
        let parts = [
            words.days(pattern),
            words.months(pattern),
            words.years(pattern),
        ];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        let clock = words.clock(self.class(), self.gap, self.fold);
        match language {
            Language::English => {
                let mut text = words.times(pattern);
                for part in parts {
                    text.push(' ');
                    text.push_str(&part);
                }
                format!("{text}; {clock}")
            }
            Language::Chinese => {
                let parts: Vec<_> = parts.collect();
                let days = parts.iter().rev().map(String::as_str).collect::<String>();
                format!("{days}{}；{clock}", words.times(pattern))
            }
        }
    }
}

/// How a set of numbers is best said.
enum Shape {
    All,
    Step { from: u32, step: u32 },
    Runs(Vec<(u32, u32)>),
}

fn shape(bits: u64, min: u32, max: u32) -> Shape {
    let values: Vec<u32> = (min..=max).filter(|value| bits >> value & 1 == 1).collect();
    if values.len() as u32 == max - min + 1 {
        return Shape::All;
    }
    if let [first, second, .., last] = values[..] {
        let step = second - first;
        let even = values.windows(2).all(|pair| pair[1] - pair[0] == step);
        if step > 1 && even && first < min + step && last + step > max {
            return Shape::Step { from: first, step };
        }
    }
    Shape::Runs(runs_of(values.into_iter()))
}

struct Words {
    language: Language,
}

impl Words {
    fn pick<'a>(&self, english: &'a str, chinese: &'a str) -> &'a str {
        match self.language {
            Language::English => english,
            Language::Chinese => chinese,
        }
    }

    /// "a", "a and b", "a, b and c".
    fn list(&self, items: &[String]) -> String {
        match (self.language, items) {
            (Language::Chinese, _) => items.join("、"),
            (_, [head @ .., last]) if !head.is_empty() => format!("{} and {last}", head.join(", ")),
            _ => items.join(""),
        }
    }

    fn runs(&self, runs: &[(u32, u32)], name: impl Fn(u32) -> String) -> String {
        let items: Vec<_> = runs
            .iter()
            .flat_map(|&(from, to)| match to - from {
                0 => vec![name(from)],
                1 => vec![name(from), name(to)],
                _ => vec![format!(
                    "{}{}{}",
                    name(from),
                    self.pick(" to ", "至"),
                    name(to)
                )],
            })
            .collect();
        self.list(&items)
    }

    fn every(&self, period: i64) -> String {
        let units = [
            (86_400, "d", "天"),
            (3_600, "h", "小时"),
            (60, "m", "分钟"),
            (1, "s", "秒"),
        ];
        let mut rest = period;
        let mut text = String::new();
        for (size, english, chinese) in units {
            if rest >= size {
                text.push_str(&format!("{}{}", rest / size, self.pick(english, chinese)));
                rest %= size;
            }
        }
        match self.language {
            Language::English => format!("every {text} of elapsed time"),
            Language::Chinese => format!("每隔 {text}（按实际流逝时间）"),
        }
    }

    fn times(&self, pattern: &Pattern) -> String {
        if pattern.times_per_day() <= LISTED_TIMES {
            return self.listed_times(pattern);
        }
        let second = match shape(pattern.seconds, 0, 59) {
            Shape::Runs(runs) if runs == [(0, 0)] => None,
            shape => Some(self.unit(shape, ("second", "秒"))),
        };
        let minutes = shape(pattern.minutes, 0, 59);
        let every_minute = matches!(minutes, Shape::All);
        // "every second" says "every minute" too.
        let minute =
            (!(every_minute && second.is_some())).then(|| self.unit(minutes, ("minute", "分钟")));
        let hour = match shape(pattern.hours.into(), 0, 23) {
            Shape::All => None,
            Shape::Step { from, step } => Some(match self.language {
                Language::English => format!("in every {step}th hour from {from:02}:00")
                    .replace(" 2th", " 2nd")
                    .replace(" 3th", " 3rd"),
                Language::Chinese => format!("从 {from:02} 时起每 {step} 小时中"),
            }),
            Shape::Runs(runs) => Some(match self.language {
                Language::English => {
                    let spans: Vec<_> = runs
                        .iter()
                        .map(|(from, to)| format!("from {from:02}:00 to {to:02}:59"))
                        .collect();
                    self.list(&spans)
                }
                Language::Chinese => {
                    format!("{}时内", self.runs(&runs, |hour| format!("{hour:02}")))
                }
            }),
        };
        match self.language {
            Language::English => {
                let parts: Vec<_> = [second, minute, hour].into_iter().flatten().collect();
                parts.join(" ")
            }
            Language::Chinese => {
                let parts: Vec<_> = [hour, minute, second].into_iter().flatten().collect();
                parts.join("")
            }
        }
    }

    fn listed_times(&self, pattern: &Pattern) -> String {
        let mut times = Vec::new();
        for hour in (0..24).filter(|hour| pattern.hours >> hour & 1 == 1) {
            for minute in (0..60).filter(|minute| pattern.minutes >> minute & 1 == 1) {
                for second in (0..60).filter(|second| pattern.seconds >> second & 1 == 1) {
                    times.push(match pattern.seconds {
                        1 => format!("{hour:02}:{minute:02}"),
                        _ => format!("{hour:02}:{minute:02}:{second:02}"),
                    });
                }
            }
        }
        format!("{}{}", self.pick("at ", " "), self.list(&times))
    }

    fn unit(&self, shape: Shape, unit: (&str, &str)) -> String {
        let (english, chinese) = unit;
        match (self.language, shape) {
            (Language::English, Shape::All) => format!("every {english}"),
            (Language::English, Shape::Step { from: 0, step }) => {
                format!("every {step} {english}s")
            }
            (Language::English, Shape::Step { from, step }) => {
                format!("every {step} {english}s from {english} {from}")
            }
            (Language::English, Shape::Runs(runs)) => {
                format!(
                    "at {english} {}",
                    self.runs(&runs, |value| value.to_string())
                )
            }
            (Language::Chinese, Shape::All) => format!("每{chinese}"),
            (Language::Chinese, Shape::Step { from: 0, step }) => format!("每 {step} {chinese}"),
            (Language::Chinese, Shape::Step { from, step }) => format!(
                "从第 {from} {}起每 {step} {chinese}",
                chinese.trim_end_matches('钟')
            ),
            (Language::Chinese, Shape::Runs(runs)) => {
                let chinese = chinese.trim_end_matches('钟');
                format!(
                    "第 {} {chinese}",
                    self.runs(&runs, |value| value.to_string())
                )
            }
        }
    }

    fn days(&self, pattern: &Pattern) -> String {
        let of_month = self.month_days(pattern);
        let of_week = self.week_days(pattern);
        match (of_month, of_week, pattern.day_rule) {
            (None, None, _) => self.pick("every day", "每天").to_owned(),
            (Some(days), None, DayRule::Both) | (None, Some(days), DayRule::Both) => days,
            // One side covers all days, so the other adds nothing.
            (Some(_), None, DayRule::Either) | (None, Some(_), DayRule::Either) => {
                self.pick("every day", "每天").to_owned()
            }
            (Some(month), Some(week), DayRule::Both) => match self.language {
                Language::English => {
                    format!("{month}, if it also is {}", week.trim_start_matches("on "))
                }
                Language::Chinese => format!("{month}且同时为{week}"),
            },
            (Some(month), Some(week), DayRule::Either) => match self.language {
                Language::English => format!("{month}, or {week} (either is enough)"),
                Language::Chinese => format!("{month}或{week}（满足其一即可）"),
            },
        }
    }

    /// `None` for every day.
    fn month_days(&self, pattern: &Pattern) -> Option<String> {
        let set = &pattern.month_days;
        let mut parts = Vec::new();
        match shape(set.days.into(), 1, 31) {
            Shape::All => return None,
            Shape::Step { from, step } => parts.push(match self.language {
                Language::English => format!("every {step} days from day {from} of the month"),
                Language::Chinese => format!("每月从 {from} 日起每 {step} 天"),
            }),
            Shape::Runs(runs) if runs.is_empty() => {}
            Shape::Runs(runs) => {
                let days = self.runs(&runs, |day| day.to_string());
                parts.push(match self.language {
                    Language::English => format!("on day {days} of the month"),
                    Language::Chinese => format!("每月 {days} 日"),
                });
            }
        }
        for back in 0..=30 {
            if set.before_last >> back & 1 == 1 {
                parts.push(match (self.language, back) {
                    (Language::English, 0) => "on the last day of the month".into(),
                    (Language::English, 1) => "on the day before the last of the month".into(),
                    (Language::English, _) => format!("{back} days before the last of the month"),
                    (Language::Chinese, 0) => "每月最后一天".into(),
                    (Language::Chinese, _) => format!("每月最后一天的前 {back} 天"),
                });
            }
            if set.nearest_before_last >> back & 1 == 1 {
                parts.push(match (self.language, back) {
                    (Language::English, 0) => "on the last Monday-to-Friday day of the month".into(),
                    (Language::English, _) => {
                        format!("on the Monday-to-Friday day nearest to {back} days before the last of the month")
                    }
                    (Language::Chinese, 0) => "每月最后一个周一至周五的日子".into(),
                    (Language::Chinese, _) => format!("每月最后一天前 {back} 天最近的周一至周五"),
                });
            }
        }
        for day in (1..=31).filter(|day| set.nearest >> day & 1 == 1) {
            parts.push(match self.language {
                Language::English => {
                    format!("on the Monday-to-Friday day nearest to day {day} of the month")
                }
                Language::Chinese => format!("每月距 {day} 日最近的周一至周五"),
            });
        }
        Some(self.list(&parts))
    }

    fn week_days(&self, pattern: &Pattern) -> Option<String> {
        let set = &pattern.week_days;
        let name = |day: u32| {
            let (english, chinese) = WEEKDAYS[(day % 7) as usize];
            self.pick(english, chinese).to_owned()
        };
        if set.days == 0x7f {
            return None;
        }
        let mut parts = Vec::new();
        // Read from Monday on, so that a weekend is one run.
        let runs = runs_of((1..=7).filter(|day| set.days >> (day % 7) & 1 == 1));
        if !runs.is_empty() {
            let days = self.runs(&runs, name);
            parts.push(match self.language {
                Language::English => format!("on {days}"),
                Language::Chinese => format!("每{days}"),
            });
        }
        for day in 0..7 {
            if set.last >> day & 1 == 1 {
                parts.push(match self.language {
                    Language::English => format!("on the last {} of the month", name(day)),
                    Language::Chinese => format!("每月最后一个{}", name(day)),
                });
            }
            for (nth, (english, chinese)) in NTH.iter().enumerate() {
                if set.nth >> (5 * day + nth as u32) & 1 == 1 {
                    parts.push(match self.language {
                        Language::English => format!("on the {english} {} of the month", name(day)),
                        Language::Chinese => format!("每月{chinese}{}", name(day)),
                    });
                }
            }
        }
        Some(self.list(&parts))
    }

    fn months(&self, pattern: &Pattern) -> String {
        let name = |month: u32| match self.language {
            Language::English => MONTHS[(month - 1) as usize].to_owned(),
            Language::Chinese => month.to_string(),
        };
        let values: Vec<_> = (1..=12)
            .filter(|month| pattern.months >> month & 1 == 1)
            .collect();
        if values.len() == 12 {
            return String::new();
        }
        let runs = self.runs(&runs_of(values.into_iter()), name);
        match self.language {
            Language::English => format!("in {runs}"),
            Language::Chinese => format!("{runs} 月"),
        }
    }

    fn years(&self, pattern: &Pattern) -> String {
        let Some(years) = &pattern.years else {
            return String::new();
        };
        let runs = runs_of((1970..=2099).filter(|year| years.has(i64::from(*year))));
        if runs == [(1970, 2099)] {
            return String::new();
        }
        let years = self.runs(&runs, |year| year.to_string());
        match self.language {
            Language::English => format!("in {years}"),
            Language::Chinese => format!("{years} 年"),
        }
    }

    fn clock(&self, class: Class, gap: Gap, fold: Fold) -> String {
        if class == Class::Interval {
            return self
                .pick(
                    "follows elapsed time: local times that a clock change leaves out are left out, repeated ones count twice",
                    "按实际流逝时间：夏令时跳过的本地时间不触发，重复的本地时间各触发一次",
                )
                .to_owned();
        }
        let gap = match gap {
            Gap::FirstValid => self.pick(
                "runs once at the first instant after it",
                "在其后的第一个时刻触发一次",
            ),
            Gap::Skip => self.pick("does not run", "不触发"),
            Gap::Shift => self.pick("is moved by the length of the change", "顺延跳过的时长"),
        };
        let fold = match fold {
            Fold::First => self.pick("runs in the first pass only", "只在第一遍触发"),
            Fold::Both => self.pick("runs in both passes", "两遍都触发"),
        };
        match self.language {
            Language::English => {
                format!("a time that a clock change leaves out {gap}, a repeated one {fold}")
            }
            Language::Chinese => format!("本地时间被夏令时跳过时{gap}，重复时{fold}"),
        }
    }
}

/// Consecutive numbers as runs, lowest first.
fn runs_of(values: impl Iterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == value => *end = value,
            _ => runs.push((value, value)),
        }
    }
    runs
}
