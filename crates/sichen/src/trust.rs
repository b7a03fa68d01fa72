//! Which servers are believed to be who they say, and as whom the client shows itself: the client's side
//! of TLS.
//!
//! # Invariants
//! - With a CA file its certificates alone are trusted; without one, those of this machine.
//!
//! # Not here
//! The worker's own connections (`sichen_sdk`), the server's certificate (`sichen_server::tls`).

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::failure::Failure;

/// How connections to servers are checked, with the client's `own` certificate and key.
///
/// # Errors
/// A file that can't be read or holds no certificate or key.
pub fn config(
    ca_file: Option<&Path>,
    own: Option<(&Path, &Path)>,
) -> Result<ClientConfig, Failure> {
    let roots = match ca_file {
        Some(path) => from_file(path)?,
        None => of_this_machine(),
    };
    with(roots, own)
}

fn with(roots: RootCertStore, own: Option<(&Path, &Path)>) -> Result<ClientConfig, Failure> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| Failure::usage(format!("SC7013: TLS can't be used: {e}")))?;
    let config = config.with_root_certificates(roots);
    let Some((cert, key)) = own else {
        return Ok(config.with_no_client_auth());
    };
    let bad = |path: &Path, why: String| {
        Failure::usage(format!(
            "SC7016: {} can't be shown to a server: {why}",
            path.display()
        ))
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(cert)
        .map_err(|e| bad(cert, e.to_string()))?
        .collect();
    let chain = chain.map_err(|e| bad(cert, e.to_string()))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|e| bad(key, e.to_string()))?;
    config
        .with_client_auth_cert(chain, private)
        .map_err(|e| bad(cert, e.to_string()))
}

/// For connections without TLS, which trust nobody.
///
/// # Errors
/// None that is known.
pub fn none() -> Result<ClientConfig, Failure> {
    with(RootCertStore::empty(), None)
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
