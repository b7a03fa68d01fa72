//! Schemas of what people write.
//!
//! # Not here
//! The schema itself (`sichen_core::document`); the description of this API (`openapi.json`).

use axum::Json;
use sichen_core::document;

/// JSON Schema (draft 2020-12) of a job document.
#[utoipa::path(
    get,
    path = "/schemas/job",
    tag = "jobs",
    responses(
        (status = 200, body = Object, content_type = "application/json"),
        (status = "default", body = super::wire::Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn job() -> Json<serde_json::Value> {
    Json(document::schema())
}

/// JSON Schema (draft 2020-12) of a calendar document.
#[utoipa::path(
    get,
    path = "/schemas/calendar",
    tag = "calendars",
    responses(
        (status = 200, body = Object, content_type = "application/json"),
        (status = "default", body = super::wire::Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn calendar() -> Json<serde_json::Value> {
    Json(document::calendar_schema())
}

/// JSON Schema (draft 2020-12) of a capacity document.
#[utoipa::path(
    get,
    path = "/schemas/capacity",
    tag = "capacities",
    responses(
        (status = 200, body = Object, content_type = "application/json"),
        (status = "default", body = super::wire::Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn capacity() -> Json<serde_json::Value> {
    Json(document::capacity_schema())
}
