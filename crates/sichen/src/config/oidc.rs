//! What a server is told about the provider by which people log in: a file of its own.
//!
//! # Invariants
//! - Unknown keys are refused, and all that is wrong is said at once.
//! - The secret is read from a file that its owner alone may read; it is no part of this one.
//!
//! # Not here
//! What becomes of it (`sichen_server::oidc`).

use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use sichen_core::access::{Grants, Role};
use sichen_core::name::nearest;
use sichen_server::auth;
use sichen_server::oidc::mapping::Mapping;
use sichen_server::oidc::{MAX_RULES, Oidc, Rule, Settings, check_address};

use super::{read, refused};
use crate::failure::{Exit, Failure};

/// The longest name, identifier or claim, in bytes.
const MAX_TEXT_BYTES: usize = 255;
/// Scopes that are asked for.
const MAX_SCOPES: usize = 20;

/// The file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OidcConfig {
    name: String,
    issuer: String,
    client_id: String,
    client_secret_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    console: String,
    scopes: Vec<String>,
    user: Option<String>,
    roles: Vec<RoleConfig>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleConfig {
    claim: Option<String>,
    value: Option<String>,
    namespace: String,
    role: String,
}

/// Reads the file and checks all that can be without its secret.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(path: &Path) -> Result<OidcConfig, Failure> {
    let config = read::<OidcConfig>(path)?.config;
    let problems = config.problems();
    match problems.is_empty() {
        true => Ok(config),
        false => Err(refused(&path.display().to_string(), &problems)),
    }
}

impl OidcConfig {
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let texts = [("name", &self.name), ("client_id", &self.client_id)];
        for (key, text) in texts {
            if text.trim().is_empty()
                || text.len() > MAX_TEXT_BYTES
                || text.contains(char::is_control)
            {
                problems.push(format!(
                    "{key}: give a text of at most {MAX_TEXT_BYTES} bytes"
                ));
            }
        }
        for (key, text) in [("issuer", &self.issuer), ("console", &self.console)] {
            if let Err(why) = check_address(text) {
                problems.push(format!("{key}: {text:?} {why}"));
            }
        }
        let is_scope = |scope: &String| {
            let letter = |b: u8| b.is_ascii_graphic() && b != b'"' && b != b'\\';
            !scope.is_empty() && scope.len() <= MAX_TEXT_BYTES && scope.bytes().all(letter)
        };
        if self.scopes.len() > MAX_SCOPES || !self.scopes.iter().all(is_scope) {
            problems.push(format!(
                "scopes: at most {MAX_SCOPES}, each a word such as `email`"
            ));
        }
        if self
            .user
            .as_ref()
            .is_some_and(|user| user.is_empty() || user.len() > MAX_TEXT_BYTES)
        {
            problems.push("user: name the claim of which a user's name is made".to_owned());
        }
        if self.roles.is_empty() || self.roles.len() > MAX_RULES {
            problems.push(format!(
                "roles: 1 to {MAX_RULES} are needed, or nobody could do anything"
            ));
        }
        for (i, role) in self.roles.iter().enumerate() {
            if let Err(why) = role.rule() {
                problems.push(format!("roles[{i}].{why}"));
            }
        }
        problems
    }

    /// The way by this provider, with its secret as it is now.
    ///
    /// # Errors
    /// A secret or a certificate that can't be read, or that others may read.
    pub fn open(&self) -> Result<Oidc, Failure> {
        let bad = |why: String| refused("the file of the provider", &[why]);
        let secret = self.client_secret_file.as_deref().map(auth::read_short);
        let secret = secret.transpose();
        let secret = secret.map_err(|e| Failure::new(Exit::Denied, e.to_string()))?;
        let roots = self.ca_file.as_deref().map(|path| {
            let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
            read.map_err(|e| bad(format!("ca_file: {} can't be used: {e}", path.display())))
        });
        let rules = self.roles.iter().map(RoleConfig::rule);
        let oidc = Oidc::new(Settings {
            name: self.name.trim().to_owned(),
            issuer: self.issuer.clone(),
            client: self.client_id.clone(),
            secret,
            console: check_address(&self.console).map_err(|why| bad(format!("console: {why}")))?,
            scopes: self.scopes.clone(),
            roots: roots.transpose()?,
            mapping: Mapping {
                user: self
                    .user
                    .clone()
                    .unwrap_or_else(|| "preferred_username".to_owned()),
                rules: rules.collect::<Result<_, _>>().map_err(bad)?,
            },
        });
        oidc.map_err(|why| Failure::new(Exit::Failed, format!("no way to the provider: {why}")))
    }
}

impl RoleConfig {
    fn rule(&self) -> Result<Rule, String> {
        let role = Role::parse(&self.role).ok_or_else(|| {
            let known: Vec<&str> = Role::ALL.iter().map(|role| role.word()).collect();
            let meant = nearest(&self.role, &known);
            let meant = meant.map_or(String::new(), |name| format!("; did you mean `{name}`?"));
            format!(
                "role: {:?} is none of {}{meant}",
                self.role,
                known.join(", ")
            )
        })?;
        Grants::new([(self.namespace.as_str(), role)]).map_err(|error| error.to_string())?;
        let fits = match (&self.claim, &self.value) {
            (Some(claim), Some(value)) if !claim.is_empty() => Some((claim.clone(), value.clone())),
            (None, None) => None,
            _ => {
                return Err(
                    "claim: give `claim` and `value` together, or neither for everybody".to_owned(),
                );
            }
        };
        Ok(Rule {
            fits,
            namespace: self.namespace.clone(),
            role,
        })
    }
}
