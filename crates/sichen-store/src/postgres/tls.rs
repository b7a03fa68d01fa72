//! Encryption to the server, as `sslmode` says.
//!
//! # Invariants
//! - `verify-ca` and `verify-full` trust the named roots alone, never the machine's beside them.
//! - A certificate that is not looked at (`prefer`, `require` without a root) still proves that its
//!   holder has its key.
//!
//! # Not here
//! Reading the address ([`super::address`]).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error as TlsError,
    RootCertStore, SignatureScheme,
};
use sichen_core::port::Error;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::fault::Result;

/// How far the server must prove who it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    Disable,
    /// Encrypted if the server can.
    #[default]
    Prefer,
    Require,
    /// Its certificate is signed by a root that is trusted.
    VerifyCa,
    /// The same, and it names the host.
    VerifyFull,
}

impl Mode {
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "disable" => Mode::Disable,
            "prefer" => Mode::Prefer,
            "require" => Mode::Require,
            "verify-ca" => Mode::VerifyCa,
            "verify-full" => Mode::VerifyFull,
            _ => return None,
        })
    }

    pub fn of_driver(self) -> SslMode {
        match self {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }
}

/// Whose signature is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Roots {
    File(PathBuf),
    /// The machine's.
    System,
}

/// What an address says of encryption.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tls {
    pub mode: Mode,
    pub roots: Option<Roots>,
    /// The certificate and key by which this client proves itself.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

impl Tls {
    /// # Errors
    /// [`Error::Unavailable`] if a file can't be used, or one is missing.
    pub fn connector(&self) -> Result<MakeRustlsConnect> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = self.verifier(&provider)?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| wrong(&e.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let key = PrivateKeyDer::from_pem_file(key).map_err(|e| unreadable(key, &e))?;
                config
                    .with_client_auth_cert(certificates(certificate)?, key)
                    .map_err(|e| wrong(&format!("sslcert, sslkey: {e}")))?
            }
            (None, None) => config.with_no_client_auth(),
            _ => return Err(wrong("sslcert and sslkey go together")),
        };
        Ok(MakeRustlsConnect::new(config))
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>> {
        let roots = match (&self.roots, self.mode) {
            (Some(Roots::File(path)), _) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    let added = roots.add(certificate);
                    added.map_err(|e| wrong(&format!("{}: {e}", path.display())))?;
                }
                roots
            }
            (Some(Roots::System), _) => system_roots()?,
            (None, Mode::VerifyCa | Mode::VerifyFull) => {
                return Err(wrong(
                    "sslmode=verify-ca and verify-full need sslrootcert=FILE (the certificate of \
                     whoever signed the server's), or sslrootcert=system",
                ));
            }
            (None, _) => return Ok(Arc::new(AnyCertificate(Arc::clone(provider)))),
        };
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(provider));
        let verifier = verifier.build().map_err(|e| wrong(&e.to_string()))?;
        Ok(if self.mode == Mode::VerifyFull {
            verifier
        } else {
            Arc::new(AnyName(verifier))
        })
    }
}

fn wrong(what: &str) -> Error {
    Error::Unavailable(format!("encryption to the database: {what}"))
}

fn unreadable(path: &Path, e: &rustls::pki_types::pem::Error) -> Error {
    wrong(&format!("{}: {e}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let all: std::result::Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .map_err(|e| unreadable(path, &e))?
        .collect();
    let all = all.map_err(|e| unreadable(path, &e))?;
    if all.is_empty() {
        return Err(wrong(&format!("{} holds no certificate", path.display())));
    }
    Ok(all)
}

fn system_roots() -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err(wrong(
            "sslrootcert=system: this machine has no certificates; install ca-certificates",
        ));
    }
    Ok(roots)
}

/// What is wrong with a certificate, and what to do about it.
pub(super) fn explain(e: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    let mut cause = Some(e);
    while let Some(e) = cause {
        let inner = e.downcast_ref::<std::io::Error>().and_then(|e| e.get_ref());
        let tls = inner.and_then(|e| e.downcast_ref::<TlsError>());
        if let Some(TlsError::InvalidCertificate(why)) = tls {
            return Some(match why {
                CertificateError::UnknownIssuer => {
                    "the server's certificate is signed by none of those in sslrootcert: give the \
                     certificate that signed it, and make sure that this is the right server"
                }
                why if is_about_name(why) => {
                    "the server's certificate is for another host: use the name that it has, or \
                     sslmode=verify-ca to take any name"
                }
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    "the server's certificate has expired: renew it"
                }
                _ => "the server's certificate can't be trusted",
            });
        }
        cause = e.source();
    }
    None
}

fn is_about_name(e: &CertificateError) -> bool {
    matches!(
        e,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
    )
}

/// Takes any certificate: against listening alone.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Takes a certificate of any name, if its chain is good.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, TlsError> {
        let verified = self
            .0
            .verify_server_cert(certificate, between, name, ocsp, now);
        match verified {
            // The name is looked at last, when the chain was found good.
            Err(TlsError::InvalidCertificate(e)) if is_about_name(&e) => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        self.0
            .verify_tls12_signature(message, certificate, signature)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        self.0
            .verify_tls13_signature(message, certificate, signature)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        self.0.root_hint_subjects()
    }
}
