//! What people are told without asking, for those who ask.

use axum::Json;
use axum::extract::State;
use sichen_core::alert::notice::summary;
use sichen_core::alert::{Alert, Phase, What};

use super::answer::Answer;
use super::{Api, wire};

/// The alerts that are open, pending, or were over lately, and the notices that wait to be sent. Empty
/// where no server was given a file of alerts.
#[utoipa::path(
    get,
    path = "/alerts",
    tag = "cluster",
    responses(
        (status = 200, body = wire::Alerts),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(State(api): State<Api>) -> Answer<wire::Alerts> {
    let alerts = api.store().list_alerts().await?;
    let waiting = api.store().count_notices().await?;
    let told = alerts.iter().filter(|alert| alert.phase != Phase::Watched);
    let waiting = waiting.into_iter();
    Ok(Json(wire::Alerts {
        items: told.map(shown).collect(),
        waiting: waiting
            .map(|(receiver, count)| wire::WaitingNotices { receiver, count })
            .collect(),
    }))
}

fn shown(alert: &Alert) -> wire::Alert {
    let what = match alert.phase {
        Phase::Over => What::Recovered,
        Phase::Pending | Phase::Open | Phase::Watched => What::Raised,
    };
    let subjects = alert.members.iter().map(|(subject, m)| wire::AlertSubject {
        subject: subject.clone(),
        since: m.since.to_string(),
        cause: m.cause.clone(),
        active: m.active,
    });
    wire::Alert {
        alert: alert.name(),
        rule: alert.rule.word().to_owned(),
        phase: alert.phase.word().to_owned(),
        since: alert.since.to_string(),
        told_at: alert.told_at.map(|at| at.to_string()),
        summary: summary(what, alert),
        subjects: subjects.collect(),
        more: alert.more,
    }
}
