//! Claims about the fence kit, the same for each dialect.

use super::*;

#[test]
fn key_is_the_same_for_every_attempt_and_differs_by_each_part() {
    let base = key("01J8", "2026-08-30T00:00:00+08:00", 0, 3);
    assert_eq!(base, "01J8/2026-08-30T00:00:00+08:00/0/3");
    let others = [
        key("01J9", "2026-08-30T00:00:00+08:00", 0, 3),
        key("01J8", "2026-08-31T00:00:00+08:00", 0, 3),
        key("01J8", "2026-08-30T00:00:00+08:00", 1, 3),
        key("01J8", "2026-08-30T00:00:00+08:00", 0, 4),
        key("01J8", "2026-08-30T00:00:00+08:00/0", 0, 3),
    ];
    assert!(others.iter().all(|other| *other != base));
}

#[test]
fn dialect_follows_the_url_scheme() {
    let check = |url, expect| assert_eq!(Dialect::of_url(url), expect, "{url}");
    check("postgres://u@h/db", Some(Dialect::Postgres));
    check("postgresql://h/db", Some(Dialect::Postgres));
    check("mysql://h/db", Some(Dialect::Mysql));
    check("mariadb://h/db", Some(Dialect::Mysql));
    check("sqlite:ledger.db", Some(Dialect::Sqlite));
    check("sqlite:///var/ledger.db", Some(Dialect::Sqlite));
    check("ledger.db", Some(Dialect::Sqlite));
    check("oracle://h/db", None);
}

#[test]
fn every_refusal_in_the_sql_text_is_known_to_the_helper() {
    for dialect in [Dialect::Sqlite, Dialect::Postgres, Dialect::Mysql] {
        let mut seen = Vec::new();
        for (at, _) in sql(dialect).match_indices("'sichen: ") {
            let text = &sql(dialect)[at + 1..];
            let reason = Reason::of_message(text);
            assert!(reason.is_some(), "{dialect}: {}", &text[..40]);
            seen.extend(reason);
        }
        for reason in [
            Reason::Stale,
            Reason::NotOpened,
            Reason::NotForward,
            Reason::BeyondBound,
            Reason::BoundRaised,
        ] {
            assert!(
                seen.contains(&reason),
                "{dialect} never refuses for {reason:?}"
            );
        }
    }
}

#[test]
fn mysql_text_is_cut_at_its_delimiters() {
    let list = statements(Dialect::Mysql);
    assert_eq!(list.len(), 11, "{list:#?}");
    assert!(
        list.iter()
            .all(|one| !one.contains("DELIMITER") && !one.contains("$$"))
    );
    let bodies = list
        .iter()
        .filter(|one| one.starts_with("CREATE PROCEDURE"));
    assert!(bodies.clone().all(|one| one.trim_end().ends_with("END")));
    assert_eq!(bodies.count(), 3);
}

#[test]
fn token_and_key_outside_the_columns_are_refused_before_the_database() {
    type Outcome = Result<i64, Error<std::io::Error>>;
    let refused = |key: &str, token| -> Outcome { checked(key, token) };
    assert!(matches!(
        refused("k", 0),
        Err(Error::TokenRange { token: 0 })
    ));
    assert!(matches!(
        refused("k", 1 << 63),
        Err(Error::TokenRange { .. })
    ));
    assert_eq!(refused("k", (1 << 63) - 1).ok(), Some(i64::MAX));
    assert!(matches!(refused("", 1), Err(Error::KeyLength { bytes: 0 })));
    assert!(matches!(
        refused(&"k".repeat(513), 1),
        Err(Error::KeyLength { bytes: 513 })
    ));
}
