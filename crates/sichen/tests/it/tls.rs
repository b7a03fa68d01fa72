//! Claims about TLS: a server with a certificate, clients and workers that check it.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType,
};
use tempfile::TempDir;

use crate::program::{
    Client, Process, command, err, out, spawn, spawned, start, until, until_within,
};

const JOB: &str = "apiVersion: sichen/v1\nkind: Job\nmetadata: { name: greet }\nspec: { run: { handler: echo }, shards: { count: 3 } }\n";

/// Files of an authority, and a server's certificate signed by it.
pub struct Authority {
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Not the default, which is every certificate's: whose name is its issuer's seems signed by itself.
        let own = dir.path().display().to_string();
        params.distinguished_name.push(DnType::CommonName, own);
        let key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap();
        std::fs::write(dir.path().join("ca.pem"), ca.pem()).unwrap();
        std::fs::write(dir.path().join("ca.key"), key.serialize_pem()).unwrap();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned()];
        let cert = CertificateParams::new(names).unwrap();
        let cert = cert.signed_by(&key, &issuer).unwrap();
        std::fs::write(dir.path().join("cert.pem"), cert.pem()).unwrap();
        let path = dir.path().join("key.pem");
        std::fs::write(&path, key.serialize_pem()).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        Self { dir, issuer }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A client's certificate with these names: the options by which it is shown.
    fn client(&self, file: &str, names: &[&str]) -> [String; 4] {
        self.client_like(file, names, |_| {})
    }

    /// The same, of which something is otherwise.
    fn client_like(
        &self,
        file: &str,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> [String; 4] {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let names = names
            .iter()
            .map(|&name| SanType::URI(name.try_into().unwrap()));
        params.subject_alt_names = names.collect();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let paths = ["pem", "key"].map(|kind| self.file(&format!("{file}.{kind}")));
        std::fs::write(&paths[0], cert.pem()).unwrap();
        std::fs::write(&paths[1], key.serialize_pem()).unwrap();
        let [cert, key] = paths.map(|path| path.to_str().unwrap().to_owned());
        ["--tls-cert".to_owned(), cert, "--tls-key".to_owned(), key]
    }

    pub fn ca(&self) -> String {
        self.file("ca.pem").to_str().unwrap().to_owned()
    }
}

/// A server with that certificate, at a name that it is for.
pub fn server(authority: &Authority, data: &Path) -> (Process, String) {
    server_with(authority, data, &[])
}

fn server_with(authority: &Authority, data: &Path, more: &[&str]) -> (Process, String) {
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    let (cert, key) = (
        text(authority.file("cert.pem")),
        text(authority.file("key.pem")),
    );
    let data = data.to_str().unwrap();
    let mut words = vec!["server", "--data", data, "--listen", "127.0.0.1:0"];
    words.extend(["--tls-cert", &cert, "--tls-key", &key]);
    words.extend(more);
    let process = start(&words);
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

/// What `openssl s_client` is told by the server when it asks for its health, with these options; `None`
/// if this machine has no openssl.
fn openssl(authority: &Authority, url: &str, more: &[String]) -> Option<String> {
    let ask = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    openssl_asks(authority, url, more, ask)
}

/// The same, which asks something else.
pub fn openssl_asks(
    authority: &Authority,
    url: &str,
    more: &[String],
    ask: &str,
) -> Option<String> {
    let address = url.strip_prefix("https://").unwrap();
    let mut command = Command::new("openssl");
    command.args(["s_client", "-quiet", "-verify_return_error", "-servername"]);
    command.args(["localhost", "-CAfile", &authority.ca(), "-connect", address]);
    let more = more.iter().map(|word| word.replace("--tls-", "-"));
    let piped = command
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = match piped.stderr(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("skipped: no openssl here: {error}");
            return None;
        }
    };
    let mut stdin = child.stdin.take().unwrap();
    // It may have been turned away before it reads this.
    let _ = stdin.write_all(ask.as_bytes());
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    Some(format!("{}{}", out(&output), err(&output)))
}

/// A command of a client that has no token of its own to show.
fn without_token(authority: &Authority, url: &str, shown: &[String], words: &str) -> Output {
    let mut command = command(&words.split_whitespace().collect::<Vec<_>>());
    command.env("HOME", authority.dir.path().join("nobody"));
    command.args(["--server", url, "--ca-file", &authority.ca()]);
    command.args(shown).output().unwrap()
}

