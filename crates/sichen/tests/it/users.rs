//! `sichen user` against a real server.

use std::io::Write as _;
use std::process::{Output, Stdio};

use crate::program::{Client, err, out, start};
use crate::tls::{Authority, openssl_asks, server};

const PASSWORD: &str = "correct horse battery";

/// Runs a command with a text on its standard input.
fn with_input(client: &Client, words: &str, text: &str) -> Output {
    let mut command = client.command(words);
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn users_are_made_and_changed_by_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let server = start(&["server", "--listen", "127.0.0.1:0", "--data", data]);
    let client = Client::new(&server.url, dir.path());
    let add = "user add alice --role operator --namespace payments --also reports=viewer";
    let short = with_input(&client, add, "short\n");
    assert!(err(&short).contains("SC6037"), "{}", err(&short));
    assert!(
        !client.ok("user list").contains("alice"),
        "nobody is half made"
    );
    let password = format!("{PASSWORD}\n");
    let made = with_input(&client, add, &password);
    assert!(
        out(&made).contains("payments=operator reports=viewer"),
        "{}",
        err(&made)
    );
    let set = with_input(&client, "user password alice", &password);
    assert!(set.status.success(), "{}", err(&set));
    let listed = client.ok("user list");
    assert!(
        listed.contains("alice") && listed.contains("active"),
        "{listed}"
    );
    let again = with_input(&client, add, &password);
    assert!(err(&again).contains("SC6035"), "{}", err(&again));
    client.ok("user roles alice --role viewer --namespace *");
    let disabled = client.ok("user disable alice");
    assert!(
        disabled.contains("*=viewer") && disabled.contains("disabled"),
        "{disabled}"
    );
    client.ok("user enable alice");
    let without = client.ok("user password alice --none");
    assert!(without.contains("without a password"), "{without}");
    let missing = client.fails("user disable bob", 3);
    assert!(missing.contains("SC5001"), "{missing}");
    let made = client.ok("user add bob --role viewer --namespace payments --no-password");
    assert!(made.contains("without a password"), "{made}");
    let changes = client.ok("events --limit 100 -o json");
    for kind in [
        "user_created",
        "user_roles_set",
        "user_password_set",
        "user_disabled",
        "user_enabled",
    ] {
        assert!(changes.contains(kind), "{kind}");
    }
    assert!(!changes.contains(PASSWORD));
}

/// Over TLS the cookie is one that no neighbour of the host can set, and that never travels in clear.
#[test]
fn a_login_over_tls_gives_a_cookie_of_this_host_alone() {
    let authority = Authority::new();
    let data = authority.file("data");
    let (_server, url) = server(&authority, &data);
    let client = Client::new(&url, &data);
    let trust = format!("--ca-file {}", authority.ca());
    let add = format!("user add alice --role viewer --namespace payments {trust}");
    let made = with_input(&client, &add, &format!("{PASSWORD}\n"));
    assert!(made.status.success(), "{}", err(&made));
    let body = format!(r#"{{"user":"alice","password":"{PASSWORD}"}}"#);
    let head = |path: &str, more: &str, length: usize| {
        format!(
            "POST /api/v1{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{more}\
             content-length: {length}\r\n\r\n"
        )
    };
    let ask = format!("{}{body}", head("/login", "", body.len()));
    let Some(told) = openssl_asks(&authority, &url, &[], &ask) else {
        return;
    };
    let set = told.lines().find(|line| line.starts_with("set-cookie: "));
    let set = set.unwrap_or_else(|| panic!("{told}"));
    assert!(
        set.contains("__Host-sichen-login=scs_") && set.contains("; Secure"),
        "{set}"
    );
    let pair = set["set-cookie: ".len()..].split(';').next().unwrap();
    let plain = pair.trim_start_matches("__Host-");
    for (cookie, status) in [(plain, "401"), (pair, "200")] {
        let more = format!("cookie: {cookie}\r\nsichen-console: 1\r\n");
        let told = openssl_asks(&authority, &url, &[], &head("/logout", &more, 0)).unwrap();
        assert!(told.contains(&format!("HTTP/1.1 {status}")), "{told}");
    }
}
