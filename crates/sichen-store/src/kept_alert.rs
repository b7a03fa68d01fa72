//! An alert as a document, the same for every dialect.
//!
//! # Not here
//! What an alert means ([`sichen_core::alert`]).

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sichen_core::alert::{Alert, Member, Phase, Rule};
use sichen_core::port::Error;

use crate::row::at;

/// As a store keeps it.
pub(crate) fn document(alert: &Alert) -> String {
    let member = |(subject, m): (&String, &Member)| {
        let member = json!({ "since": at(m.since), "cause": m.cause, "active": m.active });
        (subject.clone(), member)
    };
    let members: Map<String, Value> = alert.members.iter().map(member).collect();
    json!({
        "rule": alert.rule.word(), "group": alert.group, "phase": alert.phase.word(),
        "since": at(alert.since), "turned_at": at(alert.turned_at), "joined_at": at(alert.joined_at),
        "told_at": alert.told_at.map(at), "flaps": alert.flaps, "widened": alert.widened,
        "more": alert.more, "members": members,
    })
    .to_string()
}

/// What [`document`] wrote.
pub(crate) fn alert(document: &str) -> Result<Alert, Error> {
    let value: Value = serde_json::from_str(document).map_err(|e| corrupt(&e.to_string()))?;
    let text = |key: &str| value[key].as_str().ok_or_else(|| corrupt(key));
    let number = |key: &str| {
        let number = value[key].as_u64().and_then(|n| u32::try_from(n).ok());
        number.ok_or_else(|| corrupt(key))
    };
    let members = value["members"].as_object();
    let members = members.ok_or_else(|| corrupt("members"))?;
    let members = members.iter().map(|(subject, m)| {
        let member = Member {
            since: instant(&m["since"]).ok_or_else(|| corrupt("members.since"))?,
            cause: m["cause"].as_str().unwrap_or_default().to_owned(),
            active: m["active"].as_bool().unwrap_or(true),
        };
        Ok((subject.clone(), member))
    });
    let at = |key: &str| instant(&value[key]).ok_or_else(|| corrupt(key));
    Ok(Alert {
        rule: Rule::parse(text("rule")?).ok_or_else(|| corrupt("rule"))?,
        group: text("group")?.to_owned(),
        phase: Phase::parse(text("phase")?).ok_or_else(|| corrupt("phase"))?,
        since: at("since")?,
        turned_at: at("turned_at")?,
        joined_at: at("joined_at")?,
        told_at: instant(&value["told_at"]),
        flaps: number("flaps")?,
        widened: number("widened")?,
        more: value["more"].as_bool().unwrap_or(false),
        members: members.collect::<Result<_, Error>>()?,
    })
}

fn instant(value: &Value) -> Option<Timestamp> {
    Timestamp::from_microsecond(value.as_i64()?).ok()
}

fn corrupt(what: &str) -> Error {
    Error::Corrupt(format!("an alert's document ({what})"))
}
