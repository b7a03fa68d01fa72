//! Where a store is: what is taken, what is shown.

use std::path::PathBuf;

use super::StoreAt;

fn shown(text: &str) -> String {
    match text.parse::<StoreAt>() {
        Ok(at) => at.to_string(),
        Err(error) => format!("refused: {error}"),
    }
}

#[test]
fn a_url_is_postgres_and_a_path_is_sqlite() {
    assert_eq!(
        "/var/lib/sichen".parse(),
        Ok(StoreAt::Directory(PathBuf::from("/var/lib/sichen")))
    );
    assert_eq!(shown("sqlite:data"), "sqlite:data");
    assert_eq!(shown("postgres://h/db"), "postgres://h/db");
    for wrong in ["", "sqlite:", "mysql://h/db", "http://h"] {
        assert!(
            shown(wrong).starts_with("refused: write postgres://"),
            "{wrong}"
        );
    }
}

#[test]
fn a_password_is_never_shown() {
    assert_eq!(
        shown("postgres://u:secret@h:5/db"),
        "postgres://u:***@h:5/db"
    );
    assert_eq!(shown("postgres://u:p@ss@h/db"), "postgres://u:***@h/db");
    assert_eq!(
        shown("postgres://u@h/db?password=secret"),
        "postgres://u@h/db"
    );
    let debug = format!("{:?}", "postgres://u:secret@h/db".parse::<StoreAt>());
    assert!(!debug.contains("secret"), "{debug}");
}
