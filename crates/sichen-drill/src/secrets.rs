//! Keeps secrets out of what a drill leaves behind.
//!
//! # Invariants
//! - A secret that is known is nowhere in a text that was masked, whatever stands around it.
//! - So is the password of any address, known or not.
//!
//! # Not here
//! Which files are masked ([`crate::folder`]).

/// In place of a secret.
pub const MASK: &str = "***";
/// Shorter ones would be found everywhere by chance.
const SHORTEST: usize = 6;

/// What must not be shown.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// One more.
    pub fn add(&mut self, secret: &str) {
        let secret = secret.trim();
        if secret.len() >= SHORTEST && !self.0.iter().any(|s| s == secret) {
            self.0.push(secret.to_owned());
            // One that contains another goes first.
            self.0.sort_by_key(|s| std::cmp::Reverse(s.len()));
        }
    }

    /// The password in an address, if it has one.
    pub fn add_address(&mut self, address: &str) {
        if let Some((_, password)) = passwords(address).next() {
            self.add(password);
        }
    }

    /// `text` without them.
    #[must_use]
    pub fn mask(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.0 {
            text = text.replace(secret.as_str(), MASK);
        }
        let mut masked = String::with_capacity(text.len());
        let mut from = 0;
        for (at, password) in passwords(&text) {
            masked.push_str(&text[from..at]);
            masked.push_str(MASK);
            from = at + password.len();
        }
        masked.push_str(&text[from..]);
        masked
    }

    /// Whether a secret is in `text`.
    #[must_use]
    pub fn is_in(&self, text: &str) -> bool {
        self.0.iter().any(|s| text.contains(s.as_str()))
            || passwords(text).any(|(_, password)| password != MASK)
    }
}

/// The passwords of all addresses (`scheme://user:password@`, `password=`) in a text, by their places.
fn passwords(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let in_authority = text.match_indices("://").filter_map(|(at, sign)| {
        let from = at + sign.len();
        let rest = &text[from..];
        let end = rest
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '"' | '\'' | '?'))
            .unwrap_or(rest.len());
        let (who, _) = rest[..end].rsplit_once('@')?;
        let (user, password) = who.split_once(':')?;
        (!password.is_empty()).then_some((from + user.len() + 1, password))
    });
    let in_pairs = text.match_indices("password=").filter_map(|(at, sign)| {
        let from = at + sign.len();
        let rest = &text[from..];
        let end = rest
            .find(|c: char| c.is_whitespace() || matches!(c, '&' | '"' | '\''))
            .unwrap_or(rest.len());
        (end > 0).then_some((from, &rest[..end]))
    });
    let mut all: Vec<(usize, &str)> = in_authority.chain(in_pairs).collect();
    all.sort_unstable();
    // A pair inside an authority is a part of what is masked already.
    let mut past = 0;
    all.retain(|(at, password)| {
        let apart = *at >= past;
        past = past.max(at + password.len());
        apart
    });
    all.into_iter()
}

#[cfg(test)]
mod tests;
