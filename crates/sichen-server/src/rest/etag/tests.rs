//! Claims about entity tags.

use super::*;

fn of(pairs: &[(&'static str, &str)]) -> Result<Precondition, Failed> {
    let pairs = pairs.iter().map(|(name, value)| {
        let name = HeaderName::from_static(name);
        (name, HeaderValue::from_str(value).unwrap())
    });
    condition(&pairs.collect())
}

#[test]
fn a_tag_comes_back_as_the_revision_that_it_names() {
    let (uid, revision) = (
        JobUid("00000000-0000-0000-0000-000000000007".parse().unwrap()),
        Revision(3),
    );
    let [(_, tag)] = header(uid, revision);
    let back = Precondition::Revision(uid, revision);
    let tag = tag.to_str().unwrap();
    assert_eq!(of(&[("if-match", tag)]).unwrap(), back);
    assert_eq!(of(&[("if-match", &format!("W/{tag}"))]).unwrap(), back);
}

#[test]
fn what_is_not_understood_is_refused_and_not_passed_over() {
    for headers in [
        &[("if-match", "3")][..],
        &[("if-match", "\"3\"")],
        &[("if-match", "")],
        &[("if-match", "\"a.1\", \"b.2\"")],
        &[("if-match", "*"), ("if-match", "*")],
        &[("if-match", "*"), ("if-none-match", "*")],
        &[(
            "if-none-match",
            "\"00000000-0000-0000-0000-000000000007.3\"",
        )],
    ] {
        assert!(of(headers).is_err(), "{headers:?}");
    }
    assert_eq!(of(&[]).unwrap(), Precondition::None);
    assert_eq!(of(&[("if-match", "*")]).unwrap(), Precondition::Present);
    assert_eq!(
        of(&[("if-none-match", "*")]).unwrap(),
        Precondition::Missing
    );
}
