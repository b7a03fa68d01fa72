//! What the console asks for: the same reading as the command's, of a text.

use sichen_server::rest::Source;

use super::of_text;

fn source(kind: &str, text: &str) -> Source {
    Source {
        kind: kind.to_owned(),
        text: text.to_owned(),
        time_zone: Some("Asia/Shanghai".to_owned()),
        namespace: "payments".to_owned(),
        pool: None,
    }
}

#[test]
fn a_pasted_crontab_is_told_line_by_line() {
    let text =
        "# nightly\n30 3 * * * /bin/backup --all\n@reboot /bin/once\n61 3 * * * /bin/never\n";
    let read = of_text(&source("crontab", text)).unwrap();
    let [job] = read.jobs.as_slice() else {
        panic!("{read:?}");
    };
    let seen = (job.namespace.as_str(), job.line, job.proved, job.paused);
    assert_eq!(seen, ("payments", 2, 100, false));
    let refused = read.remarks.iter().filter(|r| r.level == "refused");
    let lines: Vec<u64> = refused.map(|remark| remark.line).collect();
    assert_eq!(lines, [3, 4], "{:?}", read.remarks);
    assert!(
        read.text.contains("timeZone: Asia/Shanghai"),
        "{}",
        read.text
    );
    assert_eq!(sichen_server::document::read(&read.text).unwrap().len(), 1);
}

#[test]
fn what_can_not_be_read_at_all_says_why() {
    let unknown = of_text(&source("quartz", "")).unwrap_err();
    assert!(unknown.starts_with("SC5021:"), "{unknown}");
    let mut lost = source("crontab", "");
    lost.time_zone = Some("Mars/Olympus".to_owned());
    assert!(of_text(&lost).is_err());
    let nothing = of_text(&source("kubernetes", "")).unwrap();
    assert_eq!((nothing.text.as_str(), nothing.jobs.len()), ("", 0));
}
