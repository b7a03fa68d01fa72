//! People who may log in: made, listed, changed.
//!
//! # Invariants
//! - Nobody gives, takes back or takes over a right that he could not use himself.
//! - No answer has a password or its digest.
//!
//! # Not here
//! Logging in ([`super::login`]).

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use sichen_core::access::{self, Grants, Purpose, Role};
use sichen_core::port::ChangeUser;
use sichen_core::user::{Change, NewUser, User, check_password};

use super::access::Caller;
use super::answer::{Answer, Failed};
use super::request::{self, Segments};
use super::{Api, login, tokens, wire};

fn shown(user: &User, now: Timestamp) -> wire::User {
    let live = user
        .logins
        .iter()
        .filter(|login| login.is_live(now))
        .count();
    wire::User {
        name: user.name.to_string(),
        roles: tokens::roles(&user.grants),
        state: user.state().to_owned(),
        has_password: user.password.is_some(),
        provider: user.identity.as_ref().map(|his| his.issuer.clone()),
        logins: u32::try_from(live).unwrap_or(u32::MAX),
        logged_in_at: user.logged_in_at.map(|at| at.to_string()),
        created_at: user.created_at.to_string(),
        created_by: user.created_by.clone(),
    }
}

/// Users by name, the disabled ones too: those whose rights the caller may give.
#[utoipa::path(
    get,
    path = "/users",
    tag = "users",
    responses(
        (status = 200, body = wire::Users),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(State(api): State<Api>, caller: Caller) -> Answer<wire::Users> {
    let now = api.store().now().await?;
    let users = api.0.control.users().await?;
    let given = users.iter().filter(|user| gives(&caller, &user.grants));
    let items = given.map(|user| shown(user, now)).collect();
    Ok(Json(wire::Users { items }))
}

/// Makes a user, who can't log in until he has a password.
#[utoipa::path(
    post,
    path = "/users",
    tag = "users",
    request_body = wire::NewUser,
    responses(
        (status = 201, body = wire::User, description = "He was made now"),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn create(
    State(api): State<Api>,
    caller: Caller,
    body: Bytes,
) -> Result<(StatusCode, Json<wire::User>), Failed> {
    let body: wire::NewUser = request::json(&body)?;
    let (name, grants) = (tokens::name(&body.name)?, grants(&body.roles)?);
    must_give(&caller, &grants)?;
    let user = match caller.step(&api, 0) {
        Some(control) => {
            let new = NewUser {
                name,
                grants,
                identity: None,
            };
            control.create_user(&caller.actor, new).await?
        }
        None => api.0.control.user(&name).await?,
    };
    let now = user.created_at;
    Ok((StatusCode::CREATED, Json(shown(&user, now))))
}

/// Gives a user other roles. What he does with his logins is judged by them at once, on other nodes within 2
/// seconds.
#[utoipa::path(
    post,
    path = "/users/{user}/roles",
    tag = "users",
    params(("user" = String, Path, description = "His name")),
    request_body = wire::NewRoles,
    responses(
        (status = 200, body = wire::User),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn set_roles(
    State(api): State<Api>,
    caller: Caller,
    Segments(text): Segments<String>,
    body: Bytes,
) -> Answer<wire::User> {
    let body: wire::NewRoles = request::json(&body)?;
    let user = given(&api, &caller, &text).await?;
    known_here(&user)?;
    let grants = grants(&body.roles)?;
    must_give(&caller, &grants)?;
    change(&api, &caller, user, Change::Roles(grants)).await
}

/// Gives a user another password, or none. All his logins end.
#[utoipa::path(
    post,
    path = "/users/{user}/password",
    tag = "users",
    params(("user" = String, Path, description = "His name")),
    request_body = wire::NewPassword,
    responses(
        (status = 200, body = wire::User),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn set_password(
    State(api): State<Api>,
    caller: Caller,
    Segments(text): Segments<String>,
    body: Bytes,
) -> Answer<wire::User> {
    let body: wire::NewPassword = request::json(&body)?;
    let user = given(&api, &caller, &text).await?;
    let digest = match body.password {
        None => None,
        Some(password) => {
            known_here(&user)?;
            check_password(&user.name, &password).map_err(|error| {
                Failed::bad(format!("SC6037: the password is not taken: {error}"))
            })?;
            let digest = api.0.access.digest_of(password).await;
            Some(digest.map_err(login::unjudged)?)
        }
    };
    change(&api, &caller, user, Change::Password(digest)).await
}

/// Disables a user: he may do nothing and is logged in nowhere, at once here, on other nodes within 2 seconds.
#[utoipa::path(
    post,
    path = "/users/{user}/disable",
    tag = "users",
    params(("user" = String, Path, description = "His name")),
    responses(
        (status = 200, body = wire::User),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn disable(
    State(api): State<Api>,
    caller: Caller,
    Segments(text): Segments<String>,
) -> Answer<wire::User> {
    let user = given(&api, &caller, &text).await?;
    change(&api, &caller, user, Change::Disabled(true)).await
}

/// Lets a disabled user log in again.
#[utoipa::path(
    post,
    path = "/users/{user}/enable",
    tag = "users",
    params(("user" = String, Path, description = "His name")),
    responses(
        (status = 200, body = wire::User),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn enable(
    State(api): State<Api>,
    caller: Caller,
    Segments(text): Segments<String>,
) -> Answer<wire::User> {
    let user = given(&api, &caller, &text).await?;
    change(&api, &caller, user, Change::Disabled(false)).await
}

/// Changes `user` as it was judged, or not at all.
async fn change(api: &Api, caller: &Caller, user: User, change: Change) -> Answer<wire::User> {
    let name = user.name.clone();
    let asked = ChangeUser {
        name: name.clone(),
        seen: Some(user.grants),
        change,
    };
    let changed = match caller.step(api, 0) {
        Some(control) => control.change_user(&caller.actor, asked).await,
        None => api.0.control.user(&name).await,
    };
    api.0.access.forget();
    let now = api.store().now().await?;
    Ok(Json(shown(&changed?, now)))
}

/// The user of this name, if the caller may give what he has.
async fn given(api: &Api, caller: &Caller, text: &str) -> Result<User, Failed> {
    let name = tokens::name(text)?;
    let user = api.0.control.user(&name).await?;
    match gives(caller, &user.grants) {
        true => Ok(user),
        false => Err(Failed::not_found("user", name.to_string())),
    }
}

/// Refuses what the provider says of who logs in by it.
fn known_here(user: &User) -> Result<(), Failed> {
    match &user.identity {
        None => Ok(()),
        Some(his) => Err(Failed::new(
            StatusCode::CONFLICT,
            format!(
                "SC6045: {} logs in by {}, which says his roles and judges his password; change them there",
                user.name, his.issuer
            ),
        )),
    }
}

fn gives(caller: &Caller, grants: &Grants) -> bool {
    caller.administers(&Purpose::Api(grants.clone()))
}

fn must_give(caller: &Caller, grants: &Grants) -> Result<(), Failed> {
    if gives(caller, grants) {
        return Ok(());
    }
    let message = format!(
        "SC6002: this user would have rights that {} can't give; that needs the role admin in every \
         namespace named, and in all (`*`) for all",
        caller.actor
    );
    Err(Failed::new(StatusCode::FORBIDDEN, message))
}

fn grants(roles: &[wire::RoleIn]) -> Result<Grants, Failed> {
    let role = |given: &wire::RoleIn| {
        let role = Role::parse(&given.role);
        role.ok_or_else(|| access::Error::Role(given.role.clone()))
    };
    let given: Result<Vec<_>, access::Error> = roles
        .iter()
        .map(|given| Ok((given.namespace.as_str(), role(given)?)))
        .collect();
    let grants = given.and_then(Grants::new);
    grants.map_err(|error| Failed::bad(format!("SC6037: no user can have these roles: {error}")))
}
