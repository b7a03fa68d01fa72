//! Secrets among real processes: none is built in, and none comes back.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use crate::program::{Client, command, spawned, started, until};

fn private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// SEC-001, SEC-002: a server that has nothing, or what others know, for a token does not start; it says which file,
/// and nothing of what is in it.
#[test]
fn a_server_starts_with_no_token_that_others_may_know() {
    let dir = tempfile::tempdir().unwrap();
    let known = "changeme".repeat(5);
    let known = known.as_str();
    for (name, text, code) in [
        ("token", "", "SC6011"),
        ("token", " \n", "SC6011"),
        ("token", "null", "SC6011"),
        ("token", "default_token", "SC6011"),
        ("token", known, "SC6014"),
        ("join-token", "", "SC6011"),
        ("join-token", "admin/123456", "SC6011"),
        ("join-token", known, "SC6014"),
        ("token.sha256", "", "SC6013"),
    ] {
        let data = tempfile::tempdir_in(dir.path()).unwrap();
        private(&data.path().join(name), text);
        let errors = data.path().join("errors");
        let words = ["server", "--listen", "127.0.0.1:0", "--data"];
        let mut server = command(&words);
        server
            .arg(data.path())
            .stderr(File::create(&errors).unwrap());
        let ended = spawned(server).ended();
        let said = std::fs::read_to_string(errors).unwrap();
        assert!(!ended.success(), "{name} {text:?}: {said}");
        assert!(
            said.contains(code) && said.contains(name),
            "{name} {text:?}: {said}"
        );
        assert!(!said.contains("changeme"), "{said}");
    }
}

/// SEC-001: what is handed out with the program has no token and no password in it.
#[test]
fn what_is_handed_out_holds_no_secret() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut places = vec![
        root.join("deploy"),
        root.join("docs"),
        root.join("examples"),
    ];
    let mut looked_at = 0;
    while let Some(place) = places.pop() {
        if place.is_dir() {
            let inside = std::fs::read_dir(&place).unwrap();
            places.extend(inside.map(|entry| entry.unwrap().path()));
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&place) else {
            continue;
        };
        looked_at += 1;
        for line in text.lines() {
            assert!(!has_secret(line), "{}: {line}", place.display());
        }
    }
    assert!(looked_at > 50, "{looked_at} files");
    for line in [
        "join_token: abc",
        "store: postgres://sichen:pass@db/sichen",
        "Authorization: Bearer sct_0123456789abcdef0123456789abcdef",
    ] {
        assert!(has_secret(line), "{line}");
    }
}

fn has_secret(line: &str) -> bool {
    let hex = |text: &str| text.bytes().take_while(u8::is_ascii_hexdigit).count();
    let token = line.split("sct_").skip(1).any(|rest| hex(rest) >= 32);
    let inline = ["join_token:", "password:"];
    let inline = inline.iter().any(|key| line.trim_start().starts_with(key));
    // USER:PASSWORD before the host of an address.
    let password = line.split("://").skip(1).any(|rest| {
        let host = rest.split(['/', ' ', '"', '`']).next().unwrap_or_default();
        let user = host.split_once('@').map(|(user, _)| user);
        user.is_some_and(|user| {
            user.split_once(':')
                .is_some_and(|(_, p)| !p.is_empty() && !p.starts_with(['<', '$', '{', '*']))
        })
    });
    token || inline || password
}

