//! Claims about certificates and keys.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use rcgen::{CertifiedKey as Made, generate_simple_self_signed};

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
