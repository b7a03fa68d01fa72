//! A user as a document, the same for every dialect.
//!
//! # Not here
//! What becomes of a user ([`sichen_core::user`]).

use jiff::Timestamp;
use serde_json::{Value, json};
use sichen_core::access::Grants;
use sichen_core::name::Name;
use sichen_core::port::Error;
use sichen_core::user::{Identity, Login, User};

use crate::row::at;

/// As a store keeps it.
pub(crate) fn document(user: &User) -> String {
    let logins = user.logins.iter().map(
        |login| json!({ "digest": login.digest, "at": at(login.at), "used_at": at(login.used_at) }),
    );
    let identity = user.identity.as_ref();
    let identity = identity.map(|his| json!({ "issuer": his.issuer, "subject": his.subject }));
    json!({
        "name": user.name.as_str(), "grants": user.grants.to_string(), "password": user.password,
        "identity": identity, "password_no": user.password_no, "disabled": user.disabled, "created_at": at(user.created_at),
        "created_by": user.created_by, "logged_in_at": user.logged_in_at.map(at),
        "logins": logins.collect::<Vec<_>>(), "ver": user.ver,
    })
    .to_string()
}

/// What [`document`] wrote.
pub(crate) fn user(document: &str) -> Result<User, Error> {
    let value: Value = serde_json::from_str(document).map_err(|e| corrupt(&e.to_string()))?;
    let text = |value: &Value, key: &str| {
        let text = value[key].as_str().map(str::to_owned);
        text.ok_or_else(|| corrupt(key))
    };
    let number = |key: &str| {
        let number = value[key].as_u64().and_then(|n| u32::try_from(n).ok());
        number.ok_or_else(|| corrupt(key))
    };
    let logins = value["logins"]
        .as_array()
        .ok_or_else(|| corrupt("logins"))?;
    let logins = logins.iter().map(|login| {
        Ok(Login {
            digest: text(login, "digest")?,
            at: instant(&login["at"]).ok_or_else(|| corrupt("logins.at"))?,
            used_at: instant(&login["used_at"]).ok_or_else(|| corrupt("logins.used_at"))?,
        })
    });
    let identity = match &value["identity"] {
        Value::Null => None,
        his => Some(Identity {
            issuer: text(his, "issuer")?,
            subject: text(his, "subject")?,
        }),
    };
    Ok(User {
        identity,
        name: Name::new(&text(&value, "name")?).map_err(|_| corrupt("name"))?,
        grants: Grants::parse(&text(&value, "grants")?).map_err(|_| corrupt("grants"))?,
        password: value["password"].as_str().map(str::to_owned),
        password_no: number("password_no")?,
        disabled: value["disabled"]
            .as_bool()
            .ok_or_else(|| corrupt("disabled"))?,
        created_at: instant(&value["created_at"]).ok_or_else(|| corrupt("created_at"))?,
        created_by: text(&value, "created_by")?,
        logged_in_at: instant(&value["logged_in_at"]),
        logins: logins.collect::<Result<_, Error>>()?,
        ver: number("ver")?,
    })
}

fn instant(value: &Value) -> Option<Timestamp> {
    Timestamp::from_microsecond(value.as_i64()?).ok()
}

fn corrupt(what: &str) -> Error {
    Error::Corrupt(format!("a user's document ({what})"))
}
