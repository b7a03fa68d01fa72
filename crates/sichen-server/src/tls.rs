//! The server's certificate and key: read from PEM files, and read again when they change.
//!
//! # Invariants
//! - TLS 1.2 and 1.3 alone, by one provider (ring).
//! - A key that others may read is refused. A renewed certificate that can't be used leaves the old
//!   one in force.
//!
//! # Not here
//! Accepting connections ([`crate::server`]), whom clients trust, certificates of clients.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Why a certificate can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file can't be read.
    #[error("SC6021: {path} can't be read: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("SC6021: {path} holds no {what} in PEM: {why}")]
    Pem {
        /// The file.
        path: PathBuf,
        /// Certificate, or private key.
        what: &'static str,
        /// More.
        why: String,
    },
    /// Everybody may read the key.
    #[error(
        "SC6022: the key {path} may be read by everybody (mode {mode:04o}); run `chmod 600 {path}`"
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// They do not fit.
    #[error("SC6023: the certificate {cert} and the key {key} can't be used together: {why}")]
    Pair {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// Makes ring the provider of everything in this process that does not choose one. May be called
/// more than once.
pub fn use_ring() {
    // It fails if one was chosen before: then this was done already.
    let _ = ring::default_provider().install_default();
}

/// A server's side of TLS.
#[derive(Debug)]
pub struct Tls {
    cert: PathBuf,
    key: PathBuf,
    /// What the files looked like when they were read.
    seen: Mutex<Option<[Look; 2]>>,
    current: Arc<Current>,
    config: Arc<ServerConfig>,
}

/// Tells whether a file was written anew.
type Look = (i64, i64, u64, u64);

#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let key = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Some(key.clone())
    }
}

impl Tls {
    /// Reads a certificate (with its chain, the server's own first) and its private key.
    ///
    /// # Errors
    /// [`Error`] names the file and what to do.
    pub fn open(cert: &Path, key: &Path) -> Result<Self, Error> {
        let provider = Arc::new(ring::default_provider());
        let seen = looks(cert, key);
        let current = Arc::new(Current(RwLock::new(Arc::new(read(cert, key, &provider)?))));
        let pair = |error: rustls::Error| Error::Pair {
            cert: cert.to_owned(),
            key: key.to_owned(),
            why: error.to_string(),
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(pair)?
            .with_no_client_auth()
            .with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            cert: cert.to_owned(),
            key: key.to_owned(),
            seen: Mutex::new(seen),
            current,
            config: Arc::new(config),
        })
    }

    /// Takes connections.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.clone())
    }

    /// Reads the files again if they have changed; whether it did. Connections that are open stay
    /// as they are.
    ///
    /// # Errors
    /// [`Error`]; the certificate before stays in force.
    pub fn renew(&self) -> Result<bool, Error> {
        let now = looks(&self.cert, &self.key);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if now == *seen {
            return Ok(false);
        }
        let read = read(&self.cert, &self.key, &ring::default_provider());
        // A bad pair is complained about once, not at every look.
        *seen = now;
        let read = Arc::new(read?);
        *self
            .current
            .0
            .write()
            .unwrap_or_else(PoisonError::into_inner) = read;
        Ok(true)
    }

    /// [`Tls::renew`] now and then, for ever.
    pub async fn watch(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            match self.renew() {
                Ok(false) => {}
                Ok(true) => {
                    tracing::info!(cert = %self.cert.display(), "the certificate was read anew");
                }
                Err(error) => {
                    tracing::error!(%error, "the renewed certificate can't be used; the one before stays in force");
                }
            }
        }
    }
}

fn looks(cert: &Path, key: &Path) -> Option<[Look; 2]> {
    let look = |path: &Path| {
        let meta = std::fs::metadata(path).ok()?;
        Some((meta.mtime(), meta.mtime_nsec(), meta.ino(), meta.len()))
    };
    Some([look(cert)?, look(key)?])
}

fn read(cert: &Path, key: &Path, provider: &CryptoProvider) -> Result<CertifiedKey, Error> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { path, source }
    };
    let pem = |path: &Path, what, why: String| Error::Pem {
        path: path.to_owned(),
        what,
        why,
    };
    let text = std::fs::read(cert).map_err(io(cert))?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|e| pem(cert, "certificate", e.to_string()))?;
    if chain.is_empty() {
        return Err(pem(cert, "certificate", "there is none in it".into()));
    }
    let mode = std::fs::metadata(key).map_err(io(key))?.mode() & 0o7777;
    if mode & 0o007 != 0 {
        let path = key.to_owned();
        return Err(Error::Open { path, mode });
    }
    let text = std::fs::read(key).map_err(io(key))?;
    let private =
        PrivateKeyDer::from_pem_slice(&text).map_err(|e| pem(key, "private key", e.to_string()))?;
    CertifiedKey::from_der(chain, private, provider).map_err(|error| Error::Pair {
        cert: cert.to_owned(),
        key: key.to_owned(),
        why: error.to_string(),
    })
}

#[cfg(test)]
mod tests;
