//! Claims about the judgement.

use super::*;
use crate::business::Content;
use crate::catalogue;
use crate::drill::Who;

fn occasion(planned_us: i64) -> Occasion {
    Occasion {
        job: "a".into(),
        shard: 0,
        planned_us,
    }
}

fn attempt(planned_us: i64, token: u64, began_us: i64, ended: bool) -> Attempt {
    Attempt {
        occasion: occasion(planned_us),
        token,
        worker: "worker-1".into(),
        began_us,
        ended_us: ended.then_some(began_us + 1_000_000),
        refused: false,
        steps: 1,
        last_us: began_us + 1_000_000,
    }
}

/// Ten instants, two seconds apart, each done at once; a fault that hit the fifth.
fn sound() -> Facts {
    let planned: Vec<i64> = (1..=10).map(|n| n * 2_000_000).collect();
    let mut attempts: Vec<Attempt> = planned
        .iter()
        .map(|p| attempt(*p, 1, p + 100_000, true))
        .collect();
    attempts[4].ended_us = None;
    let hit = name(&attempts[4]);
    attempts.push(attempt(10_000_000, 2, 15_000_000, true));
    attempts.sort_by_key(|a| a.began_us);
    Facts {
        drill: catalogue::find("kill-worker").unwrap(),
        has_faults: true,
        must: planned.iter().map(|p| occasion(*p)).collect(),
        may: vec![occasion(0)],
        attempts,
        faults: vec![Done {
            act: Act::Kill { who: Who::AWorker },
            victim: "worker-1".into(),
            at_us: 10_500_000,
            healed_us: 16_500_000,
            hit: true,
            in_flight: vec![hit],
            held: Vec::new(),
            lost_bytes: 0,
            can_miss: true,
        }],
        logs: logs::Found::default(),
        business: Compared::default(),
        history: History {
            outcome: "ok".into(),
            ..History::default()
        },
        open: Vec::new(),
        deaths: Vec::new(),
        leaks: Vec::new(),
        masked: 1,
        entangled: None,
    }
}

fn broken(change: impl FnOnce(&mut Facts)) -> Vec<&'static str> {
    let mut facts = sound();
    change(&mut facts);
    let (_, findings) = judge(&facts);
    findings
        .iter()
        .filter(|f| !f.ok)
        .map(|f| f.pass_when)
        .collect()
}

#[test]
fn a_sound_drill_passes_and_says_how_long_takeover_and_recovery_took() {
    assert_eq!(broken(|_| {}), [""; 0]);
    let (measures, _) = judge(&sound());
    assert_eq!(
        (measures.takeover.count, measures.takeover.max_ms),
        (1, 4_500)
    );
    assert_eq!(measures.recovery.max_ms, 1_600);
    assert_eq!((measures.repeats, measures.refused), (0, 0));
}

#[test]
fn each_thing_that_must_hold_fails_the_drill_by_itself() {
    let check = |part: &str, change: fn(&mut Facts)| {
        let broken = broken(change);
        assert!(
            broken.iter().any(|b| b.contains(part)),
            "{part}: {broken:?}"
        );
    };
    check("task of its own", |f| {
        f.attempts.retain(|a| a.occasion.planned_us != 2_000_000)
    });
    check("exactly the planned instants", |f| {
        f.attempts.push(attempt(3_000_000, 1, 21_000_000, true))
    });
    check("business data", |f| f.business.missing.push("a".into()));
    check("business data", |f| {
        f.business.found = Content {
            balance: 1,
            ..Content::default()
        }
    });
    check("checker", |f| f.history.outcome = "violated".into());
    check("checker", |f| f.history.outcome = "unknown".into());
    check("every run has ended", |f| f.open.push("a".into()));
    check("WARN or ERROR", |f| {
        f.logs.unexpected.push(logs::Line {
            of: "server".into(),
            text: "x".into(),
        });
    });
    check("own hand", |f| f.deaths.push("server".into()));
    check("in flight", |f| f.faults[0].hit = false);
    check("in flight", |f| f.faults.clear());
    check("task of its own", |f| {
        f.must.clear();
        f.attempts.clear();
    });
    check("10 s of each heal", |f| f.faults[0].healed_us = 21_000_000);
    // Others begin again, and the one that was hit does not.
    check("10 s of each heal", |f| {
        for attempt in f.attempts.iter_mut().filter(|a| a.began_us > 16_500_000) {
            attempt.worker = "worker-2".into();
        }
    });
    // What was hit for longer than the bound, and nothing of it began again.
    check("drill's limit", |f| {
        f.attempts.retain(|a| a.token == 1);
        f.attempts[4].ended_us = Some(11_500_000);
    });
    check("drill's limit", |f| {
        f.attempts
            .iter_mut()
            .filter(|a| a.token == 2)
            .for_each(|a| a.began_us += 2_000_000);
    });
    check("secret", |f| f.masked = 0);
    check("secret", |f| f.leaks.push("logs/server.log".into()));
}

