//! What a provider says of somebody: claims in JSON, signed.
//!
//! # Invariants
//! - Only RS256 and ES256, each by a key of its own kind: no token chooses how it is judged, and a public key
//!   is never taken for a secret.
//! - No claim is looked at before the signature holds.
//!
//! # Not here
//! Where keys come from ([`super::remote`]), what claims are worth ([`super::mapping`]).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The longest token that is looked at, in bytes.
pub const MAX_TOKEN_BYTES: usize = 32_768;
/// How far a provider's clock may be from the store's, in seconds.
pub const MAX_SKEW_SECONDS: i64 = 60;
/// Keys of one provider; what is beyond is passed over.
pub const MAX_KEYS: usize = 100;
/// The longest name by which a provider knows somebody, in bytes: what the standard allows.
pub const MAX_SUBJECT_BYTES: usize = 255;

/// Why a token is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Bad {
    #[error("it is no signed token ({0})")]
    Malformed(&'static str),
    #[error("its signature is of a kind that is not taken; RS256 and ES256 are")]
    Algorithm,
    #[error("none of the provider's keys is the one it names")]
    UnknownKey,
    #[error("its signature does not hold")]
    Signature,
    #[error("it is another issuer's")]
    Issuer,
    #[error("it is for somebody else than this client")]
    Audience,
    #[error("it is over, or says no time at which it is")]
    Expired,
    #[error("it begins later")]
    Early,
    #[error("it answers another login than this one")]
    Nonce,
    #[error("it names nobody, or with more than {MAX_SUBJECT_BYTES} bytes")]
    Subject,
}

/// A key that may have signed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    id: Option<String>,
    public: Public,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Public {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
}

impl Public {
    /// Whether `signature` is this key's under `message`.
    fn signed(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Public::Rsa { n, e } => {
                let key = RsaPublicKeyComponents { n, e };
                let held = key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature);
                held.is_ok()
            }
            Public::P256(point) => {
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
                key.verify(message, signature).is_ok()
            }
        }
    }

    /// The word that a token has for this kind of signature.
    fn algorithm(&self) -> &'static str {
        match self {
            Public::Rsa { .. } => "RS256",
            Public::P256(_) => "ES256",
        }
    }
}

/// The keys of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys(Vec<Key>);

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct KeyParts {
    kty: String,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    kid: Option<String>,
    crv: Option<String>,
    n: String,
    e: String,
    x: String,
    y: String,
}

impl KeyParts {
    fn key(self) -> Option<Key> {
        if self.purpose.is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let public = match self.kty.as_str() {
            "RSA" => Public::Rsa {
                n: number(&self.n)?,
                e: number(&self.e)?,
            },
            "EC" if self.crv.as_deref() == Some("P-256") => {
                let (x, y) = (unpacked(&self.x)?, unpacked(&self.y)?);
                let whole = x.len() == 32 && y.len() == 32;
                whole.then(|| Public::P256([vec![4], x, y].concat()))?
            }
            _ => return None,
        };
        let fits = self.alg.is_none_or(|alg| alg == public.algorithm());
        fits.then_some(Key {
            id: self.kid,
            public,
        })
    }
}

impl Keys {
    /// Those of a document of keys that can sign what is taken; others are passed over.
    ///
    /// # Errors
    /// If it is no such document.
    pub(crate) fn read(document: &[u8]) -> Result<Self, Bad> {
        let set: KeySet =
            serde_json::from_slice(document).map_err(|_| Bad::Malformed("a list of keys"))?;
        let parts = set.keys.into_iter().take(MAX_KEYS);
        let parts = parts.filter_map(|key| serde_json::from_value::<KeyParts>(key).ok());
        Ok(Self(parts.filter_map(KeyParts::key).collect()))
    }

    /// Those by which a token with this head may be signed.
    fn of(&self, head: &Head) -> Result<Vec<&Public>, Bad> {
        if !["RS256", "ES256"].contains(&head.alg.as_str()) {
            return Err(Bad::Algorithm);
        }
        let of_kind = self
            .0
            .iter()
            .filter(|key| key.public.algorithm() == head.alg);
        let named = of_kind.filter(|key| head.kid.is_none() || key.id == head.kid);
        let named: Vec<&Public> = named.map(|key| &key.public).collect();
        match named.len() {
            0 => Err(Bad::UnknownKey),
            // Which of several is meant must be said.
            2.. if head.kid.is_none() => Err(Bad::UnknownKey),
            _ => Ok(named),
        }
    }
}