#[test]
fn a_server_that_requires_certificates_speaks_to_those_who_show_a_good_one() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let data = ours.file("data");
    let (_server, url) = server_with(&ours, &data, &["--tls-client-ca", &ours.ca()]);
    let good = ours.client("good", &[]);
    let bad = theirs.client("bad", &[]);
    if let Some(told) = openssl(&ours, &url, &[]) {
        assert!(!told.contains("200 OK") && told.contains("alert"), "{told}");
        let told = openssl(&ours, &url, &bad).unwrap();
        assert!(!told.contains("200 OK") && told.contains("alert"), "{told}");
        let told = openssl(&ours, &url, &good).unwrap();
        assert!(told.contains("200 OK"), "{told}");
    }
    // The command line too, with the token that says who asks.
    let c = Client::new(&url, &data);
    let trust = format!("--ca-file {}", ours.ca());
    let errors = c.fails(&format!("runs {trust}"), 1);
    assert!(
        errors.contains("SC7012") && errors.contains("--tls-cert"),
        "{errors}"
    );
    c.ok(&format!("runs {trust} {}", good.join(" ")));
    let errors = c.fails(&format!("runs {trust} {}", bad.join(" ")), 1);
    assert!(errors.contains("SC7012"), "{errors}");
    let none = format!("--tls-cert {} --tls-key {}", data.display(), good[3]);
    assert!(
        c.fails(&format!("runs {trust} {none}"), 2)
            .contains("SC7016")
    );
    // A certificate that names nobody is no token.
    let denied = without_token(&ours, &url, &good, "runs");
    assert!(err(&denied).contains("SC6001"), "{denied:?}");
    // In clear nothing is shown, which is told.
    let clear = Client::new(&url.replace("https", "http"), &data);
    let errors = clear.fails(&format!("runs {}", good.join(" ")), 2);
    assert!(
        errors.contains("SC7001") && errors.contains("--tls-cert"),
        "{errors}"
    );
}

