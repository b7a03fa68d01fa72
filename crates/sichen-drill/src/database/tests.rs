//! Claims about the address of a drill's database.

use super::*;

#[test]
fn the_way_to_the_database_leads_through_the_proxy_and_into_the_schema() {
    let check = |url: &str, expect: Option<&str>| {
        let database = Database {
            own: None,
            url: url.to_owned(),
            told: [("server_version", "15.8"), ("fsync", "on")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            owner: None,
        };
        let store = database.store("127.0.0.1:9".parse().unwrap());
        assert_eq!(store.ok().as_deref(), expect, "{url}");
    };
    let schema = "options=-c%20search_path%3Dsichen_drill_store";
    check(
        "postgres://u:p@h:5432/d",
        Some(&format!("postgres://u:p@127.0.0.1:9/d?{schema}")),
    );
    check(
        "postgres://u@[::1]:5432/d?sslmode=require",
        Some(&format!(
            "postgres://u@127.0.0.1:9/d?sslmode=require&{schema}"
        )),
    );
    check("postgres://u@h:1/d?sslmode=verify-full", None);
    check("postgres:///d?host=/run", None);
    check("postgres://a:1,b:2/d", None);
}

#[test]
fn kind_version_and_settings_are_conditions_and_a_password_is_none() {
    let database = Database {
        own: None,
        url: "postgres://u:secret@h:5432/d".to_owned(),
        told: [
            ("server_version", "15.8"),
            ("fsync", "on"),
            ("max_connections", "60"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        owner: None,
    };
    let conditions = database.conditions();
    assert_eq!(
        conditions["store"],
        "postgres at h:5432, a schema of the drill's own"
    );
    assert_eq!(conditions["store_version"], "15.8");
    assert_eq!(conditions["store_settings"], "fsync on, max_connections 60");
}
