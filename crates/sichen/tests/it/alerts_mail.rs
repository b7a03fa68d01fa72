//! People are told by mail: a real server, a real mail server, mails counted where they arrive.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use sichen_testdb::mail::{Encryption, MailServer};

use crate::program::until;
use crate::scene::{Scene, text};

const PASSWORD: &str = "pw-of-9-x";

/// A certificate for `localhost` that vouches for itself, and its key.
fn certificate(dir: &Path) -> (std::path::PathBuf, std::path::PathBuf) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let (cert, secret) = (dir.join("mail.pem"), dir.join("mail.key"));
    std::fs::write(&cert, certificate.pem()).unwrap();
    std::fs::write(&secret, key.serialize_pem()).unwrap();
    (cert, secret)
}

fn private(path: &Path, words: &str) {
    std::fs::write(path, words).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// A file of alerts that looks each second, for one mail receiver with these lines.
fn config(dir: &Path, mail: &str, more: &str) -> String {
    let path = dir.join("alerts.yaml");
    let words = format!(
        "source: test\nevery: 1s\nreceivers:\n  - name: people\n{more}    mail:\n      server: localhost\n\
         {mail}      from: Sichen <sichen@example.org>\n      to: [ops@example.org, boss@example.org]\n"
    );
    std::fs::write(&path, words).unwrap();
    text(&path).to_owned()
}

fn taken(server: &MailServer) -> Vec<Value> {
    let mails = server.taken();
    mails
        .iter()
        .map(|m| serde_json::from_str(m).unwrap())
        .collect()
}

fn subject(mail: &Value) -> String {
    let text = mail["text"].as_str().unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Subject: "));
    line.unwrap().to_owned()
}

/// Sixty failures of one cause are one mail and their end is another, over TLS and with a password.
#[test]
fn a_storm_of_failures_is_one_mail_and_its_end_another() {
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = certificate(dir.path());
    let encryption = Encryption::StartTls(&cert, &key);
    let Some(mails) = MailServer::start(encryption, Some(("sichen", PASSWORD))) else {
        return;
    };
    let secret = dir.path().join("password");
    private(&secret, &format!("{PASSWORD}\n"));
    let lines = format!(
        "      port: {}\n      ca_file: {}\n      user: sichen\n      password_file: {}\n",
        mails.port,
        text(&cert),
        text(&secret)
    );
    let file = config(dir.path(), &lines, "");
    let own = tempfile::tempdir().unwrap();
    let scene = Scene::on(own, None, &["--alerts", &file], Vec::new());
    let _worker = scene.worker("w1", &scene.server.url, 8);
    let script = format!("[ -e {} ]", text(&scene.path("ok")));
    for name in ["a", "b", "c"] {
        let spec = json!({
            "run": { "process": { "argv": ["/bin/sh", "-c", script] } },
            "retry": { "maxAttempts": 1 },
        });
        scene.apply_spec(name, &spec);
    }
    for n in 0..60 {
        let name = ["a", "b", "c"][n % 3];
        scene.client.ok(&format!("run {name} --key k{n}"));
    }
    for n in 0..60 {
        let name = ["a", "b", "c"][n % 3];
        scene.settles(&format!("{name}:manual:k{n}"), "failed");
    }
    std::fs::write(scene.path("ok"), "").unwrap();
    for name in ["a", "b", "c"] {
        scene.client.ok(&format!("run {name} --key good"));
        scene.settles(&format!("{name}:manual:good"), "succeeded");
    }
    until("its end is told", || taken(&mails).len() >= 2);
    let got = taken(&mails);
    assert_eq!(got.len(), 2, "{got:?}");
    for mail in &got {
        assert_eq!(mail["encrypted"], true);
        assert_eq!(mail["known"], true);
        assert_eq!(mail["from"], "sichen@example.org");
        assert_eq!(mail["to"], json!(["ops@example.org", "boss@example.org"]));
        let text = mail["text"].as_str().unwrap();
        assert!(
            text.contains("@sichen>") && text.contains("Auto-Submitted: auto-generated"),
            "{text}"
        );
        assert!(text.contains("sichen dead-letters"), "{text}");
    }
    assert!(
        subject(&got[0]).starts_with("[sichen test]") || subject(&got[0]).starts_with("=?"),
        "{got:?}"
    );
    scene.client.ok("verify");
}

/// Whose certificate nobody vouches for gets neither a mail nor a password; once it is trusted, the same
/// notice arrives.
#[test]
fn a_mail_server_that_is_not_trusted_gets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = certificate(dir.path());
    let Some(mails) = MailServer::start(Encryption::Tls(&cert, &key), None) else {
        return;
    };
    let lines = format!("      port: {}\n      tls: tls\n", mails.port);
    let more = "    language: zh\n";
    let file = config(dir.path(), &lines, more);
    let own = tempfile::tempdir().unwrap();
    let mut scene = Scene::on(own, None, &["--alerts", &file], Vec::new());
    let worker = scene.worker("w1", &scene.server.url, 1);
    let spec = json!({
        "run": { "process": { "argv": ["/bin/sh", "-c", "exit 3"] } },
        "retry": { "maxAttempts": 1 },
    });
    scene.apply_spec("nightly", &spec);
    scene.client.ok("run nightly --key k");
    scene.settles("nightly:manual:k", "failed");
    let waits =
        || scene.client.json("alerts")["waiting"] == json!([{ "receiver": "people", "count": 1 }]);
    until("a notice waits", waits);
    assert_eq!(taken(&mails).len(), 0);
    drop(worker);
    let trusting = format!("{lines}      ca_file: {}\n", text(&cert));
    config(dir.path(), &trusting, more);
    scene.kill_and_restart_server();
    until("it is told", || !taken(&mails).is_empty());
    let got = taken(&mails);
    assert_eq!(got[0]["encrypted"], true);
    // In Chinese, which a header holds encoded.
    assert!(
        subject(&got[0]).starts_with("[sichen test] =?utf-8?"),
        "{got:?}"
    );
}
