//! Claims about certificates and keys.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedKey as Made, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, SanType, generate_simple_self_signed,
};

use super::*;

struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        files.write();
        files
    }

    /// A new pair in the same files.
    fn write(&self) {
        let Made { cert, signing_key } = generate_simple_self_signed(["localhost".into()]).unwrap();
        std::fs::write(self.cert(), cert.pem()).unwrap();
        std::fs::write(self.key(), signing_key.serialize_pem()).unwrap();
        self.mode(0o600);
    }

    fn mode(&self, mode: u32) {
        std::fs::set_permissions(self.key(), Permissions::from_mode(mode)).unwrap();
    }

    fn cert(&self) -> PathBuf {
        self.dir.path().join("cert.pem")
    }

    fn key(&self) -> PathBuf {
        self.dir.path().join("key.pem")
    }

    fn open(&self) -> Result<Tls, Error> {
        Tls::open(&self.cert(), &self.key())
    }
}

#[test]
fn what_can_not_be_used_is_refused_with_its_file_and_its_code() {
    let files = Files::new();
    files.open().unwrap();
    let check = |code: &str, file: &str| {
        let error = files.open().expect_err(code).to_string();
        assert!(error.contains(code) && error.contains(file), "{error}");
    };
    files.mode(0o644);
    check("SC6022", "key.pem");
    files.mode(0o640);
    files.open().unwrap();
    let key = std::fs::read(files.key()).unwrap();
    std::fs::write(files.key(), "nothing").unwrap();
    check("SC6021", "key.pem");
    files.write();
    std::fs::write(files.key(), key).unwrap();
    check("SC6023", "cert.pem");
    std::fs::write(files.cert(), "").unwrap();
    check("SC6021", "cert.pem");
    std::fs::remove_file(files.cert()).unwrap();
    check("SC6021", "cert.pem");
}

#[test]
fn a_renewed_certificate_is_taken_and_a_bad_one_is_not() {
    let files = Files::new();
    let tls = files.open().unwrap();
    let in_force = || tls.current.0.read().unwrap().cert.clone();
    let first = in_force();
    assert!(!tls.renew().unwrap());
    files.write();
    assert!(tls.renew().unwrap());
    let second = in_force();
    assert_ne!(first, second);
    std::fs::write(files.key(), "half written").unwrap();
    assert!(tls.renew().is_err());
    assert_eq!(in_force(), second);
    assert!(!tls.renew().unwrap(), "it is complained about once");
    files.write();
    assert!(tls.renew().unwrap());
}

/// Who vouches for clients, and what they show.
struct Vouching {
    dir: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Vouching {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.pem"), ca.pem()).unwrap();
        Self {
            dir,
            issuer: Issuer::new(params, key),
        }
    }

    fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// A client's certificate with these names.
    fn client(&self, names: &[&str]) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let names = names
            .iter()
            .map(|&name| SanType::URI(name.try_into().unwrap()));
        params.subject_alt_names = names.collect();
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let private = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        (vec![cert.der().clone()], private)
    }
}

/// Whom a server finds at the other end, if the handshake comes to its end.
async fn found(
    tls: &Tls,
    files: &Files,
    client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
) -> Result<Option<Peer>, String> {
    let mut roots = rustls::RootCertStore::empty();
    let pem = std::fs::read(files.cert()).unwrap();
    roots
        .add(CertificateDer::from_pem_slice(&pem).unwrap())
        .unwrap();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match client {
        Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
        None => config.with_no_client_auth(),
    };
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let (here, there) = tokio::io::duplex(65_536);
    let name = "localhost".try_into().unwrap();
    let (shaken, _) = tokio::join!(tls.acceptor().accept(here), connector.connect(name, there));
    let shaken = shaken.map_err(|e| e.to_string())?;
    let shown = shaken.get_ref().1.peer_certificates();
    Ok(shown.and_then(|chain| chain.first()).map(Peer::of))
}

#[tokio::test]
async fn a_client_is_asked_for_its_certificate_and_known_by_its_names() {
    let (files, ours, theirs) = (Files::new(), Vouching::new(), Vouching::new());
    let open = |wanted| {
        let ca = ours.ca();
        Tls::open_to(&files.cert(), &files.key(), Some(Clients { ca, wanted })).unwrap()
    };
    let required = open(Wanted::Required);
    assert!(required.wants_of_workers());
    assert!(found(&required, &files, None).await.is_err());
    let stranger = theirs.client(&["sichen:token/ci"]);
    assert!(found(&required, &files, Some(stranger)).await.is_err());
    let names = [
        "sichen:token/ci",
        "sichen:worker/w1",
        "https://example.org/x",
    ];
    let peer = found(&required, &files, Some(ours.client(&names))).await;
    let peer = peer.unwrap().unwrap();
    assert_eq!(peer.token(), Some("ci"));
    assert!(peer.may_be_worker("w1") && !peer.may_be_worker("w2"));
    // Nobody in particular, and one of two, which is nobody.
    for names in [&[] as &[&str], &["sichen:token/a", "sichen:token/b"]] {
        let peer = found(&required, &files, Some(ours.client(names))).await;
        let peer = peer.unwrap().unwrap();
        assert!(peer.token().is_none() && peer.may_be_worker("any"));
    }
    for wanted in [Wanted::Optional, Wanted::Workers] {
        let tls = open(wanted);
        assert_eq!(tls.wants_of_workers(), wanted == Wanted::Workers);
        assert_eq!(found(&tls, &files, None).await, Ok(None));
        let stranger = theirs.client(&[]);
        assert!(found(&tls, &files, Some(stranger)).await.is_err());
    }
}

