//! Claims about the tokens of a provider, and lies.

use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::json;

use super::*;

const RSA: &[u8] = include_bytes!("../../../../../testdata/oidc/rsa.pk8");

fn packed(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

struct Provider {
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
}

impl Provider {
    fn new() -> Self {
        let chance = SystemRandom::new();
        let document =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &chance).unwrap();
        let ec =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &chance);
        Self {
            rsa: RsaKeyPair::from_pkcs8(RSA).unwrap(),
            ec: ec.unwrap(),
        }
    }

    fn document(&self) -> Value {
        let point = self.ec.public_key().as_ref();
        let public = RsaPublicKeyComponents::<Vec<u8>>::from(self.rsa.public());
        let (n, e) = (&public.n, &public.e);
        json!({"keys": [
            {"kty": "RSA", "kid": "r", "use": "sig", "alg": "RS256", "n": packed(n), "e": packed(e)},
            {"kty": "EC", "kid": "e", "crv": "P-256", "x": packed(&point[1..33]), "y": packed(&point[33..])},
            {"kty": "RSA", "kid": "secret", "use": "enc", "n": packed(n), "e": packed(e)},
            {"kty": "oct", "kid": "o", "k": "AAAA"},
            {"kty": "OKP", "kid": "x", "crv": "Ed25519", "x": "AAAA"},
            7,
        ]})
    }

    fn keys(&self) -> Keys {
        Keys::read(self.document().to_string().as_bytes()).unwrap()
    }

    fn sign(&self, head: &Value, claims: &Value) -> String {
        let part = |value: &Value| packed(value.to_string().as_bytes());
        let message = format!("{}.{}", part(head), part(claims));
        let chance = SystemRandom::new();
        let signature = match head["alg"].as_str() {
            Some("RS256") => {
                let mut signature = vec![0; self.rsa.public().modulus_len()];
                let text = message.as_bytes();
                self.rsa
                    .sign(&RSA_PKCS1_SHA256, &chance, text, &mut signature)
                    .unwrap();
                signature
            }
            Some("ES256") => self
                .ec
                .sign(&chance, message.as_bytes())
                .unwrap()
                .as_ref()
                .to_vec(),
            _ => Vec::new(),
        };
        format!("{message}.{}", packed(&signature))
    }
}

const NOW: i64 = 1_800_000_000;

fn good() -> Value {
    json!({
        "iss": "https://login.example", "aud": "sichen", "sub": "1", "nonce": "n", "exp": NOW + 300,
        "iat": NOW - 5,
    })
}

fn judged(keys: &Keys, token: &str) -> Result<Claims, Bad> {
    let expected = Expected {
        issuer: "https://login.example",
        client: "sichen",
        nonce: "n",
    };
    read(token, keys, expected, Timestamp::from_second(NOW).unwrap())
}

#[test]
fn what_a_known_key_has_signed_is_believed() {
    let provider = Provider::new();
    let keys = provider.keys();
    assert_eq!(keys.0.len(), 2, "others are passed over");
    for head in [
        json!({"alg": "RS256", "kid": "r"}),
        json!({"alg": "ES256", "kid": "e", "typ": "JWT"}),
        json!({"alg": "RS256"}),
    ] {
        let claims = judged(&keys, &provider.sign(&head, &good())).unwrap();
        assert_eq!(claims.subject, "1");
    }
}

