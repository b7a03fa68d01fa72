//! Lines of crontabs, and what becomes of each.

use serde_json::Value;

use super::super::source::{Import, Level};
use super::{Options, read};

const NOW: i64 = 1_790_000_000;

fn options() -> Options {
    Options {
        time_zone: Some("Europe/Berlin".into()),
        namespace: "default".into(),
        ..Options::default()
    }
}

fn import(text: &str) -> Import {
    let mut import = read(text.as_bytes(), &options());
    import.keep_valid();
    import
}

/// The only job of a table.
#[track_caller]
fn job(text: &str) -> Value {
    let import = import(text);
    assert_eq!(import.jobs.len(), 1, "{:?}", import.remarks);
    assert_eq!(import.jobs[0].prove(NOW, 100), Ok(100));
    import.jobs[0].document.clone()
}

#[track_caller]
fn command(text: &str) -> String {
    let job = job(text);
    job["spec"]["run"]["process"]["argv"][2]
        .as_str()
        .unwrap()
        .to_owned()
}

/// What is said about a line: its level and words of it.
#[track_caller]
fn says(text: &str, line: u64, level: Level, words: &str) {
    let import = import(text);
    let found = import.remarks.iter().any(|remark| {
        (remark.line, remark.level) == (line, level) && remark.message.contains(words)
    });
    assert!(
        found,
        "{level:?} {words:?} in line {line}: {:#?}",
        import.remarks
    );
}

#[test]
fn an_entry_becomes_a_job_that_behaves_as_under_cron() {
    let job = job("# nightly backup\n# of the ledger\n30 2 * * 1-5 /opt/bin/backup.sh --full\n");
    assert_eq!(job["metadata"]["name"], "backup");
    assert_eq!(job["metadata"]["title"], "nightly backup of the ledger");
    let spec = &job["spec"];
    assert_eq!(spec["schedules"][0]["cron"], "30 2 * * 1-5");
    assert_eq!(spec["timeZone"], "Europe/Berlin");
    let argv = serde_json::json!(["/bin/sh", "-c", "/opt/bin/backup.sh --full"]);
    assert_eq!(spec["run"]["process"]["argv"], argv);
    assert_eq!(spec["run"]["process"]["env"]["PATH"], "/usr/bin:/bin");
    assert_eq!(
        (&spec["overlap"], &spec["retry"]["maxAttempts"]),
        (&"allow".into(), &1.into())
    );
    assert_eq!(spec["catchUp"]["policy"], "none");
    says(
        "1 2 * * * /bin/true\n",
        1,
        Level::Warning,
        "allow_programs: [/bin/sh]",
    );
}

#[test]
fn assignments_hold_for_the_lines_below() {
    let text = "0 1 * * * first\nSHELL=/bin/bash\nGREETING = \"good day\"\nHOME='/srv'\n0 2 * * * second\n";
    let import = import(text);
    let process = |n: usize| &import.jobs[n].document["spec"]["run"]["process"];
    assert_eq!(process(0)["argv"][0], "/bin/sh");
    assert!(process(0)["env"]["GREETING"].is_null());
    assert_eq!(process(1)["argv"][0], "/bin/bash");
    assert_eq!(process(1)["env"]["GREETING"], "good day");
    assert_eq!(process(1)["directory"], "/srv");
    says(
        "MAILTO=me@example.org\n0 1 * * * x\n",
        1,
        Level::Warning,
        "no mail",
    );
    says("PATH=$HOME/bin\n0 1 * * * x\n", 1, Level::Warning, "as it");
    says(
        "LD_PRELOAD=/x.so\n0 1 * * * x\n",
        1,
        Level::Warning,
        "can't set",
    );
    says(
        "TZ=Asia/Tokyo\n0 1 * * * x\n",
        1,
        Level::Warning,
        "CRON_TZ or --tz",
    );
    // An assignment within a command is part of it.
    assert_eq!(command("0 1 * * * A=1 B=2 run\n"), "A=1 B=2 run");
}

#[test]
fn the_zone_is_that_of_the_table_and_never_guessed_in_silence() {
    let text = "CRON_TZ=Asia/Tokyo\n0 9 * * * a\nCRON_TZ=America/New_York\n0 9 * * * b\n";
    let import_ = import(text);
    let zones: Vec<&Value> = import_
        .jobs
        .iter()
        .map(|job| &job.document["spec"]["timeZone"])
        .collect();
    assert_eq!(zones, ["Asia/Tokyo", "America/New_York"]);
    says(
        "CRON_TZ=Mars/Phobos\n0 9 * * * a\n",
        1,
        Level::Refused,
        "Mars/Phobos",
    );
    says(
        "CRON_TZ=Mars/Phobos\n0 9 * * * a\n",
        2,
        Level::Refused,
        "line 1",
    );
    let unknown = read(b"0 9 * * * a\n", &Options::default());
    assert!(
        unknown.remarks.iter().any(|r| r.message.contains("--tz")),
        "{:?}",
        unknown.remarks
    );
}

#[test]
fn percent_signs_are_line_ends_and_the_first_begins_the_input() {
    assert_eq!(command("0 1 * * * date +\\%F\n"), "date +%F");
    assert_eq!(
        command("0 1 * * * mail -s hi a@b%dear a,%good day\n"),
        "{ mail -s hi a@b\n} <<'SICHEN_INPUT'\ndear a,\ngood day\nSICHEN_INPUT"
    );
    // The shell that cron would have started gives the same.
    let text = command("0 1 * * * cat; echo done # 100\\% %one%%SICHEN_INPUT\n");
    let output = std::process::Command::new("/bin/sh")
        .args(["-c", &text])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "one\n\nSICHEN_INPUT\ndone\n"
    );
    says(
        "0 1 * * * %only input\n",
        1,
        Level::Refused,
        "before the `%`",
    );
    says(
        "SHELL=/bin/csh\n0 1 * * * cat %x\n",
        2,
        Level::Refused,
        "/bin/csh",
    );
}