/// SEC-008: secrets of a job's process, of the worker and of the server, before everything that shows anything: no
/// channel has one of them, and the process had its own.
#[test]
fn no_secret_comes_back_by_any_channel() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mut server = command(&["server", "--listen", "127.0.0.1:0", "--data", &at("data")]);
    let log = File::create(at("server.log")).unwrap();
    server.env("SICHEN_LOG", "trace").stderr(Stdio::from(log));
    let server = started(server);
    let client = Client::new(&server.url, &dir.path().join("data"));
    private(Path::new(&at("db-password")), "of-the-database-55821\n");
    let config = format!(
        "processes:\n  show:\n    argv: [/bin/sh, -c, 'env; cat {join}; env >&2; [ -n \"$DB_PASSWORD\" ] && exit 3']\n    \
         secrets: {{ DB_PASSWORD: {db} }}\n\
         data_sources:\n  ledger: {{ postgres: 'postgres://reader:of-the-source-90417@127.0.0.1:1/ledger' }}\n",
        join = at("data/join-token"),
        db = at("db-password"),
    );
    std::fs::write(at("worker.yaml"), config).unwrap();
    let mut words = vec!["worker", "--name", "w", "--server", &server.url];
    let (config, data, join) = (at("worker.yaml"), at("w"), at("data/join-token"));
    words.extend([
        "--config",
        &config,
        "--data",
        &data,
        "--join-token-file",
        &join,
    ]);
    let mut worker = command(&words);
    worker
        .env("SICHEN_LOG", "trace")
        .env("OF_THE_WORKER", "of-the-worker-31337");
    let worker = spawned({
        worker.stderr(Stdio::from(File::create(at("worker.log")).unwrap()));
        worker
    });
    let job = "{ apiVersion: sichen/v1, kind: Job, metadata: { name: show }, \
               spec: { run: { handler: show }, retry: { maxAttempts: 1 } } }";
    std::fs::write(at("job.yaml"), job).unwrap();
    client.ok(&format!("apply -f {}", at("job.yaml")));
    let made = client.ok("token create ci --role viewer --namespace * --expires 90d");
    let made = made.trim().to_owned();
    assert!(made.starts_with("sct_"), "{made}");
    client.ok("run show --key k");
    until("it has shown all that it knows", || {
        client.json("describe run show:manual:k")["run"]["state"] == "failed"
    });
    let attempts = client.ok("trace show:manual:k");
    assert!(
        attempts.contains("exit code 3"),
        "the process had its secret: {attempts}"
    );

    let secrets = [
        ("the process's", "of-the-database-55821".to_owned()),
        ("the worker's environment", "of-the-worker-31337".to_owned()),
        ("the data source's", "of-the-source-90417".to_owned()),
        (
            "the API's",
            std::fs::read_to_string(at("data/token"))
                .unwrap()
                .trim()
                .to_owned(),
        ),
        (
            "the workers'",
            std::fs::read_to_string(&join).unwrap().trim().to_owned(),
        ),
        ("a token's", made[4..].to_owned()),
    ];
    let free_of_secrets = |channel: &str, text: &str| {
        assert!(!text.trim().is_empty(), "{channel} says something");
        for (whose, secret) in &secrets {
            assert!(!text.contains(secret), "{channel} has {whose} secret");
        }
    };
    let output = client.run("logs show:manual:k");
    let shown = format!(
        "{}{}",
        crate::program::out(&output),
        crate::program::err(&output)
    );
    assert!(
        shown.contains("DB_PASSWORD=*********************"),
        "{shown}"
    );
    free_of_secrets("logs", &shown);
    for words in [
        "get jobs -o json",
        "get workers -o json",
        "get members -o json",
        "describe job show -o json",
        "describe run show:manual:k -o json",
        "explain show:manual:k",
        "shards show:manual:k -o json",
        "runs show -o json",
        "dead-letters -o json",
        "trace show:manual:k -o json",
        "events -o json",
        "export",
        "doctor",
        "config",
        "token list -o json",
        "token whoami -o json",
    ] {
        let output = client.run(words);
        let text = format!(
            "{}{}",
            crate::program::out(&output),
            crate::program::err(&output)
        );
        free_of_secrets(words, &text);
    }
    let mut shows = command(&[
        "config",
        "worker",
        "--config",
        &config,
        "--join-token-file",
        &join,
    ]);
    free_of_secrets(
        "config worker",
        &crate::program::out(&shows.output().unwrap()),
    );
    for log in ["server.log", "worker.log"] {
        let text = std::fs::read(at(log)).unwrap();
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("TRACE"), "{log} is at its highest level");
        free_of_secrets(log, &text);
    }
    let events = client.ok("events -o json");
    let events = events
        .lines()
        .map(serde_json::from_str::<serde_json::Value>);
    let told = events.filter(|event| event.as_ref().unwrap()["kind"] == "access_token_created");
    assert_eq!(told.count(), 1, "that there is a new one is told");
    drop(worker);
}