#[derive(Deserialize)]
struct Head {
    alg: String,
    kid: Option<String>,
    /// What must be understood to judge it; nothing of that is.
    crit: Option<Value>,
}

/// What a token must say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    pub issuer: &'a str,
    pub client: &'a str,
    pub nonce: &'a str,
}

/// What a provider says of somebody.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claims {
    /// By which the provider knows him, always the same.
    pub subject: String,
    pub all: Map<String, Value>,
}

/// What `token` says, if it is signed by one of `keys` and as `expected` at `now`.
pub(crate) fn read(
    token: &str,
    keys: &Keys,
    expected: Expected<'_>,
    now: Timestamp,
) -> Result<Claims, Bad> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(Bad::Malformed("too long"));
    }
    let (message, signature) = token.rsplit_once('.').ok_or(Bad::Malformed("parts"))?;
    let (head, claims) = message.split_once('.').ok_or(Bad::Malformed("parts"))?;
    let part = |text: &str| unpacked(text).ok_or(Bad::Malformed("base64"));
    let head: Head =
        serde_json::from_slice(&part(head)?).map_err(|_| Bad::Malformed("its head"))?;
    if head.crit.is_some() {
        return Err(Bad::Malformed("its head has what must be understood"));
    }
    let signature = part(signature)?;
    let candidates = keys.of(&head)?;
    if !candidates
        .iter()
        .any(|key| key.signed(message.as_bytes(), &signature))
    {
        return Err(Bad::Signature);
    }
    let claims = serde_json::from_slice(&part(claims)?);
    judge(
        claims.map_err(|_| Bad::Malformed("its claims"))?,
        expected,
        now,
    )
}

fn judge(all: Map<String, Value>, expected: Expected<'_>, now: Timestamp) -> Result<Claims, Bad> {
    let text = |name: &str| all.get(name).and_then(Value::as_str);
    if text("iss") != Some(expected.issuer) {
        return Err(Bad::Issuer);
    }
    let is_client = |value: &Value| value.as_str() == Some(expected.client);
    let (is_for, others) = match all.get("aud") {
        Some(Value::Array(many)) => (many.iter().any(is_client), many.len() > 1),
        Some(one) => (is_client(one), false),
        None => (false, false),
    };
    // Among several, one asked for it.
    let asked_for = match all.get("azp") {
        Some(party) => is_client(party),
        None => !others,
    };
    if !is_for || !asked_for {
        return Err(Bad::Audience);
    }
    let now = now.as_second();
    let second = |name: &str| all.get(name).map(seconds);
    let end = second("exp").flatten().ok_or(Bad::Expired)?;
    if now >= end.saturating_add(MAX_SKEW_SECONDS) {
        return Err(Bad::Expired);
    }
    for name in ["nbf", "iat"] {
        // One that is there and no number is no time that has come.
        let begins = second(name).map(|begins| begins.unwrap_or(i64::MAX));
        if begins.is_some_and(|begins| begins > now.saturating_add(MAX_SKEW_SECONDS)) {
            return Err(Bad::Early);
        }
    }
    if text("nonce") != Some(expected.nonce) {
        return Err(Bad::Nonce);
    }
    let subject = text("sub").map(str::to_owned);
    let subject = subject.filter(|s| !s.is_empty() && s.len() <= MAX_SUBJECT_BYTES);
    let subject = subject.ok_or(Bad::Subject)?;
    Ok(Claims { subject, all })
}

/// Seconds since 1970, which may have a fraction.
fn seconds(value: &Value) -> Option<i64> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a number beyond all times stays beyond them"
    )]
    let floor = |number: f64| number.is_finite().then(|| number.floor() as i64);
    value.as_i64().or_else(|| value.as_f64().and_then(floor))
}

fn unpacked(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// A number without zeros before it.
fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = unpacked(text)?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let bytes = bytes[zeros..].to_vec();
    (!bytes.is_empty()).then_some(bytes)
}

#[cfg(test)]
mod tests;
