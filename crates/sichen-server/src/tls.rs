//! The server's certificate and key: read from PEM files, and read again when they change.
//!
//! # Invariants
//! - TLS 1.2 and 1.3 alone, by one provider (ring).
//! - A key that others may read is refused. A renewed file that can't be used leaves all of the old
//!   ones in force.
//! - Who vouches for clients is asked at each handshake, of which none is left out (no session of TLS is
//!   resumed), and again and again while a connection is open.
//!
//! # Not here
//! Accepting connections ([`crate::server`]), whom clients trust, whom their certificates name
//! ([`clients`]).

mod clients;

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

pub(crate) use clients::Peer;
pub use clients::{Clients, MAX_CERTIFICATE_NAMES, Wanted};

/// How often the files are looked at, and the certificate of a client that stays connected.
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
    /// It vouches for no clients.
    #[error("SC6025: {path} holds no certificates in PEM that can vouch for clients: {why}")]
    Clients {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
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
    clients: Option<Clients>,
    /// What the files looked like when they were read.
    seen: Mutex<Option<Vec<Look>>>,
    current: Arc<Current>,
    force: RwLock<Force>,
    /// How often the files were read anew.
    renewed: watch::Sender<u64>,
}

/// What handshakes go by.
#[derive(Clone, Debug)]
struct Force {
    config: Arc<ServerConfig>,
    /// Judges clients' certificates, if they are asked for them.
    judge: Option<Arc<dyn ClientCertVerifier>>,
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
        Self::open_to(cert, key, None)
    }

    /// The same, which asks clients for their certificates.
    ///
    /// # Errors
    /// [`Error`] names the file and what to do.
    pub fn open_to(cert: &Path, key: &Path, clients: Option<Clients>) -> Result<Self, Error> {
        let provider = Arc::new(ring::default_provider());
        // Before they are read: what is written meanwhile is seen at the next look.
        let seen = looks(cert, key, clients.as_ref());
        let pair = Arc::new(read(cert, key, &provider)?);
        let current = Arc::new(Current(RwLock::new(pair)));
        let force = force(current.clone(), clients.as_ref(), provider, (cert, key))?;
        Ok(Self {
            cert: cert.to_owned(),
            key: key.to_owned(),
            clients,
            seen: Mutex::new(seen),
            current,
            force: RwLock::new(force),
            renewed: watch::Sender::new(0),
        })
    }

    /// Whether workers must show a certificate.
    pub(crate) fn wants_of_workers(&self) -> bool {
        let wanted = self.clients.as_ref().map(|clients| clients.wanted);
        matches!(wanted, Some(Wanted::Workers | Wanted::Required))
    }

    /// Takes connections.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        let force = self.force.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(force.config.clone())
    }

    /// Whether a client that came with these certificates, its own first, would be let in at `now`.
    fn takes(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> bool {
        let force = self.force.read().unwrap_or_else(PoisonError::into_inner);
        let (Some(judge), Some((own, between))) = (&force.judge, chain.split_first()) else {
            return true;
        };
        judge.verify_client_cert(own, between, now).is_ok()
    }

    /// Ends when a client that came with these certificates would be let in no more: they are over, or who
    /// signed them vouches for nobody now. Looked at when the files change, and every [`LOOK_EVERY`].
    pub(crate) async fn disowns(&self, chain: Option<Vec<CertificateDer<'static>>>) {
        let Some(chain) = chain else {
            return std::future::pending().await;
        };
        let mut renewed = self.renewed.subscribe();
        while self.takes(&chain, UnixTime::now()) {
            // Whichever comes first; the sender is as old as `self`.
            let _ = tokio::time::timeout(LOOK_EVERY, renewed.changed()).await;
        }
    }

    /// Reads the files again if they have changed; whether it did. Connections that are open stay
    /// as they are.
    ///
    /// # Errors
    /// [`Error`]; what was there before stays in force.
    pub fn renew(&self) -> Result<bool, Error> {
        let now = looks(&self.cert, &self.key, self.clients.as_ref());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if now == *seen {
            return Ok(false);
        }
        // A bad file is complained about once, not at every look.
        *seen = now;
        let provider = Arc::new(ring::default_provider());
        let pair = Arc::new(read(&self.cert, &self.key, &provider)?);
        let of = (&*self.cert, &*self.key);
        let force = force(self.current.clone(), self.clients.as_ref(), provider, of)?;
        let current = &self.current.0;
        *current.write().unwrap_or_else(PoisonError::into_inner) = pair;
        *self.force.write().unwrap_or_else(PoisonError::into_inner) = force;
        self.renewed.send_modify(|times| *times += 1);
        Ok(true)
    }

    /// [`Tls::renew`], which tells the log what came of it.
    pub fn look(&self) {
        match self.renew() {
            Ok(false) => {}
            Ok(true) => {
                tracing::info!(cert = %self.cert.display(), "the certificates were read anew");
            }
            Err(error) => {
                tracing::error!(%error, "a renewed certificate can't be used; those before stay in force");
            }
        }
    }

    /// [`Tls::look`] now and then, for ever.
    pub async fn watch(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.look();
        }
    }
}

fn looks(cert: &Path, key: &Path, clients: Option<&Clients>) -> Option<Vec<Look>> {
    let ca = clients.map(|clients| &*clients.ca);
    let files = [Some(cert), Some(key), ca];
    files.into_iter().flatten().map(look).collect()
}

fn look(path: &Path) -> Option<Look> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.mtime(), meta.mtime_nsec(), meta.ino(), meta.len()))
}

fn force(
    current: Arc<Current>,
    clients: Option<&Clients>,
    provider: Arc<CryptoProvider>,
    (cert, key): (&Path, &Path),
) -> Result<Force, Error> {
    let judge = clients.map(|clients| clients::judge(clients, provider.clone()));
    let judge = judge.transpose()?;
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Pair {
            cert: cert.to_owned(),
            key: key.to_owned(),
            why: error.to_string(),
        })?;
    let builder = match &judge {
        Some(judge) => builder.with_client_cert_verifier(judge.clone()),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(current);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    if judge.is_some() {
        // A session that is resumed brings the certificate of back then, and nobody looks at its end.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    let config = Arc::new(config);
    Ok(Force { config, judge })
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
