//! Claims about token files.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use sha2::{Digest as _, Sha256};

use super::{Error, JOIN_TOKEN_FILE, SAMPLES, Secret, TOKEN_FILE, Tokens, guessable, read};

/// SEC-001: no two installations share a secret.
#[test]
fn the_first_start_makes_two_secrets_for_their_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(dir.path()).unwrap();
    let api = read(&dir.path().join(TOKEN_FILE)).unwrap();
    let join = read(&dir.path().join(JOIN_TOKEN_FILE)).unwrap();
    assert_ne!(api, join);
    for name in [TOKEN_FILE, JOIN_TOKEN_FILE] {
        let meta = fs::metadata(dir.path().join(name)).unwrap();
        assert_eq!(meta.mode() & 0o777, 0o600, "{name}");
    }
    assert!(tokens.may_ask(&api) && tokens.may_join(&join));
    assert!(!tokens.may_ask(&join) && !tokens.may_join(&api));
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let other = tempfile::tempdir().unwrap();
    let elsewhere = Tokens::open(other.path()).unwrap();
    assert!(!elsewhere.may_ask(&api) && !elsewhere.may_join(&join));
}

#[test]
fn the_second_start_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    let _ = Tokens::open(dir.path()).unwrap();
    let api = read(&dir.path().join(TOKEN_FILE)).unwrap();
    assert!(Tokens::open(dir.path()).unwrap().may_ask(&api));
}

/// SEC-002.
#[test]
fn an_empty_or_foreign_token_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(dir.path()).unwrap();
    let api = read(&dir.path().join(TOKEN_FILE)).unwrap();
    let long = "a".repeat(100_000);
    let capitals = api.to_uppercase();
    let spaced = format!("{api} ");
    for wrong in ["", " ", "null", "x", &api[1..], &spaced, &capitals, &long] {
        assert!(!tokens.may_ask(wrong) && !tokens.may_join(wrong));
    }
}

#[test]
fn a_file_that_others_may_read_is_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let _ = Tokens::open(dir.path()).unwrap();
    let path = dir.path().join(TOKEN_FILE);
    for mode in [0o640, 0o604, 0o620, 0o660] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = Tokens::open(dir.path()).unwrap_err();
        assert!(matches!(error, Error::Open { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("chmod 600") && text.contains("SC6010"),
            "{text}"
        );
    }
}

/// SEC-001, SEC-002: neither nothing nor a sample of anybody's is a secret.
#[test]
fn a_file_without_a_secret_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let _ = Tokens::open(dir.path()).unwrap();
    let other = [
        "\n",
        " \t \n",
        "secret\n",
        "a b c d e f g h i j k l m n o p q r s t",
    ];
    for name in [TOKEN_FILE, JOIN_TOKEN_FILE] {
        let path = dir.path().join(name);
        let good = fs::read(&path).unwrap();
        for text in SAMPLES.into_iter().chain(other) {
            fs::write(&path, text).unwrap();
            let error = Tokens::open(dir.path()).unwrap_err();
            assert!(matches!(error, Error::Empty { .. }), "{text:?}: {error}");
        }
        fs::write(&path, good).unwrap();
    }
    assert!(Tokens::open(dir.path()).is_ok());
}

/// SEC-001: a text of the right length that somebody may know is none either, nor the digest of one.
#[test]
fn a_token_that_others_may_know_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let _ = Tokens::open(dir.path()).unwrap();
    let path = dir.path().join(TOKEN_FILE);
    let good = fs::read_to_string(&path).unwrap();
    let join = fs::read_to_string(dir.path().join(JOIN_TOKEN_FILE)).unwrap();
    let of = |text: &str, n: usize| text.repeat(n);
    for weak in [
        of("0", 64),
        of("changeme", 4),
        of("default_token", 3),
        of("admin/123456", 3),
        "0123456789abcdefghijklmnopqrstuvwxyz".to_owned(),
        join,
    ] {
        fs::write(&path, &weak).unwrap();
        let error = Tokens::open(dir.path()).unwrap_err();
        assert!(error.to_string().starts_with("SC6014"), "{weak}: {error}");
        assert!(!error.to_string().contains(weak.trim()), "{error}");
    }
    fs::write(&path, &good).unwrap();
    let digest_file = dir.path().join("token.sha256");
    for sample in SAMPLES {
        let digest = Secret::of(sample).to_string();
        fs::write(&digest_file, digest).unwrap();
        fs::set_permissions(&digest_file, fs::Permissions::from_mode(0o600)).unwrap();
        let error = Tokens::open(dir.path()).unwrap_err();
        assert!(matches!(error, Error::Known { .. }), "{sample}: {error}");
    }
}

/// What a start makes is never refused by the next.
#[test]
fn a_random_token_looks_like_none_that_others_know() {
    for _ in 0..2_000 {
        let (secret, _) = crate::access::new_secret().unwrap();
        let text = &secret[4..];
        assert_eq!(guessable(text.as_bytes()), None, "{text}");
        assert_eq!(guessable(&text.as_bytes()[..32]), None, "{text}");
    }
}

#[test]
fn tokens_are_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(dir.path()).unwrap();
    assert_eq!(format!("{tokens:?}"), "Tokens { .. }");
}

#[test]
fn a_digest_stands_for_the_token_that_is_kept_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(dir.path()).unwrap();
    let file = dir.path().join(TOKEN_FILE);
    let token = read(&file).unwrap();
    assert!(tokens.may_ask(&token));
    let digest: String = Sha256::digest(token.as_bytes())
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    let digest_file = dir.path().join("token.sha256");
    fs::remove_file(&file).unwrap();
    let put = |text: &str, mode: u32| {
        fs::write(&digest_file, text).unwrap();
        fs::set_permissions(&digest_file, fs::Permissions::from_mode(mode)).unwrap();
    };
    put(&format!("{digest}\n"), 0o600);
    let tokens = Tokens::open(dir.path()).unwrap();
    assert!(tokens.may_ask(&token) && !tokens.may_ask(&digest) && !tokens.may_ask(""));
    assert!(!file.exists(), "no token is made beside it");
    // Others must not be able to put a digest of their own there.
    put(&digest, 0o666);
    assert!(matches!(Tokens::open(dir.path()), Err(Error::Open { .. })));
    for text in ["", "abc", &"g".repeat(64)] {
        put(text, 0o600);
        assert!(matches!(
            Tokens::open(dir.path()),
            Err(Error::Digest { .. })
        ));
    }
}
