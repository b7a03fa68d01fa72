//! Which servers are believed to be who they say: the client's side of TLS.
//!
//! # Invariants
//! - With a CA file its certificates alone are trusted; without one, those of this machine.
//!
//! # Not here
//! The worker's own connections (`sichen_sdk`), the server's certificate (`sichen_server::tls`).

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::failure::Failure;

/// How connections to servers are checked.
///
/// # Errors
/// A file that can't be read or holds no certificate.
pub fn config(ca_file: Option<&Path>) -> Result<ClientConfig, Failure> {
    let roots = match ca_file {
        Some(path) => from_file(path)?,
        None => of_this_machine(),
    };
    with(roots)
}

fn with(roots: RootCertStore) -> Result<ClientConfig, Failure> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| Failure::usage(format!("SC7013: TLS can't be used: {e}")))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// For connections without TLS, which trust nobody.
///
/// # Errors
/// None that is known.
pub fn none() -> Result<ClientConfig, Failure> {
    with(RootCertStore::empty())
}

fn from_file(path: &Path) -> Result<RootCertStore, Failure> {
    let bad = |why: String| {
        Failure::usage(format!(
            "SC7013: {} holds no certificates in PEM that can be trusted: {why}",
            path.display()
        ))
    };
    let text = std::fs::read(path).map_err(|e| bad(e.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|e| bad(e.to_string()))?;
        roots.add(certificate).map_err(|e| bad(e.to_string()))?;
    }
    if roots.is_empty() {
        return Err(bad("there is none in it".to_owned()));
    }
    Ok(roots)
}

/// What the system trusts. What can't be read is passed over: a server whose root is missing is
/// refused all the same.
fn of_this_machine() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}