/// Certificates that were good, will be good, or are good for something else.
#[test]
fn a_certificate_that_is_over_or_not_for_clients_is_refused_where_none_is_wanted_too() {
    let ours = Authority::new();
    let data = ours.file("data");
    let more = [
        "--tls-client-ca",
        &ours.ca(),
        "--tls-client-auth",
        "optional",
    ];
    let (_server, url) = server_with(&ours, &data, &more);
    let names = ["sichen:token/ci"];
    let over = ours.client_like("over", &names, |params| {
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    });
    let early = ours.client_like("early", &names, |params| {
        params.not_before = rcgen::date_time_ymd(4000, 1, 1);
    });
    let servers = ours.client_like("servers", &names, |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    let trust = format!("--ca-file {}", ours.ca());
    let c = Client::new(&url, &data);
    for (shown, told) in [
        (&over, "is over"),
        (&early, "is over"),
        (&servers, "for a client"),
    ] {
        // Though its token is right.
        let errors = c.fails(&format!("runs {trust} {}", shown.join(" ")), 1);
        assert!(
            errors.contains("SC7012") && errors.contains(told),
            "{errors}"
        );
        if let Some(told) = openssl(&ours, &url, shown) {
            assert!(!told.contains("200 OK") && told.contains("alert"), "{told}");
        }
    }
    if let Some(told) = openssl(&ours, &url, &over) {
        assert!(told.contains("certificate expired"), "{told}");
    }
    c.ok(&format!("runs {trust}"));

    // A worker says why it does not come, and comes when its files are renewed.
    let log = ours.file("worker.log");
    let mut words = command(&["worker", "--builtin", "--name", "w", "--server", &url]);
    let join = data.join("join-token");
    words
        .args(["--data", ours.file("w").to_str().unwrap(), "--ca-file"])
        .args([&ours.ca(), "--join-token-file", join.to_str().unwrap()])
        .args(&over)
        .stderr(std::fs::File::create(&log).unwrap());
    let _worker = spawned(words);
    let logged = || std::fs::read_to_string(&log).unwrap();
    until("the worker is refused", || {
        logged().to_lowercase().contains("expired")
    });
    let workers = || c.json(&format!("get workers {trust}"))["items"].clone();
    assert_eq!(workers().as_array().unwrap().len(), 0);
    let good = ours.client("good", &[]);
    std::fs::copy(&good[3], &over[3]).unwrap();
    std::fs::copy(&good[1], &over[1]).unwrap();
    until("the worker comes with its new certificate", || {
        workers().as_array().unwrap().len() == 1
    });
}

#[test]
fn a_certificate_stands_for_the_token_and_the_worker_that_it_names() {
    let ours = Authority::new();
    let data = ours.file("data");
    let more = [
        "--tls-client-ca",
        &ours.ca(),
        "--tls-client-auth",
        "workers",
    ];
    let (_server, url) = server_with(&ours, &data, &more);
    let c = Client::new(&url, &data);
    let trust = format!("--ca-file {}", ours.ca());
    // Who comes with a token needs none here.
    c.ok(&format!(
        "token create ci --role viewer --namespace * --expires 90d {trust}"
    ));
    c.ok(&format!(
        "token create hosts --join default --expires 90d {trust}"
    ));
    let job = ours.file("job.yaml");
    std::fs::write(&job, JOB).unwrap();
    c.ok(&format!("apply -f {} {trust}", job.display()));
    let ci = ours.client("ci", &["sichen:token/ci"]);
    let asked = without_token(&ours, &url, &ci, "get jobs");
    assert!(out(&asked).contains("greet"), "{asked:?}");
    let denied = without_token(&ours, &url, &ci, "pause greet");
    assert!(err(&denied).contains("SC6002"), "{denied:?}");
    let other = ours.client("other", &["sichen:token/nobody"]);
    let denied = without_token(&ours, &url, &other, "get jobs");
    assert!(err(&denied).contains("SC6001"), "{denied:?}");
    // Another token in the request goes before it, and an administrator's certificate makes tokens too.
    c.ok(&format!(
        "token create boss --role admin --namespace * --expires 1d {trust}"
    ));
    let boss = ours.client("boss", &["sichen:token/boss"]);
    let made = without_token(
        &ours,
        &url,
        &boss,
        "token create made --role viewer --namespace * --expires 1d",
    );
    assert!(out(&made).starts_with("sct_"), "{made:?}");
    c.ok(&format!("pause greet {trust} {}", ci.join(" ")));
    c.ok(&format!("resume greet {trust} {}", ci.join(" ")));
    // A token for workers asks nothing.
    let host = ours.client("host", &["sichen:token/hosts", "sichen:worker/w1"]);
    let denied = without_token(&ours, &url, &host, "get jobs");
    assert!(err(&denied).contains("SC6001"), "{denied:?}");

    let worker = |name: &str, shown: &[String]| {
        let own = ours.file(name);
        let mut command = command(&["worker", "--builtin", "--name", name, "--server", &url]);
        command.env("HOME", ours.dir.path().join("nobody"));
        command.args(["--data", own.to_str().unwrap(), "--ca-file", &ours.ca()]);
        spawned({
            command.args(shown);
            command
        })
    };
    let named = worker("w1", &host);
    let misnamed = worker("w2", &host);
    let bare = self::worker(&data, "w3", &url, &ours.ca());
    let run = c.json(&format!("run greet --key k --wait {trust}"));
    assert_eq!(run["state"], "succeeded");
    let workers = c.json(&format!("get workers {trust}"))["items"].clone();
    assert_eq!(workers.as_array().unwrap().len(), 1, "{workers}");
    assert_eq!(workers[0]["name"], "w1");
    drop((named, misnamed, bare));
    // Taken back, it opens nothing any more.
    c.ok(&format!("token revoke ci {trust}"));
    until("the certificate of a token that is over is refused", || {
        err(&without_token(&ours, &url, &ci, "get jobs")).contains("SC6003")
    });
}

/// Sooner than a server looks at its files by itself.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn certificates_are_read_again_at_a_signal_and_who_is_disowned_is_cut_off() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let data = ours.file("data");
    let clients = ours.file("clients.pem");
    std::fs::copy(ours.ca(), &clients).unwrap();
    let more = [
        "--tls-client-ca",
        clients.to_str().unwrap(),
        "--tls-client-auth",
        "workers",
        "--beat",
        "300ms",
        "--session-ttl",
        "1s",
    ];
    let (server, url) = server_with(&ours, &data, &more);
    let c = Client::new(&url, &data);
    let own = ours.client("host", &["sichen:worker/w1"]);
    let log = ours.file("worker.log");
    let both = ours.file("both.pem");
    let cas = [ours.ca(), theirs.ca()].map(|path| std::fs::read_to_string(path).unwrap());
    std::fs::write(&both, cas.concat()).unwrap();
    let mut words = command(&["worker", "--builtin", "--name", "w1", "--server", &url]);
    let join = data.join("join-token");
    words
        .args(["--data", ours.file("w1").to_str().unwrap(), "--ca-file"])
        .args([both.to_str().unwrap(), "--join-token-file"])
        .arg(&join)
        .args(&own)
        .stderr(std::fs::File::create(&log).unwrap());
    let _worker = spawned(words);
    let workers = |ca: &str| {
        let found = c.json(&format!("get workers --ca-file {ca}"))["items"].clone();
        found.as_array().unwrap().len()
    };
    until("the worker has joined", || workers(&ours.ca()) == 1);

    // The server's own certificate.
    for name in ["cert.pem", "key.pem"] {
        std::fs::copy(theirs.file(name), ours.file(name)).unwrap();
    }
    server.signal(Signal::SIGHUP);
    until_within(SOON, "the renewed certificate is shown", || {
        c.run(&format!("runs --ca-file {}", theirs.ca()))
            .status
            .success()
    });
    assert_eq!(workers(&theirs.ca()), 1, "it stays connected");

    // Nobody vouches for the worker any more: the connection that it has is cut, and it gets no other.
    std::fs::copy(theirs.ca(), &clients).unwrap();
    server.signal(Signal::SIGHUP);
    let refused = || std::fs::read_to_string(&log).unwrap().to_lowercase();
    until("the worker is cut off", || {
        workers(&theirs.ca()) == 0 && refused().contains("unknownca")
    });
}