#[test]
fn a_late_task_fails_where_no_fault_is_near_and_not_beside_one() {
    let late = |planned_us: i64| {
        broken(move |f| {
            f.faults[0].at_us = 10_500_000;
            f.faults[0].healed_us = 10_600_000;
            // Far from the fault, whose recovery lasts ten seconds.
            f.must.push(occasion(planned_us));
            f.attempts
                .push(attempt(planned_us, 9, planned_us + 9_000_000, true));
        })
    };
    assert!(
        late(100_000_000)
            .iter()
            .any(|b| b.contains("in its window"))
    );
    assert!(!late(15_000_000).iter().any(|b| b.contains("in its window")));
}

#[test]
fn where_nothing_may_be_cut_short_a_takeover_fails_the_drill() {
    let broken = broken(|f| f.drill = catalogue::find("rolling-restart").unwrap());
    assert!(broken.iter().any(|b| b.contains("cut short")), "{broken:?}");
}

/// Two servers: one fault for 6 s from 10.5 s on, at the one that has what `held` says.
fn of_a_peer(held: &[&str]) -> Facts {
    let mut facts = sound();
    facts.drill = catalogue::find("freeze-peer").unwrap();
    let fault = &mut facts.faults[0];
    fault.act = Act::Freeze { who: Who::Server };
    fault.victim = "server-2".into();
    fault.held = held.iter().map(|h| (*h).to_owned()).collect();
    fault.hit = is_hit(facts.drill, &fault.in_flight, &fault.held);
    facts
}

fn not_so(facts: &Facts) -> Vec<Finding> {
    let (_, findings) = judge(facts);
    findings.into_iter().filter(|f| !f.ok).collect()
}

#[test]
fn a_server_with_nothing_to_take_over_is_no_hit_and_shows_nothing() {
    assert_eq!(
        not_so(&of_a_peer(&["pool/default", "30 trigger partitions"])),
        []
    );
    let idle = not_so(&of_a_peer(&["30 trigger partitions"]));
    let said: Vec<&str> = idle.iter().map(|f| f.seen.as_str()).collect();
    assert!(
        said.iter()
            .any(|s| s.contains("no fault hit a server that had pool/default")),
        "{said:?}"
    );
    assert!(
        said.iter().any(|s| s.contains("nothing to judge")),
        "{said:?}"
    );
}

#[test]
fn a_takeover_is_judged_by_what_was_due_meanwhile_and_a_recovery_by_what_was_due_after() {
    let mut facts = of_a_peer(&["pool/default"]);
    let (measures, _) = judge(&facts);
    // 12, 14 and 16 s.
    assert_eq!((measures.moved.count, measures.moved.max_ms), (3, 100));
    // 18 s, begun at 18.1.
    assert_eq!(measures.recovery.max_ms, 1_600);
    // What was due before the heal and begins after it says nothing of who is at work again.
    facts
        .attempts
        .retain(|a| a.occasion.planned_us <= 16_000_000);
    for attempt in &mut facts.attempts {
        if attempt.occasion.planned_us == 16_000_000 {
            attempt.began_us = 17_000_000;
        }
    }
    assert_eq!(judge(&facts).0.recovery.count, 0);
    // A fault in which nothing is due shows nothing.
    let mut facts = of_a_peer(&["pool/default"]);
    facts.faults[0].healed_us = 11_000_000;
    let bad = not_so(&facts);
    assert!(
        bad.iter().any(|f| f.seen.contains("nothing to judge")),
        "{bad:?}"
    );
}

#[test]
fn a_short_fault_that_everything_outlives_is_no_missing_takeover() {
    let mut facts = sound();
    facts.attempts.retain(|a| a.token == 1);
    facts.attempts[4].ended_us = Some(12_000_000);
    facts.faults[0].healed_us = 13_000_000;
    assert_eq!(not_so(&facts), []);
    facts.attempts[4].ended_us = Some(10_400_000);
    let bad = not_so(&facts);
    assert!(
        bad.iter().any(|f| f.seen.contains("nothing to judge")),
        "{bad:?}"
    );
}

/// Its session is long enough that nobody who follows loses a lease, and the drill says so.
#[test]
fn a_killed_peer_costs_no_lease() {
    let drill = catalogue::find("kill-peer").unwrap();
    let mut facts = of_a_peer(&["pool/default"]);
    facts.drill = drill;
    assert!(
        not_so(&facts)
            .iter()
            .any(|f| f.pass_when.contains("cut short"))
    );
    for word in ["session lost", "report dropped"] {
        assert!(
            !drill.expects.iter().any(|e| e.part.contains(word)),
            "{word}"
        );
    }
}
