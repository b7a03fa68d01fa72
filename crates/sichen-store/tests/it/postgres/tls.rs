//! Encryption and passwords, against a server with a certificate of the test's own.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use sichen_core::port::Error;
use sichen_store::postgres::{Options, PostgresStore};
use sichen_testdb::postgres;

use super::Server;
use super::server::runtime;

/// A server that has a certificate for `localhost`, and takes `secret` only with a password.
struct Encrypted {
    server: Server,
    dir: tempfile::TempDir,
}

fn issuer(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

impl Encrypted {
    fn start() -> Option<Self> {
        let server = Server::start_with(postgres::Options {
            port: true,
            ..postgres::Options::default()
        })?;
        let (ours, others) = (issuer("ours"), issuer("others"));
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &ours).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ours.pem"), ours.pem()).unwrap();
        std::fs::write(dir.path().join("others.pem"), others.pem()).unwrap();
        let encrypted = Self { server, dir };
        encrypted.put("server.crt", &certificate.pem());
        encrypted.put("server.key", &key.serialize_pem());
        encrypted.put(
            "pg_hba.conf",
            "local all all trust\nhost all secret 127.0.0.1/32 scram-sha-256\n\
             host all all 127.0.0.1/32 trust\n",
        );
        for statement in [
            "create role secret superuser login password 'it''s: a secret'",
            "alter system set ssl = on",
            "select pg_reload_conf()",
        ] {
            encrypted.server.execute("public", statement);
        }
        Some(encrypted)
    }

    /// Writes a file beside the server's own, as the server's user.
    fn put(&self, name: &str, text: &str) {
        let statement = format!(
            "copy (select regexp_split_to_table($x${}$x$, '\n')) to program 'umask 077; cat > {name}'",
            text.trim_end()
        );
        self.server.execute("public", &statement);
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn open(&self, host: &str, more: &str) -> Result<PostgresStore, Error> {
        let port = self.server.port();
        let dir = self.dir.path().display().to_string();
        let url = format!(
            "host={host} hostaddr=127.0.0.1 port={port} dbname=postgres {}",
            more.replace("DIR", &dir)
        );
        let options = Options {
            unsafe_durability: true,
            connections: 2,
            ..Options::default()
        };
        runtime().block_on(PostgresStore::open(&url, options))
    }

    /// Connections that are encrypted now.
    fn encrypted(&self) -> i64 {
        let client = self.server.connect("public");
        let query = "select count(*) from pg_stat_ssl join pg_stat_activity using (pid) \
                     where ssl and application_name = 'sichen'";
        let row = runtime().block_on(client.query_one(query, &[]));
        row.unwrap().get(0)
    }
}

#[test]
fn the_server_proves_as_much_as_is_asked() {
    let Some(server) = Encrypted::start() else {
        return;
    };
    for (more, encrypted) in [
        ("user=postgres sslmode=disable", false),
        ("user=postgres", true),
        ("user=postgres sslmode=require", true),
        (
            "user=postgres sslmode=require sslrootcert=DIR/ours.pem",
            true,
        ),
        (
            "user=postgres sslmode=verify-ca sslrootcert=DIR/ours.pem",
            true,
        ),
        (
            "user=postgres sslmode=verify-full sslrootcert=DIR/ours.pem",
            true,
        ),
    ] {
        let store = server
            .open("localhost", more)
            .unwrap_or_else(|e| panic!("{more}: {e}"));
        assert_eq!(server.encrypted() > 0, encrypted, "{more}");
        drop(store);
    }
    // Another name than the certificate's, but the right signature.
    server
        .open(
            "db",
            "user=postgres sslmode=verify-ca sslrootcert=DIR/ours.pem",
        )
        .unwrap();
}

#[test]
fn a_server_that_does_not_prove_it_is_refused() {
    let Some(server) = Encrypted::start() else {
        return;
    };
    for (host, more, why) in [
        (
            "localhost",
            "sslmode=verify-full sslrootcert=DIR/others.pem",
            "is signed by none of those in sslrootcert",
        ),
        (
            "localhost",
            "sslmode=verify-ca sslrootcert=DIR/others.pem",
            "is signed by none of those in sslrootcert",
        ),
        (
            "localhost",
            "sslmode=require sslrootcert=DIR/others.pem",
            "is signed by none of those in sslrootcert",
        ),
        (
            "db",
            "sslmode=verify-full sslrootcert=DIR/ours.pem",
            "is for another host",
        ),
        ("localhost", "sslmode=verify-full", "need sslrootcert"),
        (
            "localhost",
            "sslmode=verify-full sslrootcert=DIR/none.pem",
            "none.pem",
        ),
    ] {
        let refused = server.open(host, &format!("user=postgres {more}"));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(why), "{more}: {refused}");
    }
}

#[test]
fn a_server_without_encryption_is_refused_where_it_is_asked_for() {
    let options = postgres::Options {
        port: true,
        ..postgres::Options::default()
    };
    let Some(server) = Server::start_with(options) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let server = Encrypted { server, dir };
    server
        .open("localhost", "user=postgres sslmode=prefer")
        .unwrap();
    let refused = server.open("localhost", "user=postgres sslmode=require");
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("does not support TLS"), "{refused}");
}

#[test]
fn a_password_comes_from_a_file_and_may_change() {
    let Some(server) = Encrypted::start() else {
        return;
    };
    let with = "user=secret sslmode=require passfile=DIR/passwords";
    let write = |password: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = server.file("passwords");
        std::fs::write(&path, format!("localhost:*:*:secret:{password}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    write("wrong");
    let refused = server.open("localhost", with).unwrap_err().to_string();
    assert!(
        refused.contains("password authentication failed"),
        "{refused}"
    );
    write("it's: a secret");
    let store = server.open("localhost", with).unwrap();
    let now = || futures::executor::block_on(sichen_core::port::TimeStore::now(&store));
    now().unwrap();
    server
        .server
        .execute("public", "alter role secret password 'another'");
    write("another");
    let end = "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'secret'";
    server.server.execute("public", end);
    now().unwrap();
}
