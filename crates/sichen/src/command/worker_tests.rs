//! Claims about how a worker ends.

use super::*;

#[test]
fn whatever_ends_a_worker_has_a_code_that_the_page_explains() {
    use sichen_sdk::worker::Error as W;
    let refused = |code: &str| W::Refused {
        code: code.to_owned(),
        message: "no".to_owned(),
    };
    let ends = [
        (W::Config("bad".to_owned()), Exit::Usage, "SC7008"),
        (refused("bad-join-token"), Exit::Denied, "SC7070"),
        (refused("too-many-pools"), Exit::Failed, "SC7070"),
        (
            W::DataDir(sichen_sdk::datadir::Error::InUse("w".into())),
            Exit::Refused,
            "SC7071",
        ),
        (W::JournalFailed, Exit::Failed, "SC7071"),
        (W::Superseded, Exit::Refused, "SC7072"),
        (W::Died, Exit::Failed, "SC7073"),
    ];
    for (error, exit, code) in ends {
        let failure = failure(&error.into());
        assert_eq!(failure.exit, exit, "{failure:?}");
        assert!(failure.text.starts_with(code), "{failure:?}");
        let told = failure.told(crate::output::Form::Json);
        assert!(told.contains("what_to_do\":\""), "{told}");
    }
}