#[test]
fn no_token_chooses_how_it_is_judged() {
    let provider = Provider::new();
    let keys = provider.keys();
    let none = provider.sign(&json!({"alg": "none"}), &good());
    assert_eq!(judged(&keys, &none), Err(Bad::Algorithm));
    // The public key, taken for a secret.
    let public = provider.rsa.public().as_ref();
    let head = packed(json!({"alg": "HS256", "kid": "r"}).to_string().as_bytes());
    let message = format!("{head}.{}", packed(good().to_string().as_bytes()));
    let tag = hmac::sign(
        &hmac::Key::new(hmac::HMAC_SHA256, public),
        message.as_bytes(),
    );
    let forged = format!("{message}.{}", packed(tag.as_ref()));
    assert_eq!(judged(&keys, &forged), Err(Bad::Algorithm));
    for (head, bad) in [
        (json!({"alg": "RS256", "kid": "gone"}), Bad::UnknownKey),
        (json!({"alg": "ES256", "kid": "r"}), Bad::UnknownKey),
        (json!({"alg": "RS256", "kid": "secret"}), Bad::UnknownKey),
        (json!({"alg": "rs256", "kid": "r"}), Bad::Algorithm),
        (json!({"alg": "PS256", "kid": "r"}), Bad::Algorithm),
    ] {
        assert_eq!(
            judged(&keys, &provider.sign(&head, &good())),
            Err(bad),
            "{head}"
        );
    }
    let crit = json!({"alg": "RS256", "kid": "r", "crit": ["x"]});
    assert!(matches!(
        judged(&keys, &provider.sign(&crit, &good())),
        Err(Bad::Malformed(_))
    ));
}

#[test]
fn what_was_changed_or_signed_by_another_is_not_believed() {
    let provider = Provider::new();
    let keys = provider.keys();
    let head = json!({"alg": "ES256", "kid": "e"});
    let token = provider.sign(&head, &good());
    let other = Provider::new();
    assert_eq!(judged(&other.keys(), &token), Err(Bad::Signature));
    let mut changed = good();
    changed["sub"] = "2".into();
    let parts: Vec<&str> = token.split('.').collect();
    let claims = packed(changed.to_string().as_bytes());
    let forged = format!("{}.{claims}.{}", parts[0], parts[2]);
    assert_eq!(judged(&keys, &forged), Err(Bad::Signature));
    let bare = format!("{}.{}.", parts[0], parts[1]);
    assert_eq!(judged(&keys, &bare), Err(Bad::Signature));
    for text in [
        "",
        ".",
        "..",
        "a.b.c",
        &format!("{token}="),
        &"x".repeat(MAX_TOKEN_BYTES + 1),
    ] {
        assert!(
            matches!(judged(&keys, text), Err(Bad::Malformed(_))),
            "{text}"
        );
    }
}

#[test]
fn each_claim_must_be_as_expected() {
    let provider = Provider::new();
    let keys = provider.keys();
    let said = |name: &str, value: Value| {
        let mut claims = good();
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value,
        }
        judged(
            &keys,
            &provider.sign(&json!({"alg": "RS256", "kid": "r"}), &claims),
        )
        .map(|_| ())
    };
    for (name, value, bad) in [
        ("iss", json!("https://login.example/"), Bad::Issuer),
        ("iss", Value::Null, Bad::Issuer),
        ("aud", json!("other"), Bad::Audience),
        ("aud", json!(["other"]), Bad::Audience),
        ("aud", json!(["sichen", "other"]), Bad::Audience),
        ("aud", Value::Null, Bad::Audience),
        ("azp", json!("other"), Bad::Audience),
        ("exp", json!(NOW - MAX_SKEW_SECONDS), Bad::Expired),
        ("exp", json!(NOW.to_string()), Bad::Expired),
        ("exp", Value::Null, Bad::Expired),
        ("nbf", json!(NOW + MAX_SKEW_SECONDS + 1), Bad::Early),
        ("nbf", json!("soon"), Bad::Early),
        ("iat", json!(NOW + MAX_SKEW_SECONDS + 1), Bad::Early),
        ("nonce", json!("m"), Bad::Nonce),
        ("nonce", Value::Null, Bad::Nonce),
        ("sub", json!(""), Bad::Subject),
        ("sub", json!(1), Bad::Subject),
        (
            "sub",
            json!("x".repeat(MAX_SUBJECT_BYTES + 1)),
            Bad::Subject,
        ),
    ] {
        assert_eq!(said(name, value.clone()), Err(bad), "{name} {value}");
    }
    for (name, value) in [
        ("aud", json!(["sichen"])),
        ("azp", json!("sichen")),
        ("exp", json!(NOW - MAX_SKEW_SECONDS + 1)),
        ("exp", json!(NOW as f64 + 0.5)),
        ("nbf", json!(NOW + MAX_SKEW_SECONDS)),
        ("iat", Value::Null),
    ] {
        assert_eq!(said(name, value.clone()), Ok(()), "{name} {value}");
    }
}
