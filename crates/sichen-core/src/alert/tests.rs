//! Claims about when a notice goes out, and when none does.

use proptest::prelude::*;

use super::notice::{again, body, summary};
use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn secs(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

fn settings() -> Settings {
    Settings {
        source: "test".to_owned(),
        every: secs(10),
        rules: BTreeMap::new(),
        no_success: Vec::new(),
        silences: Vec::new(),
        receivers: vec!["ops".to_owned()],
        heartbeat: None,
    }
}

fn finding(group: &str, subject: &str) -> Finding {
    Finding {
        rule: Rule::Failures,
        group: group.to_owned(),
        subject: subject.to_owned(),
        cause: "exit-1".to_owned(),
        since: at(0),
    }
}

/// The alerts of a cluster, pass by pass.
struct Story {
    settings: Settings,
    known: BTreeMap<Key, Alert>,
    told: Vec<(i64, What, Key)>,
    dropped: usize,
}

impl Story {
    fn new(settings: Settings) -> Self {
        let (known, told) = Default::default();
        Self {
            settings,
            known,
            told,
            dropped: 0,
        }
    }

    fn pass(&mut self, seconds: i64, findings: &[Finding]) -> Vec<What> {
        self.saw(seconds, findings, true)
    }

    fn saw(&mut self, seconds: i64, findings: &[Finding], whole: bool) -> Vec<What> {
        let known: Vec<Alert> = self.known.values().cloned().collect();
        let findings = findings.to_vec();
        let seen = Seen { findings, whole };
        let step = step(&self.settings, &known, &seen, at(seconds));
        self.dropped += step.dropped.len();
        for alert in step.keep {
            self.known.insert(alert.key(), alert);
        }
        for key in step.forget {
            assert!(self.known.remove(&key).is_some(), "only what is known");
        }
        let told: Vec<What> = step.tell.iter().map(|(what, _)| *what).collect();
        let noted = step.tell.iter().map(|(what, a)| (seconds, *what, a.key()));
        self.told.extend(noted);
        told
    }
}

#[test]
fn a_failure_is_told_once_and_its_end_once() {
    let mut story = Story::new(settings());
    let failing = [finding("exit-#", "nightly")];
    assert_eq!(story.pass(0, &failing), [What::Raised]);
    for second in 1..100 {
        assert_eq!(story.pass(second * 10, &failing), []);
    }
    assert_eq!(story.pass(1_000, &[]), [What::Recovered]);
    assert_eq!(story.pass(1_010, &[]), []);
    // Remembered for as long as it would have been repeated, then forgotten.
    assert_eq!(story.known.len(), 1);
    story.pass(1_000 + 4 * 3_600, &[]);
    assert_eq!(story.known.len(), 0);
}

#[test]
fn what_lasts_is_told_again_at_the_interval() {
    let mut story = Story::new(settings());
    let failing = [finding("exit-#", "nightly")];
    let day: Vec<What> = (0..=24 * 60)
        .flat_map(|m| story.pass(m * 60, &failing))
        .collect();
    assert_eq!(day[0], What::Raised);
    assert_eq!(day[1..], [What::Repeated; 6]);
}

#[test]
fn a_condition_must_hold_and_be_gone_for_as_long_as_is_said() {
    let mut story = Story::new(settings());
    let late = [Finding {
        rule: Rule::Late,
        ..finding("", "")
    }];
    assert_eq!(story.pass(0, &late), []);
    assert_eq!(story.pass(50, &late), []);
    assert_eq!(story.pass(55, &[]), [], "it was none");
    assert_eq!(story.known.len(), 0);
    assert_eq!(story.pass(100, &late), []);
    assert_eq!(story.pass(160, &late), [What::Raised]);
    assert_eq!(story.pass(170, &[]), []);
    assert_eq!(story.pass(200, &late), [], "it never went");
    assert_eq!(story.pass(210, &[]), []);
    assert_eq!(story.pass(260, &[]), []);
    assert_eq!(story.pass(270, &[]), [What::Recovered]);
}

/// 10,000 failures of one cause are one notice, however they come in.
#[test]
fn a_storm_is_one_notice() {
    let mut story = Story::new(settings());
    let job = |i: i64| finding("connection refused: #", &format!("job-{i}"));
    let mut failing = Vec::new();
    for pass in 0..100 {
        failing.extend((pass * 100..pass * 100 + 100).map(job));
        story.pass(pass * 10, &failing);
    }
    assert_eq!(story.told.len(), 1, "{:?}", story.told);
    let alert = story.known.values().next().unwrap();
    assert_eq!((alert.members.len(), alert.more), (MAX_MEMBERS, true));
    assert_eq!(story.pass(1_000, &[]), [What::Recovered]);
}

#[test]
fn another_cause_is_another_alert_and_a_job_that_joins_after_a_calm_is_told() {
    let mut story = Story::new(settings());
    let (a, b) = (finding("one", "a"), finding("one", "b"));
    assert_eq!(story.pass(0, std::slice::from_ref(&a)), [What::Raised]);
    let both = [a.clone(), finding("other", "c")];
    assert_eq!(story.pass(10, &both), [What::Raised]);
    assert_eq!(
        story.pass(300, &[a.clone(), b.clone()]),
        [What::Widened, What::Recovered]
    );
    // One that was there before is nothing new.
    assert_eq!(story.pass(1_000, std::slice::from_ref(&a)), []);
    assert_eq!(story.pass(2_000, &[a, b]), []);
}

#[test]
fn what_outlasts_a_silence_is_told_at_its_end() {
    let mut quiet = settings();
    quiet.silences.push(Silence {
        rule: Some(Rule::Failures),
        subject: Some("nightly".to_owned()),
        until: at(100),
    });
    let mut story = Story::new(quiet);
    let failing = [finding("x", "nightly")];
    assert_eq!(story.pass(0, &failing), []);
    let other = [finding("y", "other"), failing[0].clone()];
    assert_eq!(
        story.pass(50, &other),
        [What::Raised],
        "the other one alone"
    );
    assert_eq!(story.told[0].2.1, "y");
    assert_eq!(story.pass(100, &other), [What::Raised]);
    assert_eq!(story.told[1].2.1, "x");
}

#[test]
fn a_rule_that_is_off_finds_nothing() {
    let mut off = settings();
    let policy = Policy {
        on: false,
        ..Policy::usual(Rule::Failures)
    };
    off.rules.insert(Rule::Failures, policy);
    let mut story = Story::new(off);
    assert_eq!(story.pass(0, &[finding("x", "a")]), []);
    assert_eq!(story.known.len(), 0);
}

#[test]
fn there_are_no_more_alerts_than_the_limit() {
    let mut story = Story::new(settings());
    let many: Vec<Finding> = (0..MAX_ALERTS + 100)
        .map(|i| finding(&format!("group {i}"), "a"))
        .collect();
    story.pass(0, &many);
    assert_eq!(story.known.len(), MAX_ALERTS);
    assert_eq!(story.told.len(), MAX_ALERTS);
    assert_eq!(story.dropped, 100, "and it is said");
    // Another rule has its own room.
    let mut more = many.clone();
    more.push(Finding {
        rule: Rule::ClockStep,
        ..finding("", "")
    });
    assert_eq!(story.pass(10, &more), [What::Raised]);
    // What is over makes room for what is.
    let others: Vec<Finding> = (0..10)
        .map(|i| finding(&format!("other {i}"), "a"))
        .collect();
    story.pass(20, &many[..MAX_ALERTS - 20]);
    let (told, dropped) = (story.told.len(), story.dropped);
    let mut now = many[..MAX_ALERTS - 20].to_vec();
    now.extend(others);
    assert_eq!(story.pass(30, &now), [What::Raised; 10]);
    assert_eq!((story.told.len(), story.dropped), (told + 10, dropped));
    let failures = story.known.keys().filter(|key| key.0 == Rule::Failures);
    assert_eq!(failures.count(), MAX_ALERTS);
}

/// An alert that never closes still hears of who joins it, when those that it names are well.
#[test]
fn who_is_well_makes_room_for_who_is_not() {
    let mut story = Story::new(settings());
    let job = |i: usize| finding("x", &format!("job-{i:03}"));
    let first: Vec<Finding> = (0..MAX_MEMBERS + 5).map(job).collect();
    assert_eq!(story.pass(0, &first), [What::Raised]);
    let alert = |story: &Story| story.known.values().next().unwrap().clone();
    assert!(alert(&story).more);
    assert_eq!(story.pass(10, &first[..3]), []);
    assert!(!alert(&story).more, "all of it is named by now");
    let joined = [job(0), job(900)];
    assert_eq!(story.pass(1_000, &joined), [What::Widened]);
    let now = alert(&story);
    assert_eq!(now.members.len(), MAX_MEMBERS);
    assert!(now.members["job-900"].active && now.members["job-000"].active);
}

/// Not all jobs could be looked at: those that the alert does not name may still fail.
#[test]
fn what_was_not_all_looked_at_is_not_over() {
    let mut story = Story::new(settings());
    let job = |i: usize| finding("x", &format!("job-{i:03}"));
    let all: Vec<Finding> = (0..MAX_MEMBERS + 5).map(job).collect();
    assert_eq!(story.saw(0, &all, false), [What::Raised]);
    assert_eq!(story.saw(10, &[], false), []);
    assert_eq!(story.saw(20, &[], true), [What::Recovered]);
}

#[test]
fn a_rule_that_was_turned_off_says_no_more() {
    let mut story = Story::new(settings());
    assert_eq!(story.pass(0, &[finding("x", "a")]), [What::Raised]);
    let off = Policy {
        on: false,
        ..Policy::usual(Rule::Failures)
    };
    story.settings.rules.insert(Rule::Failures, off);
    assert_eq!(story.pass(10, &[finding("x", "a")]), []);
    assert_eq!(story.known.len(), 0);
}

/// Of an alert of two jobs one is silenced: the other's end is told, and the first comes as new.
#[test]
fn a_silenced_subject_takes_no_part_and_joins_as_new() {
    let mut story = Story::new(settings());
    story.settings.silences.push(Silence {
        rule: None,
        subject: Some("noisy".to_owned()),
        until: at(1_000),
    });
    let (noisy, other) = (finding("x", "noisy"), finding("x", "other"));
    let both = [noisy.clone(), other.clone()];
    assert_eq!(story.pass(0, &both), [What::Raised]);
    let members = |story: &Story| {
        let alert = story.known.values().next().unwrap();
        alert.members.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(members(&story), ["other"]);
    assert_eq!(story.pass(500, &both), []);
    assert_eq!(story.pass(1_000, &both), [What::Widened]);
    assert_eq!(members(&story), ["noisy", "other"]);
    // Silenced again, by a new file: the other's end is its own.
    story.settings.silences[0].until = at(3_000);
    assert_eq!(story.pass(2_000, &both), []);
    assert_eq!(story.pass(2_010, &[noisy]), [What::Recovered]);
}

#[test]
fn a_notice_is_given_up_after_about_a_day() {
    let (mut tries, mut now) = (0, at(0));
    while let Some(next) = again(tries + 1, now) {
        assert!(next > now);
        (tries, now) = (tries + 1, next);
    }
    let hours = now.duration_since(at(0)).as_hours();
    assert!((20..=26).contains(&hours), "{hours} h in {tries} tries");
}

#[test]
fn a_notice_says_what_of_whom_and_what_to_do() {
    let mut story = Story::new(settings());
    let names = ["a", "b", "c", "d", "e"];
    let failing: Vec<Finding> = names.iter().map(|name| finding("x", name)).collect();
    story.pass(0, &failing);
    let alert = story.known.values().next().unwrap();
    let said = summary(What::Raised, alert);
    assert_eq!(said, "runs failed: a, b, c and 2 others (exit-1)");
    let body = body(uuid::Uuid::from_u128(7), "prod", What::Raised, alert, at(5));
    assert_eq!(body["id"], "00000000-0000-0000-0000-000000000007");
    assert_eq!(body["event"], "raised");
    assert_eq!(body["rule"], "failures");
    assert_eq!(body["count"], 5);
    assert_eq!(body["subjects"][0]["cause"], "exit-1");
    assert_eq!(body["what_to_do"], "sichen dead-letters");
}

#[test]
fn it_is_looked_back_over_looks_that_failed() {
    assert_eq!(judge::look_back(secs(10)), secs(900));
    assert_eq!(judge::look_back(secs(600)), secs(1_800));
}

#[test]
fn causes_that_differ_by_numbers_are_one() {
    let one = judge::group("exit-1: no route to 10.0.0.17:5432\nmore");
    assert_eq!(one, judge::group("exit-255: no route to 10.1.200.3:6432"));
    assert_ne!(one, judge::group("exit-1: disk full"));
    let of = |id: &str| judge::group(&format!("no row {id}, giving up"));
    let uuid = of("0b54a3de-1f1c-4a52-9cde-a7b0c4d5e6f7");
    assert_eq!(uuid, "no row #, giving up");
    assert_eq!(uuid, of("ffffffff-eeee-dddd-cccc-bbbbbbbbbbbb"));
    assert_eq!(uuid, of("deadbeefcafe"));
    assert_eq!(uuid, of("7fffdead"));
    assert_eq!(of("facade"), "no row facade, giving up");
    assert_eq!(of("deadbeef-"), "no row #-, giving up");
    assert!(judge::group(&"数".repeat(1_000)).len() <= 120);
}

/// Who is told of what, and when, over two days of one job that fails and does not, as chance will.
fn lived(story: &mut Story, ticks: &[(i64, bool)]) -> i64 {
    let mut now = 0;
    for (wait, fails) in ticks {
        now += wait;
        let found = [finding("x", "nightly")];
        story.pass(now, if *fails { &found } else { &[] });
    }
    now
}

proptest! {
    /// Raised and recovered take turns; nothing is told in silence; the last word is that it is over.
    #[test]
    fn each_raise_has_one_end(
        ticks in prop::collection::vec((1i64..900, any::<bool>()), 1..200),
        hold in 0i64..300,
        clear in 0i64..300,
        silence in (0i64..20_000, 0i64..20_000),
    ) {
        let mut settings = settings();
        let usual = Policy::usual(Rule::Failures);
        let policy = Policy { hold: secs(hold), clear: secs(clear), ..usual };
        settings.rules.insert(Rule::Failures, policy);
        let mut story = Story::new(settings);
        let (from, length) = silence;
        let mut now = 0;
        for (wait, fails) in &ticks {
            now += wait;
            let silent = (from..from + length).contains(&now);
            story.settings.silences.clear();
            if silent {
                let all = Silence { rule: None, subject: None, until: at(now + 1) };
                story.settings.silences.push(all);
            }
            let found = [finding("x", "nightly")];
            let told = story.pass(now, if *fails { &found } else { &[] });
            prop_assert!(!silent || told.is_empty(), "told in silence: {:?}", told);
        }
        story.settings.silences.clear();
        // It is well for good.
        for _ in 0..200 {
            now += 600;
            story.pass(now, &[]);
        }
        prop_assert!(story.known.is_empty());
        let mut open = false;
        for (_, what, _) in &story.told {
            match what {
                What::Raised => prop_assert!(!std::mem::replace(&mut open, true)),
                What::Recovered => prop_assert!(std::mem::replace(&mut open, false)),
                What::Repeated => prop_assert!(open),
                What::Widened => prop_assert!(false, "nobody joined"),
            }
        }
        prop_assert!(!open, "its end was told");
    }

    /// However it comes and goes, two days of it are few notices.
    #[test]
    fn flapping_is_few_notices(seed in prop::collection::vec((1i64..600, any::<bool>()), 1..50)) {
        let mut story = Story::new(settings());
        let ticks: Vec<(i64, bool)> = seed.iter().copied().cycle().take(4_000).collect();
        let now = lived(&mut story, &ticks);
        // Nine doublings from a minute to four hours, each with an end; from then on each four hours.
        let bound = 2 * 10 + 3 * (now / (4 * 3_600) + 1);
        let told = i64::try_from(story.told.len()).unwrap();
        prop_assert!(told <= bound, "{} notices in {} s", told, now);
    }
}
