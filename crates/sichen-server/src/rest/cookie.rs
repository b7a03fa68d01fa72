//! The cookie of a login, and whether a page of this server asks.
//!
//! # Invariants
//! - No script reads the cookie, no other site's page sends it, and over TLS nothing but this host set it
//!   (`__Host-`).
//! - A request with a token goes by the token alone.
//!
//! # Not here
//! Whose a cookie is ([`crate::access`]).

use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use sichen_core::user::MAX_LOGIN_HOURS;

use super::answer::Failed;
use crate::oidc::MAX_AWAY_SECONDS;
use crate::server::Remote;

/// The cookie's name over TLS, where it can't have been set by a neighbour of this host.
const PRIVATE: &str = "__Host-sichen-login";
/// And without.
const PLAIN: &str = "sichen-login";
/// What the console sends beside its cookie: another site's page can't, without asking first.
pub(super) const OWN_HEADER: &str = "sichen-console";

/// The cookie of a browser that is at the provider.
const AWAY_PRIVATE: &str = "__Host-sichen-away";
/// And without TLS.
const AWAY_PLAIN: &str = "sichen-away";

fn is_private(parts: &Parts) -> bool {
    let remote = parts.extensions.get::<Remote>();
    remote.is_some_and(|remote| remote.is_private)
}

fn name(is_private: bool) -> &'static str {
    match is_private {
        true => PRIVATE,
        false => PLAIN,
    }
}

/// The cookie of a login that a request shows, if it has no token.
pub(super) fn shown(parts: &Parts) -> Option<String> {
    match parts.headers.contains_key(AUTHORIZATION) {
        true => None,
        false => of(&parts.headers, is_private(parts)),
    }
}

/// The cookie of a login among others.
pub(super) fn of(headers: &HeaderMap, is_private: bool) -> Option<String> {
    named(headers, name(is_private))
}

/// What a browser kept while it was at the provider.
pub(super) fn kept(headers: &HeaderMap, is_private: bool) -> Option<String> {
    named(headers, away(is_private))
}

/// The header that has a browser keep something while it is at the provider, from where another site's page sends
/// it back; without one, that takes it away.
pub(super) fn keep(kept: Option<&str>, is_private: bool) -> String {
    let lasts = kept.map_or(0, |_| MAX_AWAY_SECONDS);
    format!(
        "{}={}; Path=/; Max-Age={lasts}; HttpOnly; SameSite=Lax{}",
        away(is_private),
        kept.unwrap_or_default(),
        secure(is_private)
    )
}

fn away(is_private: bool) -> &'static str {
    match is_private {
        true => AWAY_PRIVATE,
        false => AWAY_PLAIN,
    }
}

fn secure(is_private: bool) -> &'static str {
    match is_private {
        true => "; Secure",
        false => "",
    }
}

fn named(headers: &HeaderMap, name: &str) -> Option<String> {
    let lists = headers.get_all(COOKIE).iter();
    let lists = lists.filter_map(|list| list.to_str().ok());
    let mut pairs = lists.flat_map(|list| list.split(';'));
    pairs.find_map(|pair| {
        let (named, value) = pair.trim().split_once('=')?;
        (named == name).then(|| value.to_owned())
    })
}

/// The header that gives a browser its cookie; without one, that takes it away.
pub(super) fn set(cookie: Option<&str>, is_private: bool) -> String {
    let lasts = cookie.map_or(0, |_| MAX_LOGIN_HOURS * 3_600);
    format!(
        "{}={}; Path=/; Max-Age={lasts}; HttpOnly; SameSite=Strict{}",
        name(is_private),
        cookie.unwrap_or_default(),
        secure(is_private)
    )
}

/// Refuses what a page of another site asks for.
///
/// # Errors
/// 403 for another origin, as browsers tell it.
pub(super) fn from_own_page(parts: &Parts) -> Result<(), Failed> {
    let header = |name: &str| parts.headers.get(name).map(|value| value.to_str());
    let is_own = match (header("sec-fetch-site"), header(ORIGIN.as_str())) {
        (Some(site), _) => matches!(site, Ok("same-origin" | "none")),
        (None, Some(origin)) => origin.is_ok_and(|origin| is_here(origin, parts)),
        (None, None) => true,
    };
    match is_own {
        true => Ok(()),
        false => Err(foreign("a page of another site asks for it")),
    }
}

/// Refuses what no script of a page of this server asks for.
///
/// # Errors
/// 403 without the header that the console sends.
pub(super) fn has_own_header(parts: &Parts) -> Result<(), Failed> {
    match parts.headers.contains_key(OWN_HEADER) {
        true => Ok(()),
        false => Err(foreign("the header `Sichen-Console` is missing")),
    }
}

fn foreign(why: &str) -> Failed {
    let message = format!(
        "SC6034: what goes by a cookie changes nothing here: {why}; programs send a token, in the header \
         `Authorization`"
    );
    Failed::new(StatusCode::FORBIDDEN, message)
}

/// Whether `origin` is this server, as the client calls it.
fn is_here(origin: &str, parts: &Parts) -> bool {
    let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| parts.uri.authority().map(|a| a.as_str()));
    let scheme = match is_private(parts) {
        true => "https",
        false => "http",
    };
    let own = host.map(|host| format!("{scheme}://{host}"));
    // A proxy that ends TLS before this server keeps the host.
    let behind = host.map(|host| format!("https://{host}"));
    own.is_some_and(|own| own == origin) || behind.is_some_and(|own| own == origin)
}

#[cfg(test)]
mod tests;
