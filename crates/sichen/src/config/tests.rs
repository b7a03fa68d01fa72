//! Claims about what a server is told.

use super::*;

fn parsed(text: &str) -> Result<ServerConfig, Failure> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("server.yaml");
    std::fs::write(&path, text).unwrap();
    read::<ServerConfig>(&path).map(|read| read.config)
}

#[test]
fn an_option_goes_before_the_file_and_that_before_the_default() {
    let file = parsed("listen: 127.0.0.1:1\nbeat: 2s\nretention: 24h\n").unwrap();
    let options = ServerConfig {
        beat: Some("1s".parse().unwrap()),
        ..ServerConfig::default()
    };
    let node = options.over(file).node().unwrap();
    assert_eq!(node.listen.port(), 1);
    assert_eq!(node.worker.beat, SignedDuration::from_secs(1));
    assert_eq!(node.worker.ttl, Rhythm::WORKER.ttl);
    assert_eq!(node.retention, SignedDuration::from_hours(24));
    assert_eq!(node.node, Rhythm::NODE);
}

#[test]
fn a_file_that_says_nothing_is_the_defaults() {
    for text in ["", "# nothing\n", "{}\n"] {
        assert!(parsed(text).unwrap().problems().is_empty(), "{text:?}");
    }
}

#[test]
fn what_can_not_be_used_is_refused_and_named() {
    let check = |text: &str, says: &[&str]| {
        let refused = parsed(text).and_then(|config| config.node().map(drop));
        let said = refused.unwrap_err().to_string();
        for part in says {
            assert!(said.contains(part), "{text:?}: {part:?} is not in {said}");
        }
    };
    check(
        "liste: 127.0.0.1:1\n",
        &["SC7008", "1:1:", "did you mean `listen`?"],
    );
    check("listen: here\n", &["SC7008", "1:9:"]);
    check("beat: 3\n", &["SC7008"]);
    check("- a\n", &["SC7008"]);
    check("store: mysql://x\n", &["SC7008", "postgres://"]);
    check("beat: 10ms\n", &["beat", "100ms"]);
    check("session_ttl: 4s\n", &["session_ttl", "SC1310"]);
    check("node_lease: 2s\n", &["node_lease", "SC1310"]);
    check("store_connections: 1\n", &["store_connections", "4 to 500"]);
    check("tls_cert: a.pem\n", &["give both"]);
    check("tls_client_ca: a.pem\n", &["tls_client_ca", "tls_cert"]);
    check("tls_client_auth: workers\n", &["tls_client_auth"]);
    check("tls_client_auth: some\n", &["SC7008", "1:18:"]);
    check("log: debgu\n", &["log", "debgu", "debug"]);
    // All at once.
    check(
        "beat: 10ms\nstore_connections: 1\n",
        &["beat", "store_connections"],
    );
}

#[test]
fn each_length_has_its_bounds() {
    let whole = serde_json::to_value(ServerConfig::defaults()).unwrap();
    let lengths = whole.as_object().unwrap().iter();
    let lengths = lengths.filter(|(_, v)| v.as_str().is_some_and(|v| v.parse::<Length>().is_ok()));
    let mut keys: Vec<&str> = lengths.map(|(key, _)| key.as_str()).collect();
    let mut bounded: Vec<&str> = BOUNDS.iter().map(|b| b.key).collect();
    keys.sort_unstable();
    bounded.sort_unstable();
    assert_eq!(keys, bounded);
}

#[test]
fn a_password_is_not_shown() {
    let file = parsed("store: postgres://me:secret@db/x?password=secret\n").unwrap();
    let shown = serde_json::to_string(&file.whole()).unwrap();
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn each_value_says_where_it_came_from() {
    let said = [Said {
        key: "listen",
        flag: Some("--listen"),
        variable: None,
    }];
    let file = Map::from_iter([("beat".to_owned(), Value::from("2s"))]);
    let config = Map::from_iter(["listen", "beat", "retention"].map(|k| (k.into(), "".into())));
    for words in [["--listen", "x"], ["--listen=x", "y"]] {
        let words = words.map(str::to_owned);
        let file = Some((Path::new("f"), &file));
        let found = settings(config.clone(), &said, file, &words);
        let of = |key: &str| &found.iter().find(|s| s.key == key).unwrap().origin;
        assert_eq!(of("listen"), &Origin::Flag("--listen".into()));
        assert_eq!(of("beat"), &Origin::File("f".into()));
        assert_eq!(of("retention"), &Origin::Default);
    }
}

/// The file of the guide on single sign-on can be pasted, and what is wrong with one is said at once.
#[test]
fn the_guide_s_file_of_a_provider_is_right_and_wrong_ones_are_refused() {
    let guide = include_str!("../../../../docs/guide/single-sign-on.md");
    let good = guide.split("```yaml\n").nth(1).unwrap();
    let good = good.split("```").next().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("oidc.yaml");
    let load = |text: &str| {
        std::fs::write(&path, text).unwrap();
        super::oidc::load(&path)
    };
    load(good).unwrap();
    for (from, to, told) in [
        (
            "https://login",
            "http://login",
            "issuer: \"http://login.example.com/realms/main\" must begin",
        ),
        (
            "https://sichen.example.com ",
            "sichen ",
            "console: \"sichen\" is no address",
        ),
        ("role: admin", "role: admn", "did you mean `admin`?"),
        (
            "claim: groups, value: sichen",
            "value: sichen",
            "roles[0].claim: give `claim` and `value`",
        ),
        (
            "namespace: payments",
            "namespace: Pay",
            "roles[1].the namespace \"Pay\"",
        ),
        (
            "client_id: sichen",
            "client_id: ''",
            "client_id: give a text",
        ),
        ("user: pref", "usr: pref", "usr"),
        (
            "scopes: [profile, groups]",
            "scopes: ['a b']",
            "scopes: at most",
        ),
    ] {
        assert!(good.contains(from), "{from}");
        let refused = load(&good.replace(from, to)).unwrap_err().to_string();
        assert!(refused.contains(told), "{refused}");
    }
}
