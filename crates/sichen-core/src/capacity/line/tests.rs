//! Claims about the line for a capacity.

use jiff::Timestamp;

use super::*;
use crate::capacity::{Account, Bucket, Limits};

fn x() -> Name {
    Name::new("x").unwrap()
}

fn uses(n: u32) -> Uses {
    Uses::new([(x(), n)])
}

fn ledger(limit: u32, used: u64) -> Ledger {
    let account = Account {
        limits: Limits {
            units: Some(limit),
            rate: None,
        },
        used,
        bucket: Bucket::empty(Timestamp::UNIX_EPOCH),
    };
    Ledger::open([(x(), account)])
}

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A plan over runs in their order, again and again while any gets something; what each got.
fn plan(line: &mut Line, limit: u32, used: u64, runs: &[(u64, i32, u32)]) -> Vec<u64> {
    let able = runs.iter().map(|(run, rank, _)| (RunId(*run), *rank));
    let mut served = Vec::new();
    let parked = {
        let mut gate = line.gate(ledger(limit, used), able, NOW);
        loop {
            let before = served.len();
            for (run, rank, weight) in runs {
                if gate.pass(RunId(*run), *rank, &uses(*weight)) {
                    served.push(*run);
                }
            }
            if served.len() == before {
                break;
            }
        }
        gate.parked()
    };
    for run in &served {
        line.served(RunId(*run));
    }
    for (run, short) in parked {
        line.park(run, short, NOW);
    }
    served
}

#[test]
fn a_heavy_run_is_served_among_light_ones() {
    let mut line = Line::default();
    // The light one is older and looked at first, and has shards without end.
    let runs = [(1, 0, 1), (2, 0, 10)];
    assert_eq!(plan(&mut line, 10, 0, &runs[..1]), [1; 10]);
    assert_eq!(plan(&mut line, 10, 10, &runs), [0; 0]);
    // From now on whatever comes free gathers for the heavy one, which came before the light one's
    // next shard only if that was served since: here both wait, the light one first.
    let mut used = 10;
    let mut light = 0;
    for _ in 0..20 {
        used -= 1;
        let served = plan(&mut line, 10, used, &runs);
        if served.contains(&2) {
            assert_eq!(used, 0, "it got all ten");
            assert_eq!(light, 1, "one turn of the light run went before it");
            return;
        }
        light += served.len();
        used += served.len() as u64;
    }
    panic!("the heavy run starved");
}

#[test]
fn light_runs_take_turns_behind_each_other() {
    let mut line = Line::default();
    let runs = [(1, 0, 1), (2, 0, 1), (3, 0, 1)];
    assert_eq!(plan(&mut line, 1, 1, &runs), [0; 0]);
    let turns: Vec<u64> = (0..6).flat_map(|_| plan(&mut line, 1, 0, &runs)).collect();
    assert_eq!(turns, [1, 2, 3, 1, 2, 3]);
}

#[test]
fn a_need_above_the_limit_stops_nobody() {
    let mut line = Line::default();
    let runs = [(1, 0, 11), (2, 0, 1)];
    assert_eq!(plan(&mut line, 10, 9, &runs), [2]);
    assert_eq!(plan(&mut line, 10, 9, &runs), [2]);
    assert!(!line.place(RunId(1)).unwrap().short.can_come());
    // Once it is resized it has its turn, with the place that it had.
    assert_eq!(plan(&mut line, 11, 1, &runs), [0; 0]);
    assert_eq!(plan(&mut line, 11, 0, &runs), [1]);
}

#[test]
fn a_higher_priority_goes_first() {
    let mut line = Line::default();
    assert_eq!(plan(&mut line, 10, 5, &[(1, 0, 10)]), [0; 0]);
    // Ranks rise in the order of dispatch: −5 goes before 0.
    assert_eq!(plan(&mut line, 10, 8, &[(2, -5, 1), (1, 0, 10)]), [2, 2]);
}

#[test]
fn one_without_a_worker_keeps_its_place_and_stops_nobody() {
    let mut line = Line::default();
    assert_eq!(plan(&mut line, 10, 5, &[(1, 0, 10), (2, 0, 1)]), [0; 0]);
    assert_eq!(plan(&mut line, 10, 9, &[(2, 0, 1)]), [2]);
    assert_eq!(plan(&mut line, 10, 5, &[(2, 0, 1), (1, 0, 10)]), [0; 0]);
    assert_eq!(plan(&mut line, 10, 0, &[(2, 0, 1), (1, 0, 10)]), [1]);
    line.keep(&BTreeSet::new());
    assert_eq!(line.capacities(), BTreeSet::new());
}