/// The commands of a guide by which a worker's certificate is made, as they stand there.
fn guide_makes_a_certificate(dir: &Path) {
    let guide = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/guide/production-postgresql.md"
    );
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, block) = guide.split_once("$ openssl req -new ").unwrap();
    let (block, _) = block.split_once("$ sichen worker").unwrap();
    let script = format!("set -e\nopenssl req -new {}", block.replace("\n$ ", "\n"));
    let ran = Command::new("sh")
        .args(["-c", &script])
        .current_dir(dir)
        .output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{script}\n{}", err(&ran));
}

#[test]
fn the_certificate_that_the_guide_makes_lets_its_worker_in_and_no_other() {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("skipped: no openssl here");
        return;
    }
    let ours = Authority::new();
    let data = ours.file("data");
    for kind in ["pem", "key"] {
        let own = ours.file(&format!("clients-ca.{kind}"));
        std::fs::copy(ours.file(&format!("ca.{kind}")), own).unwrap();
    }
    guide_makes_a_certificate(ours.dir.path());
    let more = [
        "--tls-client-ca",
        &ours.ca(),
        "--tls-client-auth",
        "workers",
    ];
    let (_server, url) = server_with(&ours, &data, &more);
    let c = Client::new(&url, &data);
    let trust = format!("--ca-file {}", ours.ca());
    c.ok(&format!(
        "token create host-7 --join default --worker host-7 --expires 90d {trust}"
    ));
    let log = ours.file("other.log");
    let worker = |name: &str, log: Stdio| {
        let mut words = command(&["worker", "--builtin", "--name", name, "--server", &url]);
        words.env("HOME", ours.dir.path().join("nobody"));
        words.args([
            "--data",
            ours.file(name).to_str().unwrap(),
            "--ca-file",
            &ours.ca(),
        ]);
        words.arg("--tls-cert").arg(ours.file("host-7.pem"));
        words.arg("--tls-key").arg(ours.file("host-7.key"));
        words.stderr(log);
        spawned(words)
    };
    let _other = worker("host-8", std::fs::File::create(&log).unwrap().into());
    let _named = worker("host-7", Stdio::inherit());
    let workers = || c.json(&format!("get workers {trust}"))["items"].clone();
    until("the worker has joined", || {
        workers().as_array().unwrap().len() == 1
    });
    until("the other is told why it may not", || {
        std::fs::read_to_string(&log).unwrap().contains("SC4008")
    });
    assert_eq!(workers()[0]["name"], "host-7");
    let uid = std::fs::read_to_string(ours.file("host-7").join("worker-uid")).unwrap();
    let bound = format!("host-7/{}", uid.trim());
    assert_eq!(workers()[0]["uid"].as_str(), Some(bound.as_str()));
}
