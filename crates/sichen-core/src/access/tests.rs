//! Claims about roles, rights and what a join token bounds.

use super::*;

fn grants(text: &str) -> Grants {
    Grants::parse(text).expect("good grants")
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a good name")
}

#[test]
fn nobody_without_a_role_may_do_anything() {
    for action in Action::ALL {
        assert!(!allowed(None, *action), "{action}");
    }
}

#[test]
fn each_role_may_do_its_own_and_what_the_ones_before_it_may() {
    let may = |role| {
        let may = Action::ALL.iter().filter(|a| allowed(Some(role), **a));
        may.map(|a| a.word()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(may(Role::Viewer), "view");
    assert_eq!(may(Role::Operator), "view operate");
    assert_eq!(may(Role::Editor), "view operate edit");
    assert_eq!(may(Role::Admin), "view operate edit administer");
}

#[test]
fn a_role_counts_in_its_namespace_alone() {
    let held = grants("payments=editor reports=viewer");
    assert_eq!(held.role(Some(&name("payments"))), Some(Role::Editor));
    assert_eq!(held.role(Some(&name("reports"))), Some(Role::Viewer));
    assert_eq!(held.role(Some(&name("payment"))), None);
    assert_eq!(held.role(None), None, "the cluster as a whole");
    assert_eq!(held.anywhere(), Some(Role::Editor));
    let seen: Vec<&str> = held.seen().expect("not all").map(Name::as_str).collect();
    assert_eq!(seen, ["payments", "reports"]);
}

#[test]
fn of_two_roles_the_higher_counts() {
    let held = grants("*=viewer payments=operator payments=viewer *=viewer");
    assert_eq!(held.role(Some(&name("payments"))), Some(Role::Operator));
    assert_eq!(held.role(Some(&name("other"))), Some(Role::Viewer));
    assert_eq!(held.role(None), Some(Role::Viewer));
    assert!(held.seen().is_none(), "it sees all");
    assert_eq!(held.to_string(), "*=viewer payments=operator");
    let lower = grants("*=editor payments=viewer");
    assert_eq!(lower.role(Some(&name("payments"))), Some(Role::Editor));
}

#[test]
fn what_is_no_right_is_refused() {
    assert_eq!(Grants::parse(""), Err(Error::Nothing));
    assert_eq!(Grants::parse("*=root"), Err(Error::Role("root".into())));
    assert_eq!(Grants::parse("payments"), Err(Error::Role(String::new())));
    assert!(matches!(
        Grants::parse("Pay=viewer"),
        Err(Error::Namespace(..))
    ));
    let many = (0..=MAX_GRANTS).map(|i| format!("n{i}=viewer"));
    let many: Vec<String> = many.collect();
    assert_eq!(
        Grants::parse(&many.join(" ")),
        Err(Error::Grants(MAX_GRANTS + 1))
    );
}

#[test]
fn a_join_token_bounds_the_pool_and_the_handlers() {
    let any = Bounds::new(name("gpu"), Vec::new()).expect("good");
    assert!(any.takes_pool("gpu") && !any.takes_pool("default"));
    assert!(any.takes_handler("whatever"));
    let some = Bounds::new(name("gpu"), vec!["b".into(), "a".into(), "b".into()]).expect("good");
    assert_eq!(some.handlers, ["a", "b"]);
    assert!(some.takes_handler("a") && !some.takes_handler("c"));
    let bad = |handler: &str| Bounds::new(name("gpu"), vec![handler.to_owned()]);
    assert_eq!(bad(""), Err(Error::Handler));
    assert_eq!(bad("a\nb"), Err(Error::Handler));
}

#[test]
fn a_join_token_bounds_the_worker_s_name() {
    let bounds = || Bounds::new(name("gpu"), Vec::new()).expect("good");
    assert!(bounds().takes_worker("any") && !bounds().binds_worker());
    let of = |names: &[&str]| bounds().of_workers(names.iter().map(|&n| n.to_owned()).collect());
    let some = of(&["w1", "etl-*", "w1"]).expect("good");
    assert_eq!(some.workers, ["etl-*", "w1"]);
    assert!(some.binds_worker());
    for (worker, takes) in [
        ("w1", true),
        ("w10", false),
        ("etl-7", true),
        ("etl-", true),
        ("etl", false),
        ("my-etl-7", false),
        ("etl-*", true),
    ] {
        assert_eq!(some.takes_worker(worker), takes, "{worker}");
    }
    for bad in ["", "*", "W1", "a*b", "**", "-*"] {
        assert!(matches!(of(&[bad]), Err(Error::Worker(..))), "{bad:?}");
    }
    let many: Vec<String> = (0..=MAX_JOIN_WORKERS).map(|n| format!("w{n}")).collect();
    let many = bounds().of_workers(many);
    assert_eq!(many, Err(Error::Workers(MAX_JOIN_WORKERS + 1)));
}
