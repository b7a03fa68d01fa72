//! Claims about who somebody is here by what a provider says.

use serde_json::json;

use super::*;

fn mapping() -> Mapping {
    let rule = |fits: Option<(&str, &str)>, namespace: &str, role| Rule {
        fits: fits.map(|(claim, value)| (claim.to_owned(), value.to_owned())),
        namespace: namespace.to_owned(),
        role,
    };
    Mapping {
        user: "preferred_username".to_owned(),
        rules: vec![
            rule(Some(("groups", "admins")), "*", Role::Admin),
            rule(Some(("realm.roles", "ops")), "payments", Role::Operator),
            rule(Some(("staff", "true")), "reports", Role::Viewer),
        ],
    }
}

fn who(claims: Value) -> Result<(String, String), Unfit> {
    let claims = claims.as_object().expect("an object").clone();
    let (name, grants) = mapping().who(&claims)?;
    Ok((name.to_string(), grants.to_string()))
}

#[test]
fn roles_come_from_the_rules_that_fit_and_from_nothing_else() {
    for (claims, roles) in [
        (json!({"groups": ["others", "admins"]}), "*=admin"),
        (json!({"groups": "admins"}), "*=admin"),
        (
            json!({"realm": {"roles": ["ops"]}, "staff": true}),
            "payments=operator reports=viewer",
        ),
        // The whole name goes before the way.
        (
            json!({"realm.roles": "ops", "realm": {"roles": []}}),
            "payments=operator",
        ),
    ] {
        let mut all = claims;
        all["preferred_username"] = "alice".into();
        assert_eq!(who(all).map(|(_, roles)| roles).as_deref(), Ok(roles));
    }
    for claims in [
        json!({}),
        json!({"groups": ["Admins", "admins ", "admin"]}),
        json!({"groups": {"admins": true}}),
        json!({"groups": [["admins"]]}),
        json!({"roles": ["ops"], "staff": 1}),
    ] {
        let mut all = claims.clone();
        all["preferred_username"] = "alice".into();
        assert_eq!(who(all), Err(Unfit::Rights), "{claims}");
    }
}

#[test]
fn a_name_is_made_of_the_claim_or_nobody_is_let_in() {
    let named = |text: Value| who(json!({"preferred_username": text, "groups": ["admins"]}));
    for (text, name) in [
        ("alice", "alice"),
        ("Alice.B@Example.COM", "alice.b-example.com"),
        ("corp\\bob", "corp-bob"),
    ] {
        assert_eq!(
            named(text.into()).map(|(name, _)| name).as_deref(),
            Ok(name)
        );
    }
    for text in ["", "司辰", "@", &"x".repeat(64)] {
        assert!(matches!(named(text.into()), Err(Unfit::Name(..))), "{text}");
    }
    assert!(matches!(named("api".into()), Err(Unfit::Reserved(_))));
    assert!(matches!(named(json!(["alice"])), Err(Unfit::Unnamed(_))));
    let mut by_mail = mapping();
    by_mail.user = "email".to_owned();
    let mut claims = json!({"email": "a@b.example", "groups": ["admins"], "email_verified": false});
    let told = |claims: &Value| by_mail.who(claims.as_object().expect("an object"));
    assert!(matches!(told(&claims), Err(Unfit::Unchecked(_))));
    claims["email_verified"] = true.into();
    assert!(told(&claims).is_ok());
}
