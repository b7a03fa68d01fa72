//! Secrets among real processes: none is built in.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::program::{command, spawned};

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
                .is_some_and(|(_, p)| !p.starts_with(['<', '$', '{', '*']))
        })
    });
    token || inline || password
}
