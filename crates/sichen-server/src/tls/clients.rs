//! Certificates of clients: who vouches for them, and whom they name.
//!
//! A certificate names somebody by a URI among its alternative names: `sichen:token/NAME` stands for the
//! access token of that name, with its rights, its end and its taking back, but without its secret;
//! `sichen:worker/NAME` says that only the worker of that name may show it. It may have several workers'.
//!
//! # Invariants
//! - What is not understood opens nothing: a certificate with an unknown `sichen:` name, or with too many,
//!   stands for no token and may be shown by no worker.
//!
//! # Not here
//! What a token may do ([`crate::access`]); the handshake itself ([`super`]).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use webpki::EndEntityCert;

use super::Error;

/// Names that one client's certificate may have for Sichen; with more it stands for nobody.
pub const MAX_CERTIFICATE_NAMES: usize = 100;
/// What those names begin with.
const SCHEME: &str = "sichen:";

/// From whom a certificate is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// From nobody; one that is shown must be good.
    Optional,
    /// From workers: without one no session begins.
    Workers,
    /// From everybody: without one no connection is made.
    Required,
}

/// The certificates of clients that are believed.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Who vouches for them, PEM.
    pub ca: PathBuf,
    /// From whom one is wanted.
    pub wanted: Wanted,
}

/// Whom a client's certificate names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    tokens: Vec<String>,
    workers: Vec<String>,
    /// Whether it has names that are not understood, or too many.
    unclear: bool,
}

impl Peer {
    /// Whom the certificate of a connection names; the handshake has found it good.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Self {
        match EndEntityCert::try_from(certificate) {
            Ok(certificate) => Self::named(certificate.valid_uri_names()),
            Err(_) => Self::unclear(),
        }
    }

    fn unclear() -> Self {
        Self {
            unclear: true,
            ..Self::default()
        }
    }

    pub(super) fn named<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut peer = Self::default();
        let ours = |name: &&str| {
            let begin = name.get(..SCHEME.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(SCHEME))
        };
        for name in names.filter(ours) {
            match name[SCHEME.len()..].split_once('/') {
                Some(("token", name)) if !name.is_empty() => peer.tokens.push(name.to_owned()),
                Some(("worker", name)) if !name.is_empty() => peer.workers.push(name.to_owned()),
                _ => return Self::unclear(),
            }
            if peer.tokens.len() + peer.workers.len() > MAX_CERTIFICATE_NAMES {
                return Self::unclear();
            }
        }
        peer
    }

    /// The access token that it stands for. One of several is none: which would be a guess.
    pub(crate) fn token(&self) -> Option<&str> {
        match &*self.tokens {
            [name] => Some(name),
            _ => None,
        }
    }

    /// Whether it says which workers may show it.
    pub(crate) fn binds_worker(&self) -> bool {
        !self.workers.is_empty()
    }

    /// Whether a worker of this name may show it.
    pub(crate) fn may_be_worker(&self, name: &str) -> bool {
        !self.unclear
            && (self.workers.is_empty() || self.workers.iter().any(|worker| worker == name))
    }
}

/// Judges clients' certificates in a handshake.
pub(super) fn judge(
    clients: &Clients,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots(&clients.ca)?), provider);
    let builder = match clients.wanted {
        Wanted::Required => builder,
        Wanted::Optional | Wanted::Workers => builder.allow_unauthenticated(),
    };
    builder.build().map_err(|e| bad(&clients.ca, e.to_string()))
}

fn roots(path: &Path) -> Result<RootCertStore, Error> {
    let text = std::fs::read(path).map_err(|source| Error::Io {
        path: path.to_owned(),
        source,
    })?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|e| bad(path, e.to_string()))?;
        roots
            .add(certificate)
            .map_err(|e| bad(path, e.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(bad(path, "there is none in it".to_owned())),
        false => Ok(roots),
    }
}

fn bad(path: &Path, why: String) -> Error {
    Error::Clients {
        path: path.to_owned(),
        why,
    }
}
