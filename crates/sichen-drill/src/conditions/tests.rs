//! Claims about `conditions`.

use super::*;
use crate::catalogue;
use crate::drill::Variant;
use crate::schedule::{Mistake, plan};

fn around() -> Around {
    let store = [("store", "sqlite"), ("store_version", "3.50")];
    Around {
        program: "1.0.0, build 1".to_owned(),
        store: store.map(|(n, v)| (n.to_owned(), v.to_owned())).into(),
    }
}

fn differing(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let names = names
        .into_iter()
        .filter(|name| a.get(*name) != b.get(*name));
    names.cloned().collect()
}

#[test]
fn each_thing_that_is_varied_is_one_condition() {
    let drill = catalogue::find("kill-worker").unwrap();
    let planned = |variant, seed| plan(drill, variant, seed, Some(60_000));
    let of = |drill: &Drill, plan: &Plan, around: &Around| conditions(drill, plan, around);
    let one = of(drill, &planned(Variant::Failure, 1), &around());
    let check = |other: BTreeMap<String, String>, name: &str| {
        assert_eq!(differing(&one, &other), [name], "{other:?}");
    };
    let same = planned(Variant::Failure, 1);
    check(
        of(drill, &planned(Variant::Recovery, 1), &around()),
        "changed",
    );
    check(of(drill, &planned(Variant::Failure, 2), &around()), "seed");
    let careless = Plan {
        mistake: Some(Mistake::NoFence),
        ..same.clone()
    };
    check(of(drill, &careless, &around()), "mistake");
    let longer = plan(drill, Variant::Failure, 1, Some(70_000));
    check(of(drill, &longer, &around()), "load_ms");
    let mut other = around();
    other.program = "1.0.0, build 2".to_owned();
    check(of(drill, &same, &other), "program");
    let mut other = around();
    other
        .store
        .insert("store_version".to_owned(), "3.51".to_owned());
    check(of(drill, &same, &other), "store_version");
    type Change = fn(&mut Drill);
    let shapes: [(&str, Change); 5] = [
        ("servers", |d| d.shape.peers = 1),
        ("workers", |d| d.shape.slots = 9),
        ("session_ms", |d| d.shape.session_ms = 9),
        ("load", |d| d.shape.load = crate::drill::Load::HotKey),
        ("ground", |d| {
            d.shape.ground = crate::drill::Ground::OwnClock
        }),
    ];
    for (name, change) in shapes {
        let mut other = *drill;
        change(&mut other);
        check(of(&other, &same, &around()), name);
    }
}

/// Else no batch of theirs could be compared.
#[test]
fn a_drill_whose_load_is_the_change_differs_in_one_condition_alone() {
    for drill in catalogue::ALL {
        let of = |variant| conditions(drill, &plan(drill, variant, 1, Some(60_000)), &around());
        for pair in Variant::ALL.windows(2) {
            let differ = differing(&of(pair[0]), &of(pair[1]));
            assert_eq!(differ, ["changed"], "{} {pair:?}", drill.name);
        }
    }
}
