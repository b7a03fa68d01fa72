//! Addresses: what is taken, what is refused.

use super::{Address, Mode, Password, Pooler, Roots, pairs};

fn read(text: &str) -> Address {
    Address::parse(text, |_| None).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn refused(text: &str) -> String {
    Address::parse(text, |_| None).unwrap_err().to_string()
}

/// The source of the password at `text` where the environment has these.
fn source(text: &str, env: &[(&str, &str)]) -> (Password, Option<Vec<u8>>) {
    let env = |key: &str| {
        let found = env.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| (*value).to_owned())
    };
    let address = Address::parse(text, env).unwrap();
    let given = address.config.get_password().map(<[u8]>::to_vec);
    (address.password, given)
}

#[test]
fn own_words_are_taken_out_of_both_forms() {
    for text in [
        "postgres://u@h:5433/db?pooler=transaction&application_name=a",
        "postgres://u@h:5433/db?application_name=a&pooler=%74ransaction",
        "host=h port=5433 user=u dbname=db pooler=transaction application_name=a",
        "host = h port=5433 pooler='transaction' user=u dbname=db application_name=a",
    ] {
        let address = read(text);
        assert_eq!(address.pooler, Pooler::Transaction, "{text}");
        assert_eq!(address.config.get_user(), Some("u"), "{text}");
        assert_eq!(address.config.get_dbname(), Some("db"), "{text}");
        assert_eq!(address.config.get_application_name(), Some("a"), "{text}");
        assert_eq!(address.config.get_ports(), [5433], "{text}");
    }
    assert_eq!(read("postgres://h/db").pooler, Pooler::Unknown);
    assert_eq!(read("postgres://h/db?pooler=none").pooler, Pooler::None);
}

#[test]
fn values_with_blanks_and_quotes_come_through() {
    let address = read(r"host=h options='-c search_path=s1' password='it\'s a \\secret'");
    assert_eq!(address.config.get_options(), Some("-c search_path=s1"));
    let password = address.config.get_password();
    assert_eq!(password, Some(br"it's a \secret".as_slice()));
    assert_eq!(pairs("a=b  c = 'd e'").unwrap().len(), 2);
}

#[test]
fn what_is_wrong_is_said() {
    assert!(refused("postgres://h/db?pooler=session").contains("write auto, none or transaction"));
    assert!(refused("postgres://h/db?sslmode=on").contains("write disable"));
    assert!(refused("host='h").contains("has no end"));
    assert!(refused("postgres://h/db?shard=1").contains("shard"));
}

#[test]
fn encryption_is_read_as_libpq_writes_it() {
    assert_eq!(read("postgres://h/db").tls.mode, Mode::Prefer);
    let tls = read("postgres://h/db?sslmode=verify-full&sslrootcert=/etc/ca%20s.pem").tls;
    assert_eq!(tls.mode, Mode::VerifyFull);
    assert_eq!(tls.roots, Some(Roots::File("/etc/ca s.pem".into())));
    let tls = read("host=h sslmode=verify-ca sslrootcert=system sslcert=c sslkey=k").tls;
    assert_eq!(tls.roots, Some(Roots::System));
    assert_eq!(
        (tls.certificate, tls.key),
        (Some("c".into()), Some("k".into()))
    );
}

#[test]
fn what_others_may_read_on_its_way_is_known() {
    assert!(read("postgres://db.example/x").is_exposed());
    assert!(!read("postgres://db.example/x?sslmode=require").is_exposed());
    assert!(!read("postgres://localhost/x").is_exposed());
    assert!(!read("host=/run/postgresql").is_exposed());
}

#[test]
fn a_password_is_looked_for_in_order() {
    let lines = |path: &str, must| Password::Lines {
        path: path.into(),
        must,
    };
    let all = [
        ("SICHEN_STORE_PASSWORD_FILE", "/own"),
        ("PGPASSWORD", "env"),
        ("PGPASSFILE", "/lines"),
        ("HOME", "/u"),
    ];
    let given = source("postgres://u:in@h/db", &all);
    assert_eq!(given, (Password::Given, Some(b"in".to_vec())));
    let named = source("postgres://u@h/db?passfile=/named", &all);
    assert_eq!(named.0, lines("/named", true));
    let own = source("postgres://u@h/db", &all);
    assert_eq!(own, (Password::File("/own".into()), None));
    let env = source("postgres://u@h/db", &all[1..]);
    assert_eq!(env, (Password::Given, Some(b"env".to_vec())));
    assert_eq!(
        source("postgres://u@h/db", &all[2..]).0,
        lines("/lines", true)
    );
    let home = source("postgres://u@h/db", &all[3..]);
    assert_eq!(home.0, lines("/u/.pgpass", false));
    assert_eq!(source("postgres://u@h/db", &[]).0, Password::Given);
}
