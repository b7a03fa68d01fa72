//! Claims about the file of alerts.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn loaded(text: &str) -> Result<AlertsConfig, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    load(file.path()).map_err(|failure| failure.to_string())
}

const RECEIVER: &str = "receivers: [{name: ops, url: 'http://127.0.0.1:9/hook'}]\n";

#[test]
fn a_file_is_taken_as_it_is_written() {
    let text = format!(
        "{RECEIVER}source: prod\nevery: 5s\nrules:\n  failures: {{in_a_row: 3, repeat: 1h}}\n  late: {{on: false}}\n\
         no_success: [{{job: pay/nightly, within: 26h}}]\n\
         silences: [{{rule: failures, subject: noisy, until: 2027-01-01T00:00:00Z}}]\n"
    );
    let settings = loaded(&text).unwrap().settings();
    assert_eq!(settings.source, "prod");
    assert_eq!(settings.every, SignedDuration::from_secs(5));
    assert_eq!(settings.policy(Rule::Failures).in_a_row, 3);
    assert_eq!(
        settings.policy(Rule::Failures).repeat,
        SignedDuration::from_hours(1)
    );
    assert!(!settings.policy(Rule::Late).on);
    assert_eq!(
        settings.policy(Rule::NoWorker),
        Policy::usual(Rule::NoWorker)
    );
    assert_eq!(settings.told_of(Rule::Missed), ["ops"]);
    let nightly = JobName::new("pay", "nightly").unwrap();
    assert_eq!(
        settings.no_success,
        [(nightly, SignedDuration::from_hours(26))]
    );
    assert_eq!(settings.silences.len(), 1);
}

#[test]
fn a_silence_names_a_job_with_or_without_its_namespace() {
    let silence = |subject: &str| {
        let text =
            format!("{RECEIVER}silences: [{{subject: {subject}, until: 2027-01-01T00:00:00Z}}]");
        let settings = loaded(&text).unwrap().settings();
        settings.silences[0].subject.clone().unwrap()
    };
    assert_eq!(silence("default/nightly"), "nightly");
    assert_eq!(silence("nightly"), "nightly");
    assert_eq!(silence("pay/nightly"), "pay/nightly");
}

#[test]
fn what_can_t_be_meant_is_refused_by_name() {
    let with = |more: &str| loaded(&format!("{RECEIVER}{more}")).unwrap_err();
    for (more, says) in [
        (
            "ruels: {}",
            "there is no key `ruels`; did you mean `rules`?",
        ),
        (
            "rules: {failure: {}}",
            "there is no rule `failure`; did you mean `failures`?",
        ),
        (
            "rules: {late: {in_a_row: 2}}",
            "rules.late.in_a_row: only `failures` and `partial` have it",
        ),
        (
            "rules: {late: {repeat: 1s}}",
            "rules.late.repeat: 1s is outside 1m",
        ),
        (
            "rules: {late: {receivers: [dev]}}",
            "rules.late.receivers: there is no `dev`",
        ),
        ("every: 1h", "every: 1h is outside 1s to 10m"),
        (
            "no_success: [{job: 'A B', within: 1h}]",
            "no_success: \"A B\": ",
        ),
        (
            "no_success: [{job: nightly, within: 1h}, {job: default/nightly, within: 2h}]",
            "no_success: there are two `nightly`",
        ),
        (
            "silences: [{rule: no, until: 2027-01-01T00:00:00Z}]",
            "silences: there is no rule `no`",
        ),
    ] {
        let said = with(more);
        assert!(
            said.contains("SC7008") && said.contains(says),
            "{more}: {said}"
        );
    }
    for (text, says) in [
        ("source: x", "receivers: nobody is told"),
        (
            "receivers: [{name: a}]",
            "receivers.a: give `url` or `url_file`",
        ),
        (
            "receivers: [{name: a, url: 'ftp://x'}]",
            "receivers.a.url: it is no address",
        ),
    ] {
        let said = loaded(text).unwrap_err();
        assert!(said.contains(says), "{text}: {said}");
    }
}

#[test]
fn a_secret_that_others_may_read_is_refused_and_never_shown() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"q8Zt1mX0c5Vb7Nn2Kk9Jh4Gf6Dd3Ss1Aa")
        .unwrap();
    let text = format!(
        "receivers: [{{name: ops, url: 'https://hooks.example/T0K3N', secret_file: '{}'}}]",
        file.path().display()
    );
    let config = loaded(&text).unwrap();
    let mode = |mode| {
        file.as_file()
            .set_permissions(std::fs::Permissions::from_mode(mode))
    };
    mode(0o644).unwrap();
    let said = config.receivers().unwrap_err().to_string();
    assert!(said.contains("SC6010"), "{said}");
    mode(0o600).unwrap();
    let receivers = config.receivers().unwrap();
    let shown = format!("{receivers:?}");
    assert!(
        !shown.contains("q8Zt") && !shown.contains("T0K3N"),
        "{shown}"
    );
}

/// The example of the guide, which is pasted.
#[test]
fn the_example_of_the_guide_is_right() {
    let guide = include_str!("../../../../../docs/guide/alerts.md");
    let example = guide.split("```yaml\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    let settings = loaded(example).unwrap().settings();
    assert_eq!(settings.receivers, ["ops", "chat", "people"]);
    assert_eq!(settings.policy(Rule::Failures).in_a_row, 2);
}

#[test]
fn a_mail_s_password_needs_tls_and_an_address_is_one() {
    let with = |mail: &str| {
        let text =
            format!("receivers: [{{name: people, mail: {{server: mx.internal, {mail}}}}}]\n");
        loaded(&text)
    };
    let usual = "from: 'Sichen <s@example.org>', to: [ops@example.org]";
    assert!(with(usual).is_ok());
    assert!(with(&format!("{usual}, user: s, password_file: /etc/p")).is_ok());
    for (more, why) in [
        (
            "tls: none, user: s, password_file: /etc/p",
            "everybody on the way",
        ),
        ("user: s", "together"),
        ("tls: none, ca_file: /etc/c", "no certificate is looked at"),
    ] {
        let refused = with(&format!("{usual}, {more}")).unwrap_err();
        assert!(refused.contains(why), "{more}: {refused}");
    }
    for (mail, why) in [
        ("from: s, to: [ops@example.org]", "mail.from"),
        ("from: s@example.org, to: []", "1 to 20"),
        ("from: s@example.org, to: ['a b']", "mail.to"),
    ] {
        let refused = with(mail).unwrap_err();
        assert!(refused.contains(why), "{mail}: {refused}");
    }
    let both = loaded(
        "receivers: [{name: x, url: 'http://h/', mail: {server: h, from: a@b.org, to: [a@b.org]}}]",
    );
    assert!(both.unwrap_err().contains("belongs to a webhook"));
}

#[test]
fn a_heartbeat_has_one_address_and_a_rhythm_within_bounds() {
    let with = |beat: &str| loaded(&format!("{RECEIVER}heartbeat: {beat}\n"));
    let taken = with("{url: 'https://watch.example.org/x'}").unwrap();
    assert_eq!(
        taken.settings().heartbeat,
        Some(SignedDuration::from_mins(1))
    );
    assert!(taken.heartbeat().unwrap().is_some());
    for (beat, why) in [
        ("{}", "give `url` or `url_file`"),
        ("{url: 'ftp://x/'}", "no address"),
        ("{url: 'http://x/', every: 48h}", "outside"),
    ] {
        let refused = with(beat).unwrap_err();
        assert!(refused.contains(why), "{beat}: {refused}");
    }
}
