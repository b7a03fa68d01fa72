//! The page that explains the promises names all of them, in the checker's own words.

use sichen_check::Invariant;

#[test]
fn every_promise_stands_in_the_page_about_verify() {
    let page = include_str!("../../../../docs/verify.md");
    for promise in Invariant::ALL {
        let row = format!("| {} | {} |", promise.id(), promise.promise());
        assert!(page.contains(&row), "docs/verify.md has no row `{row}`");
    }
    assert_eq!(page.matches("\n| I").count(), Invariant::ALL.len());
}
