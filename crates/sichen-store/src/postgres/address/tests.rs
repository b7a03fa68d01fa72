//! Addresses: what is taken, what is refused.

use super::{Address, Pooler, pairs};

fn read(text: &str) -> Address {
    Address::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn refused(text: &str) -> String {
    Address::parse(text).unwrap_err().to_string()
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
    assert!(refused("host='h").contains("has no end"));
    assert!(refused("postgres://h/db?shard=1").contains("shard"));
}