#[tokio::test]
async fn who_vouches_for_clients_changes_without_a_restart_and_a_bad_file_changes_nothing() {
    let (files, ours, theirs) = (Files::new(), Vouching::new(), Vouching::new());
    let (ca, wanted) = (ours.ca(), Wanted::Required);
    let clients = Some(Clients { ca, wanted });
    let tls = Tls::open_to(&files.cert(), &files.key(), clients).unwrap();
    let (mine, new) = (|| ours.client(&[]), || theirs.client(&[]));
    found(&tls, &files, Some(mine())).await.unwrap();
    std::fs::write(ours.ca(), "half written").unwrap();
    let error = tls.renew().unwrap_err().to_string();
    assert!(
        error.contains("SC6025") && error.contains("ca.pem"),
        "{error}"
    );
    found(&tls, &files, Some(mine())).await.unwrap();
    std::fs::copy(theirs.ca(), ours.ca()).unwrap();
    assert!(tls.renew().unwrap());
    assert!(found(&tls, &files, Some(mine())).await.is_err());
    found(&tls, &files, Some(new())).await.unwrap();
    let (ca, wanted) = (files.key(), Wanted::Required);
    let none = Tls::open_to(&files.cert(), &files.key(), Some(Clients { ca, wanted }));
    assert!(none.unwrap_err().to_string().contains("SC6025"));
}

/// What `client` shows stays good for as long as it is in force and somebody vouches for it.
#[tokio::test]
async fn a_client_that_stays_is_let_go_when_its_certificate_ends_or_nobody_vouches_for_it() {
    let (files, ours, theirs) = (Files::new(), Vouching::new(), Vouching::new());
    let (ca, wanted) = (ours.ca(), Wanted::Optional);
    let clients = Some(Clients { ca, wanted });
    let tls = Tls::open_to(&files.cert(), &files.key(), clients).unwrap();
    let (chain, _) = ours.client(&["sichen:token/ci"]);
    let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    assert!(tls.takes(&chain, UnixTime::now()));
    // rcgen's ends with the year 4095.
    assert!(!tls.takes(&chain, at(70_000_000_000)));
    let mut over = std::pin::pin!(tls.disowns(Some(chain)));
    let mut never = std::pin::pin!(tls.disowns(None));
    let soon = Duration::from_millis(1);
    assert!(tokio::time::timeout(soon, &mut over).await.is_err());
    std::fs::copy(theirs.ca(), ours.ca()).unwrap();
    assert!(tls.renew().unwrap());
    let patience = Duration::from_secs(20);
    tokio::time::timeout(patience, &mut over).await.unwrap();
    assert!(tokio::time::timeout(soon, &mut never).await.is_err());
}

#[test]
fn a_certificate_with_a_name_that_is_not_understood_opens_nothing() {
    let named = |names: &[&str]| Peer::named(names.iter().copied());
    let whole = named(&["sichen:token/ci", "sichen:worker/w1", "spiffe://x/sichen:y"]);
    assert_eq!(whole.token(), Some("ci"));
    assert!(whole.may_be_worker("w1") && whole.binds_worker());
    let odd = [
        "sichen:host/x",
        "sichen:worker:w1",
        "sichen:worker/",
        "sichen:token/",
        "sichen:",
    ];
    for odd in odd {
        let peer = named(&["sichen:token/ci", "sichen:worker/w1", odd]);
        assert_eq!(peer.token(), None, "{odd}");
        assert!(!peer.may_be_worker("w1"), "{odd}");
    }
    assert_eq!(named(&["SICHEN:token/ci"]).token(), Some("ci"));
    let many = |count| (0..count).map(|n| format!("sichen:worker/w{n}"));
    let many = |count| Peer::named(many(count).collect::<Vec<_>>().iter().map(String::as_str));
    assert!(many(MAX_CERTIFICATE_NAMES).may_be_worker("w7"));
    assert!(!many(MAX_CERTIFICATE_NAMES + 1).may_be_worker("w7"));
    assert!(!named(&[]).binds_worker() && named(&[]).may_be_worker("any"));
}

/// How the second of two handshakes of one client was made.
async fn second_handshake(tls: &Tls, files: &Files) -> rustls::HandshakeKind {
    let mut roots = rustls::RootCertStore::empty();
    let pem = std::fs::read(files.cert()).unwrap();
    let root = CertificateDer::from_pem_slice(&pem).unwrap();
    roots.add(root).unwrap();
    // In 1.2 what a session is resumed by is known when the handshake ends.
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let mut kind = None;
    for _ in 0..2 {
        let (here, there) = tokio::io::duplex(65_536);
        let name = "localhost".try_into().unwrap();
        let (shaken, asked) =
            tokio::join!(tls.acceptor().accept(here), connector.connect(name, there));
        asked.unwrap();
        kind = shaken.unwrap().get_ref().1.handshake_kind();
    }
    kind.unwrap()
}

#[tokio::test]
async fn no_session_is_resumed_where_clients_are_asked_for_certificates() {
    let (files, ours) = (Files::new(), Vouching::new());
    let plain = files.open().unwrap();
    let resumed = rustls::HandshakeKind::Resumed;
    assert_eq!(second_handshake(&plain, &files).await, resumed);
    let (ca, wanted) = (ours.ca(), Wanted::Optional);
    let clients = Some(Clients { ca, wanted });
    let asking = Tls::open_to(&files.cert(), &files.key(), clients).unwrap();
    let full = rustls::HandshakeKind::Full;
    assert_eq!(second_handshake(&asking, &files).await, full);
}
