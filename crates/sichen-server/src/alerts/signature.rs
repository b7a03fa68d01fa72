//! By what a receiver knows that a notice is from here, and new.
//!
//! The header is `t=SECONDS,v1=HEX`: the time of sending, and HMAC-SHA256 with the receiver's secret of
//! that number, a full stop and the body. (The form is the one that payment services made usual.)
//!
//! # Not here
//! Where the secret is from (the configuration).

use ring::hmac;

/// The header's name.
pub const HEADER: &str = "sichen-signature";

/// What the header says of `body`, sent `seconds` after 1970.
#[must_use]
pub fn header(secret: &str, seconds: u64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signed = hmac::sign(&key, format!("{seconds}.{body}").as_bytes());
    let hex: String = signed.as_ref().iter().map(|b| format!("{b:02x}")).collect();
    format!("t={seconds},v1={hex}")
}
