//! Claims about TLS: a server with a certificate, clients and workers that check it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::program::{Client, Process, out, spawn, start, until};

const JOB: &str = "apiVersion: sichen/v1\nkind: Job\nmetadata: { name: greet }\nspec: { run: { handler: echo }, shards: { count: 3 } }\n";

/// Files of an authority, and a server's certificate signed by it.
struct Authority {
    dir: TempDir,
}

impl Authority {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap();
        std::fs::write(dir.path().join("ca.pem"), ca.pem()).unwrap();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned()];
        let cert = CertificateParams::new(names).unwrap();
        let cert = cert.signed_by(&key, &issuer).unwrap();
        std::fs::write(dir.path().join("cert.pem"), cert.pem()).unwrap();
        let path = dir.path().join("key.pem");
        std::fs::write(&path, key.serialize_pem()).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        Self { dir }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn ca(&self) -> String {
        self.file("ca.pem").to_str().unwrap().to_owned()
    }
}

/// A server with that certificate, at a name that it is for.
fn server(authority: &Authority, data: &Path) -> (Process, String) {
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    let (cert, key) = (
        text(authority.file("cert.pem")),
        text(authority.file("key.pem")),
    );
    let data = data.to_str().unwrap();
    let process = start(&[
        "server",
        "--data",
        data,
        "--listen",
        "127.0.0.1:0",
        "--tls-cert",
        &cert,
        "--tls-key",
        &key,
    ]);
    let url = process.url.replace("127.0.0.1", "localhost");
    assert!(url.starts_with("https://"), "{url}");
    (process, url)
}

fn worker(data: &Path, name: &str, url: &str, ca: &str) -> Process {
    let own = data.join(name);
    let join = data.join("join-token");
    spawn(&[
        "worker",
        "--builtin",
        "--name",
        name,
        "--data",
        own.to_str().unwrap(),
        "--join-token-file",
        join.to_str().unwrap(),
        "--server",
        url,
        "--ca-file",
        ca,
    ])
}

#[test]
fn a_server_with_a_certificate_serves_those_who_trust_it_and_nobody_in_clear() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let data = ours.file("data");
    let (mut server, url) = server(&ours, &data);
    let c = Client::new(&url, &data);
    let job = ours.file("job.yaml");
    std::fs::write(&job, JOB).unwrap();
    c.ok(&format!(
        "apply -f {} --ca-file {}",
        job.display(),
        ours.ca()
    ));

    // A worker that trusts somebody else, or speaks in clear, does not join; one that trusts us does.
    let stranger = worker(&data, "stranger", &url, &theirs.ca());
    let friend = worker(&data, "friend", &url, &ours.ca());
    let trusted = |words: &str| c.json(&format!("{words} --ca-file {}", ours.ca()));
    assert_eq!(
        trusted("run greet --key k --wait")["state"],
        "succeeded",
        "over TLS"
    );
    let workers = trusted("get workers")["items"].clone();
    assert_eq!(workers.as_array().unwrap().len(), 1, "{workers}");
    assert_eq!(workers[0]["name"], "friend");
    drop(stranger);
    drop(friend);

    let check = |client: &Client, words: &str, code: i32, says: &[&str]| {
        let errors = client.fails(words, code);
        assert!(says.iter().all(|s| errors.contains(s)), "{errors}");
    };
    check(&c, "runs", 1, &["SC7012", "--ca-file"]);
    let wrong = format!("runs --ca-file {}", theirs.ca());
    check(&c, &wrong, 1, &["SC7012", "--ca-file"]);
    let none = format!("runs --ca-file {}", job.display());
    check(&c, &none, 2, &["SC7013", "job.yaml"]);
    // The certificate is for a name, not for this address.
    let by_address = Client::new(&server.url, &data);
    let words = format!("runs --ca-file {}", ours.ca());
    check(&by_address, &words, 1, &["SC7012", "host name"]);
    let clear = Client::new(&url.replace("https", "http"), &data);
    check(&clear, "runs", 2, &["SC6024", "https://"]);
    check(&clear, &words, 2, &["SC7001", "https://"]);

    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn a_client_that_speaks_tls_to_a_server_without_is_told_so() {
    let ours = Authority::new();
    let data = ours.file("data");
    let plain = start(&[
        "server",
        "--data",
        data.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
    ]);
    let url = plain.url.replace("http://127.0.0.1", "https://localhost");
    let errors = Client::new(&url, &data).fails(&format!("runs --ca-file {}", ours.ca()), 1);
    assert!(
        errors.contains("SC7012") && errors.contains("http://"),
        "{errors}"
    );
}

#[test]
fn other_machines_are_served_with_a_certificate_or_when_told_so() {
    let ours = Authority::new();
    let data = ours.file("data");
    let words = |more: &str| format!("server --data {} --listen 0.0.0.0:0 {more}", data.display());
    let c = Client::new("http://127.0.0.1:1", &data);
    let errors = c.fails(&words(""), 2);
    assert!(
        errors.contains("SC6020") && errors.contains("--tls-cert"),
        "{errors}"
    );
    let one = format!("--tls-cert {}", ours.file("cert.pem").display());
    assert!(c.fails(&words(&one), 2).contains("--tls-key"));
    let both = format!("{one} --tls-key {}", ours.file("key.pem").display());
    let all: Vec<String> = words(&both).split_whitespace().map(str::to_owned).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let process = start(&all);
    let url = process.url.replace("0.0.0.0", "localhost");
    until("the server answers", || {
        let asked = Client::new(&url, &data).run(&format!("runs -o json --ca-file {}", ours.ca()));
        out(&asked).contains("items")
    });
}
