//! Files of others, and configurations, that nobody meant.

use crate::command::import::{crontab, icalendar, kubernetes};
use crate::config::{ServerConfig, of_text};

const CRON: &[&str] = &[
    "* * * * * ",
    "@daily ",
    "@reboot ",
    "CRON_TZ=",
    "SHELL=",
    "MAILTO=",
    "PATH=",
    "%",
    "\\%",
    "#",
    "\t",
    "root ",
    "flock ",
    "> /dev/null",
    "0 3 * * 1-5 ",
    "\n",
];

fn said<T: std::fmt::Debug>(remarks: &[T]) -> String {
    remarks
        .first()
        .map_or("good".to_owned(), |first| format!("{first:?}"))
}

#[test]
fn crontab() {
    sichen_fuzz::fuzz("crontab", CRON, &[], |bytes| {
        let mut told = String::new();
        for system in [false, true] {
            let options = crontab::Options {
                system,
                time_zone: Some("UTC".to_owned()),
                namespace: "default".to_owned(),
                pool: None,
            };
            let mut import = crontab::read(bytes, &options);
            import.keep_valid();
            told.push_str(&format!("{} {}", import.jobs.len(), said(&import.remarks)));
        }
        told
    });
}

const KUBERNETES: &[&str] = &[
    "kind: CronJob\n",
    "kind: List\n",
    "items: ",
    "spec: ",
    "schedule: ",
    "jobTemplate: ",
    "template: ",
    "containers: ",
    "command: ",
    "env: ",
    "valueFrom: ",
    "suspend: ",
    "timeZone: ",
    "volumes: ",
    "---\n",
    "  ",
    "- ",
];

#[test]
fn kubernetes() {
    let options = kubernetes::Options {
        time_zone: Some("UTC".to_owned()),
        namespace: "default".to_owned(),
        pool: None,
    };
    sichen_fuzz::fuzz("kubernetes", KUBERNETES, &[], |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let mut import = kubernetes::read(&text, &options);
        import.keep_valid();
        format!("{} {}", import.jobs.len(), said(&import.remarks))
    });
}

const ICALENDAR: &[&str] = &[
    "BEGIN:VEVENT\n",
    "END:VEVENT\n",
    "DTSTART;VALUE=DATE:",
    "DTEND:",
    "DURATION:P1D",
    "RRULE:FREQ=YEARLY",
    ";INTERVAL=2",
    ";BYDAY=-1MO",
    ";COUNT=3",
    ";UNTIL=20300101",
    "EXDATE:",
    "SUMMARY:",
    "20240229",
    "\n ",
    "T000000Z",
];

#[test]
fn icalendar() {
    let options = icalendar::Options {
        name: None,
        namespace: "default".to_owned(),
        work_mark: "work".to_owned(),
        through: 2035,
    };
    sichen_fuzz::fuzz("icalendar", ICALENDAR, &[], |bytes| {
        let dates = icalendar::read(&String::from_utf8_lossy(bytes), &options);
        said(&dates.remarks)
    });
}

const CONFIG: &[&str] = &[
    "listen: ",
    "store: ",
    "data: ",
    "log: ",
    "retention: ",
    "tls: ",
    "cert: ",
    "key: ",
    "30d",
    "127.0.0.1:0",
    "postgres://",
    "  ",
    "- ",
    "null",
    "~",
];

#[test]
fn config() {
    sichen_fuzz::fuzz("config", CONFIG, &[], |bytes| {
        let text = String::from_utf8_lossy(bytes);
        match of_text::<ServerConfig>("a file", &text) {
            Ok(read) => format!("{:?}", read.config.whole().problems()),
            Err(failure) => failure.text,
        }
    });
}