#[test]
fn a_system_table_names_users() {
    let options = Options {
        system: true,
        ..options()
    };
    let text = "17 * * * * root cd / && run-parts --report /etc/cron.hourly\n@daily backup x\n";
    let import = read(text.as_bytes(), &options);
    let names: Vec<&str> = import.jobs.iter().map(|job| job.name()).collect();
    assert_eq!(names, ["run-parts-cron-hourly", "x"]);
    let label = |n: usize| &import.jobs[n].document["metadata"]["labels"]["cron-user"];
    assert_eq!((label(0), label(1)), (&"root".into(), &"backup".into()));
    let warned = import
        .remarks
        .iter()
        .filter(|r| r.field == "user" && r.level == Level::Warning);
    assert_eq!(warned.count(), 2);
    let short = read(b"0 1 * * * root\n", &options);
    assert!(short.refused() && short.jobs.is_empty());
}

#[test]
fn what_has_no_time_or_no_sense_is_refused_with_its_line() {
    says(
        "@reboot /usr/bin/agent\n",
        1,
        Level::Refused,
        "sichen run JOB",
    );
    says("\n\n0 25 * * * x\n", 3, Level::Refused, "SC1103");
    says("0 0 30 2 * x\n", 1, Level::Refused, "SC1113");
    says("5/10 * * * * x\n", 1, Level::Refused, "5-59/10");
    says("0~30 * * * * x\n", 1, Level::Refused, "H(0-29)");
    says("@fortnightly x\n", 1, Level::Refused, "SC1110");
    says("0 0 * * fri-mon x\n", 1, Level::Refused, "SC1104");
    says("0 1 * *\n", 1, Level::Refused, "an entry has");
    says("hello\n", 1, Level::Refused, "an entry has");
    let bytes = read(b"0 1 * * * caf\xe9\n", &options());
    assert!(bytes.refused() && bytes.jobs.is_empty());
}

#[test]
fn line_ends_and_a_missing_one_are_told() {
    let text = "0 1 * * * one\r\n0 2 * * * two";
    assert_eq!(import(text).jobs.len(), 2);
    says(text, 1, Level::Warning, "CR LF");
    says(text, 2, Level::Warning, "no end");
    assert_eq!(command("0 1 * * * one\r\n"), "one");
}

#[test]
fn comments_keep_their_meaning() {
    // A comment that is an entry is one that somebody has switched off.
    let off = "#0 5 * * * /opt/old\n0 6 * * * /opt/new\n";
    says(off, 1, Level::Note, "switched off");
    assert!(job(off)["metadata"]["title"].is_null());
    // A blank line parts a heading from what follows; lines of signs say nothing.
    assert!(job("# all jobs\n\n0 6 * * * x\n")["metadata"]["title"].is_null());
    assert_eq!(
        job("#######\n# x # y\n#######\n0 6 * * * x\n")["metadata"]["title"],
        "x # y"
    );
    // Behind a command it belongs to the command.
    assert_eq!(command("0 6 * * * x # y\n"), "x # y");
}

#[test]
fn names_are_made_of_what_runs_and_are_each_used_once() {
    let text = "0 1 * * * /usr/bin/python3 /opt/My_Report.py\n0 2 * * * nice -n 10 /opt/b.sh\n\
                0 3 * * * test -x /x || /opt/b.sh\n0 4 * * * [ -d /run ] && true\n0 5 * * * \"$X\"\n";
    let import = import(text);
    let names: Vec<&str> = import.jobs.iter().map(|job| job.name()).collect();
    assert_eq!(names, ["python3-my-report", "b", "b-2", "true", "x"]);
}

#[test]
fn names_steps_and_nicknames_have_the_times_of_the_source() {
    for times in [
        "@hourly",
        "@daily",
        "@midnight",
        "@weekly",
        "@monthly",
        "@yearly",
        "@annually",
        "*/15 0-6/2 1,15 jan-jun *",
        "0 9 * * Mon-Fri",
        "30 2 */2 * 1",
        "0 0 1 * sun",
        "5 1-3 * * 7",
    ] {
        for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"] {
            let text = format!("CRON_TZ={zone}\n{times} x\n");
            assert_eq!(
                import(&text).jobs[0].prove(NOW, 100),
                Ok(100),
                "{times} {zone}"
            );
        }
    }
}

#[test]
fn a_job_with_other_times_than_its_source_is_found() {
    let mut import = import("30 2 * * * x\n");
    import.jobs[0].document["spec"]["schedules"][0]["gap"] = "skip".into();
    // The first gap in Berlin after this is in March 2027.
    assert_eq!(import.jobs[0].prove(NOW, 100), Ok(100));
    let difference = import.jobs[0].prove(NOW, 300).unwrap_err();
    assert!(difference.contains("2027-03-28T01:00:00Z"), "{difference}");
}

#[test]
fn a_job_is_named_after_what_runs_past_what_wraps_it() {
    let check = |command: &str, name: &str| {
        let job = job(&format!("1 2 * * * {command}\n"));
        assert_eq!(job["metadata"]["name"], name, "{command}");
    };
    check("/opt/bin/backup.sh --full", "backup");
    check("flock -n /tmp/l /usr/bin/backup", "backup");
    check("/usr/bin/flock -w 5 /tmp/l /usr/bin/backup", "backup");
    check("timeout -k 5s 10m nice -n 10 /opt/report", "report");
    check("sudo -u www /opt/clean 3", "clean");
    check("env LANG=C ionice -c 2 /opt/clean", "clean");
}
