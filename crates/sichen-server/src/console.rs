//! The console's pages: served to anybody, since they hold nothing but code.
//!
//! # Invariants
//! - No page runs a script that did not come from here, and none may be put into another's frame.
//! - What has its digest in its name is kept by browsers for good; the page that names it never is.
//!
//! # Not here
//! What the pages show: they ask the API, with the token. Building them (`sichen-console`).

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// The first segments of the pages' addresses, as `console/src/app.tsx` has them: each is answered
/// with the one page that there is, whose code then reads the address.
const PAGES: &[&str] = &[
    "jobs",
    "runs",
    "workers",
    "dead-letters",
    "calendars",
    "capacities",
    "namespaces",
    "tokens",
    "alerts",
    "audit",
    "drills",
    "import",
    "backfills",
    "cluster",
];

/// Styles are set by scripts too, so they may stand in the page; scripts may not.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
     font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// What is served where no pages were built.
const NOT_BUILT: &str = include_str!("console/not_built.html");

/// The routes of the pages.
pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let mut router = Router::new()
        .route("/", get(page))
        .route("/assets/{file}", get(asset))
        .route("/favicon.svg", get(favicon));
    for page_name in PAGES {
        router = router
            .route(&format!("/{page_name}"), get(page))
            .route(&format!("/{page_name}/{{*rest}}"), get(page));
    }
    router
}

async fn page(headers: HeaderMap) -> Response {
    let kept = HeaderValue::from_static("no-cache");
    match file("index.html", &headers, kept) {
        Some(response) => response,
        None => {
            let kind = HeaderValue::from_static("text/html; charset=utf-8");
            let answer = (StatusCode::OK, [(CONTENT_TYPE, kind)], NOT_BUILT);
            guarded(answer.into_response())
        }
    }
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    // An encoded slash makes a path of what should be a name.
    if name.contains(['/', '\\']) {
        return guarded(StatusCode::NOT_FOUND.into_response());
    }
    let kept = HeaderValue::from_static("public, max-age=31536000, immutable");
    let found = file(&format!("assets/{name}"), &headers, kept);
    found.unwrap_or_else(|| guarded(StatusCode::NOT_FOUND.into_response()))
}

async fn favicon(headers: HeaderMap) -> Response {
    let kept = HeaderValue::from_static("public, max-age=86400");
    let found = file("favicon.svg", &headers, kept);
    found.unwrap_or_else(|| guarded(StatusCode::NOT_FOUND.into_response()))
}

/// The file at `path`, packed if the client can unpack it and the build packed it.
fn file(path: &str, headers: &HeaderMap, kept: HeaderValue) -> Option<Response> {
    // The pages' own packed forms are no pages.
    if path.ends_with(".gz") {
        return None;
    }
    let plain = sichen_console::get(path)?;
    let packed = takes_gzip(headers)
        .then(|| sichen_console::get(&format!("{path}.gz")))
        .flatten();
    let encoding = packed.is_some().then_some("gzip");
    let file = packed.unwrap_or(plain);
    let digest: String = file.sha256[..16]
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    let tag = HeaderValue::try_from(format!("\"{digest}\"")).ok()?;
    let known = headers.get(IF_NONE_MATCH).is_some_and(|known| known == tag);
    let mut response = if known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let bytes = Bytes::from(file.bytes.into_owned());
        Response::new(Body::from(bytes))
    };
    let set = response.headers_mut();
    set.insert(CONTENT_TYPE, HeaderValue::from_static(kind(path)));
    set.insert(CACHE_CONTROL, kept);
    set.insert(ETAG, tag);
    set.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if let (Some(encoding), false) = (encoding, known) {
        set.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    Some(guarded(response))
}

fn guarded(mut response: Response) -> Response {
    let cross_origin = HeaderName::from_static("cross-origin-opener-policy");
    let set = response.headers_mut();
    set.insert(CONTENT_SECURITY_POLICY, POLICY);
    set.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    set.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    set.insert(cross_origin, HeaderValue::from_static("same-origin"));
    response
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT_ENCODING).iter();
    let mut accepted = accepted.filter_map(|value| value.to_str().ok());
    accepted.any(|list| {
        let mut codings = list.split(',').map(str::trim);
        codings.any(|coding| {
            let mut words = coding.split(';').map(str::trim);
            words.next() == Some("gzip") && !words.any(|word| word == "q=0")
        })
    })
}

/// The media type of what the build writes.
fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}
