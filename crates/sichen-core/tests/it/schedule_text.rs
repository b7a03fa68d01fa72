//! Any text at all: it is read or refused, quickly, and an error has a place within it.

use proptest::prelude::*;
use sichen_core::schedule::cron::{Cron, Dialect};

const DIALECTS: [Dialect; 5] = [
    Dialect::Crontab,
    Dialect::CrontabPlain,
    Dialect::Seconds,
    Dialect::Kubernetes,
    Dialect::Quartz,
];

fn check(text: &str) {
    for dialect in DIALECTS {
        match Cron::parse(text, dialect, Some(9)) {
            Ok(cron) => {
                // The normal form reads the same.
                let again =
                    Cron::parse(cron.text(), dialect, Some(9)).expect("the normal form is good");
                let zone = jiff::tz::TimeZone::UTC;
                let from = jiff::Timestamp::from_second(1_790_000_000).expect("in range");
                let next = cron.next(from, &zone);
                assert_eq!(again.next(from, &zone), next, "{text}");
                assert!(next.is_none_or(|next| next > from));
                assert!(!cron.is_never() || next.is_none());
            }
            Err(error) => {
                assert!(
                    text.get(error.span.clone()).is_some(),
                    "{text:?}: {error:?}"
                );
                assert!(error.to_string().starts_with("SC11"));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,40}") {
        check(&text);
    }

    #[test]
    fn text_like_an_expression_is_read_or_refused(text in "([0-9*/,LW#HSUNMON?@-]{1,6}[ \t]{1,2}){4,6}[0-9*/,LW#?-]{1,4}") {
        check(&text);
    }
}

#[test]
fn a_long_text_is_refused_at_once() {
    check(&"1,".repeat(100_000));
    check(&"*/1 ".repeat(100));
    check("@every 99999999999999999999h");
    check("99999999999999999999 * * * *");
    check("*/4294967295 * * * *");
    check("TZ=");
}
