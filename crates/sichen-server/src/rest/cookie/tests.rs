//! Claims about the cookie of a login, and whose page asks.

use std::net::IpAddr;

use axum::http::Request;

use super::*;

fn parts(headers: &[(&str, &str)], is_private: bool) -> Parts {
    let mut request = Request::builder().uri("/api/v1/me");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    parts.extensions.insert(Remote {
        address: IpAddr::from([127, 0, 0, 1]),
        is_private,
    });
    parts
}

#[test]
fn a_cookie_is_found_among_others_and_a_token_goes_before_it() {
    let one = ("cookie", "a=1; sichen-login=scs_1; b=2");
    assert_eq!(shown(&parts(&[one], false)).as_deref(), Some("scs_1"));
    assert_eq!(
        shown(&parts(&[("cookie", "a=1"), one], false)).as_deref(),
        Some("scs_1")
    );
    let token = ("authorization", "Bearer sct_1");
    assert_eq!(shown(&parts(&[one, token], false)), None);
    assert_eq!(shown(&parts(&[("cookie", "sichen-login")], false)), None);
}

#[test]
fn over_tls_only_a_cookie_that_this_host_set_is_one() {
    let planted = ("cookie", "sichen-login=scs_1");
    assert_eq!(shown(&parts(&[planted], true)), None);
    let own = ("cookie", "__Host-sichen-login=scs_1");
    assert_eq!(shown(&parts(&[own], true)).as_deref(), Some("scs_1"));
    assert_eq!(
        set(Some("scs_1"), true),
        "__Host-sichen-login=scs_1; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure"
    );
    assert_eq!(
        set(None, false),
        "sichen-login=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
    );
}

#[test]
fn a_page_of_another_site_is_told_by_what_browsers_send() {
    let host = ("host", "sichen.example:8080");
    for (headers, is_own) in [
        (vec![host], true),
        (vec![host, ("origin", "http://sichen.example:8080")], true),
        // Behind a proxy that ends TLS.
        (vec![host, ("origin", "https://sichen.example:8080")], true),
        (vec![host, ("origin", "http://sichen.example")], false),
        (
            vec![host, ("origin", "http://sichen.example:8080.evil.example")],
            false,
        ),
        (vec![host, ("origin", "null")], false),
        (vec![("origin", "http://sichen.example:8080")], false),
        (vec![host, ("sec-fetch-site", "same-origin")], true),
        (vec![host, ("sec-fetch-site", "same-site")], false),
        (vec![host, ("sec-fetch-site", "cross-site")], false),
    ] {
        let parts = parts(&headers, false);
        assert_eq!(from_own_page(&parts).is_ok(), is_own, "{headers:?}");
    }
    let plain = [host, ("origin", "http://sichen.example:8080")];
    assert!(
        from_own_page(&parts(&plain, true)).is_err(),
        "of a page without TLS"
    );
    assert!(has_own_header(&parts(&[(OWN_HEADER, "1")], false)).is_ok());
    assert!(has_own_header(&parts(&[], false)).is_err());
}
