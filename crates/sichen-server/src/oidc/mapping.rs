//! Who somebody is here, and what he may do, by what a provider says of him.
//!
//! # Invariants
//! - Rights come from rules alone: who fits none has none, and is not let in.
//! - A name is only a name: whose it is, the provider's own name for him decides
//!   ([`sichen_core::user::Identity`]).
//!
//! # Not here
//! Whether what is said is true ([`super::token`]).

use serde_json::{Map, Value};
use sichen_core::access::{Error, Grants, Role};
use sichen_core::name::{self, Name};
use sichen_core::user::RESERVED;

/// Rules of one configuration.
pub const MAX_RULES: usize = 200;
/// Values of one claim that are looked at.
pub const MAX_VALUES: usize = 2_000;

/// A role for whoever fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The claim and the value that it must have, or have among others; everybody, if there is none.
    pub fits: Option<(String, String)>,
    /// Where, `*` for everywhere.
    pub namespace: String,
    /// What he is there.
    pub role: Role,
}

/// How claims are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The claim of which his name is made.
    pub user: String,
    /// Who gets which role.
    pub rules: Vec<Rule>,
}

/// Why somebody is not let in, though he is who he says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    #[error("the claim {0:?}, of which his name is made, is missing or no text")]
    Unnamed(String),
    #[error("his address {0:?} is one that the provider has not checked")]
    Unchecked(String),
    #[error("no name can be made of the claim {0:?}: it {1}")]
    Name(String, name::Error),
    #[error("the name {0:?} is nobody's")]
    Reserved(Name),
    #[error("no rule gives him a role")]
    Rights,
    #[error("his roles can't be kept: {0}")]
    TooMany(Error),
}

impl Mapping {
    /// Claims that are asked for.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = &str> {
        let of_rules = self.rules.iter().filter_map(|rule| rule.fits.as_ref());
        let of_rules = of_rules.map(|(claim, _)| claim.as_str());
        of_rules.chain([self.user.as_str()])
    }

    /// Who somebody is here, and what he may do.
    pub(crate) fn who(&self, claims: &Map<String, Value>) -> Result<(Name, Grants), Unfit> {
        let name = self.name(claims)?;
        let fitting = self.rules.iter().filter(|rule| rule.fits(claims));
        let given = fitting.map(|rule| (rule.namespace.as_str(), rule.role));
        match Grants::new(given) {
            Ok(grants) => Ok((name, grants)),
            Err(Error::Nothing) => Err(Unfit::Rights),
            Err(error) => Err(Unfit::TooMany(error)),
        }
    }

    fn name(&self, claims: &Map<String, Value>) -> Result<Name, Unfit> {
        let text = found(claims, &self.user).and_then(Value::as_str);
        let text = text.ok_or_else(|| Unfit::Unnamed(self.user.clone()))?;
        if self.user == "email" && claims.get("email_verified") == Some(&Value::Bool(false)) {
            return Err(Unfit::Unchecked(shortened(text)));
        }
        let bad = |error| Unfit::Name(self.user.clone(), error);
        let name = Name::new(&named(text)).map_err(bad)?;
        match name.as_str() == RESERVED {
            true => Err(Unfit::Reserved(name)),
            false => Ok(name),
        }
    }
}

impl Rule {
    fn fits(&self, claims: &Map<String, Value>) -> bool {
        let Some((claim, wanted)) = &self.fits else {
            return true;
        };
        let is_it = |value: &Value| match value {
            Value::String(text) => text == wanted,
            Value::Bool(told) => told.to_string() == *wanted,
            _ => false,
        };
        match found(claims, claim) {
            Some(Value::Array(many)) => many.iter().take(MAX_VALUES).any(is_it),
            Some(one) => is_it(one),
            None => false,
        }
    }
}

/// A claim by its name, or by the way to it through others (`realm_access.roles`).
pub(super) fn found<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let (first, rest) = name.split_once('.')?;
    found(claims.get(first)?.as_object()?, rest)
}

/// A text in the letters of names: what is none of them becomes a `-`.
fn named(text: &str) -> String {
    let text = text.trim().to_lowercase();
    let letter = |c: char| match c {
        'a'..='z' | '0'..='9' | '-' | '.' | '_' => c,
        _ => '-',
    };
    text.chars().map(letter).collect()
}

fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}

#[cfg(test)]
mod tests;
