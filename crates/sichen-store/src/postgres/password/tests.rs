//! Password files: which line is taken.

use super::{Password, fields, look_up};

fn found(lines: &str, address: &str) -> Option<String> {
    look_up(lines, &address.parse().unwrap())
}

#[test]
fn the_first_line_that_fits_is_taken() {
    let lines = "# host:port:database:user:password\n\
                 db1:5432:sichen:anna:one\n\
                 db1:*:*:anna:two\n\
                 localhost:5432:*:anna:local\n\
                 *:*:*:*:any";
    let check = |address: &str, password: &str| {
        assert_eq!(
            found(lines, address).as_deref(),
            Some(password),
            "{address}"
        );
    };
    check("host=db1 user=anna dbname=sichen", "one");
    check("host=db1 port=6000 user=anna dbname=sichen", "two");
    check("host=db1 user=anna", "two");
    check("host=/run/postgresql user=anna dbname=x", "local");
    check("host=db2 user=bert dbname=x", "any");
    assert_eq!(found("db1:5432:a:b:c", "host=db2 user=b dbname=a"), None);
    assert_eq!(found("too:few", "host=too user=b"), None);
}

#[test]
fn escapes_and_colons_come_through() {
    assert_eq!(
        fields(r"a\:b:1:c\\d:u:p:w\"),
        ["a:b", "1", r"c\d", "u", "p:w"]
    );
}

#[test]
fn a_file_that_others_may_read_is_refused_where_it_was_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("passwords");
    std::fs::write(&path, "*:*:*:*:secret").unwrap();
    let set = |mode| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let fill = |must| {
        let mut config: tokio_postgres::Config = "host=h user=u".parse().unwrap();
        let source = Password::Lines {
            path: path.clone(),
            must,
        };
        let filled = source.fill(&mut config);
        filled.map(|()| config.get_password().map(<[u8]>::to_vec))
    };
    set(0o600);
    assert_eq!(fill(true).unwrap(), Some(b"secret".to_vec()));
    set(0o644);
    assert!(fill(true).unwrap_err().to_string().contains("chmod 0600"));
    assert_eq!(fill(false).unwrap(), None);
}

#[test]
fn a_file_of_its_own_is_the_password() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("password");
    std::fs::write(&path, " se cret \n").unwrap();
    let mut config: tokio_postgres::Config = "host=h user=u".parse().unwrap();
    Password::File(path).fill(&mut config).unwrap();
    assert_eq!(config.get_password(), Some(b" se cret ".as_slice()));
    let missing = Password::File(dir.path().join("none")).fill(&mut config);
    assert!(
        missing.unwrap_err().to_string().contains("none"),
        "it is named"
    );
}
