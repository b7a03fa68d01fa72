//! CronJobs, and what becomes of each field.

use serde_json::{Value, json};

use super::super::source::{Import, Level};
use super::{Options, read};

const NOW: i64 = 1_790_000_000;

/// A CronJob with these fields of its own, its Job and its pod.
fn cron_job(spec: Value, job: Value, pod: Value) -> Value {
    let mut whole = json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": { "name": "report", "namespace": "books", "labels": { "team": "money" } },
        "spec": {
            "schedule": "30 1 * * *", "timeZone": "America/New_York",
            "jobTemplate": { "spec": { "template": { "spec": {
                "restartPolicy": "Never",
                "containers": [{ "name": "c", "image": "example/report:1", "args": ["all"] }],
            } } } },
        },
    });
    let merge = |into: &mut Value, from: Value| {
        for (key, value) in from.as_object().unwrap() {
            into[key] = value.clone();
        }
    };
    merge(
        &mut whole["spec"]["jobTemplate"]["spec"]["template"]["spec"],
        pod,
    );
    merge(&mut whole["spec"]["jobTemplate"]["spec"], job);
    merge(&mut whole["spec"], spec);
    whole
}

fn import(text: &str) -> Import {
    let options = Options {
        namespace: "default".into(),
        ..Options::default()
    };
    let mut import = read(text, &options);
    import.keep_valid();
    import
}

/// The document's `spec` of a CronJob that is taken over.
#[track_caller]
fn spec(spec: Value, job: Value) -> Value {
    let import = import(&cron_job(spec, job, json!({})).to_string());
    assert_eq!(import.jobs.len(), 1, "{:#?}", import.remarks);
    assert_eq!(import.jobs[0].prove(NOW, 100), Ok(100));
    import.jobs[0].document["spec"].clone()
}

/// A CronJob with these fields leads to a remark.
#[track_caller]
fn says(parts: (Value, Value, Value), level: Level, field: &str, words: &str) {
    let import = import(&cron_job(parts.0, parts.1, parts.2).to_string());
    let found = import
        .remarks
        .iter()
        .any(|r| r.level == level && r.field == field && r.message.contains(words));
    assert!(found, "{level:?} {field} {words:?}: {:#?}", import.remarks);
    assert_eq!(import.refused(), import.jobs.is_empty());
}

fn nothing() -> Value {
    json!({})
}

#[test]
fn a_cron_job_becomes_a_job_with_the_clusters_habits() {
    let import = import(&cron_job(nothing(), nothing(), nothing()).to_string());
    let job = &import.jobs[0];
    let metadata = json!({ "name": "report", "namespace": "books", "labels": { "team": "money" } });
    assert_eq!(job.document["metadata"], metadata);
    let schedule = json!([{
        "cron": "30 1 * * *", "dialect": "kubernetes", "gap": "skip", "fold": "both",
    }]);
    let spec = &job.document["spec"];
    assert_eq!(spec["schedules"], schedule);
    assert_eq!(spec["timeZone"], "America/New_York");
    assert_eq!(spec["run"], json!({ "handler": "report" }));
    assert_eq!(
        (&spec["overlap"], &spec["catchUp"]["policy"]),
        (&"allow".into(), &"latest".into())
    );
    assert_eq!(spec["retry"]["maxAttempts"], 7);
    let worker = job.comments.last().unwrap();
    assert!(
        worker.contains(r#""run","--rm","--env","SICHEN_*","example/report:1","all""#),
        "{worker}"
    );
    // Through both changes of the clock: a gap is left out, a fold runs twice.
    assert_eq!(job.prove(NOW, 1_000), Ok(1_000));
}

#[test]
fn policies_deadlines_and_limits_are_taken_over() {
    let found = spec(
        json!({ "concurrencyPolicy": "Forbid", "startingDeadlineSeconds": 200 }),
        json!({ "backoffLimit": 2, "activeDeadlineSeconds": 600 }),
    );
    assert_eq!(found["overlap"], "forbid");
    assert_eq!(found["catchUp"]["startingDeadline"], "200s");
    assert_eq!(found["onResume"], "catchUp");
    assert_eq!(found["retry"]["maxAttempts"], 3);
    assert_eq!(found["timeouts"]["activeDeadline"], "600s");
    let replace = json!({ "concurrencyPolicy": "Replace" });
    assert_eq!(spec(replace, nothing())["overlap"], "replace");
    let odd = json!({ "concurrencyPolicy": "Sometimes" });
    says(
        (odd, nothing(), nothing()),
        Level::Refused,
        "spec.concurrencyPolicy",
        "none of",
    );
}

#[test]
fn indexed_completions_become_shards() {
    let found = spec(
        nothing(),
        json!({ "completions": 12, "parallelism": 3, "completionMode": "Indexed" }),
    );
    assert_eq!(
        (&found["shards"]["count"], &found["parallelism"]),
        (&12.into(), &3.into())
    );
    // The cluster counts the failures of all pods together.
    assert_eq!(found["retry"]["maxFailures"], 7);
    let job = json!({ "completions": 2, "completionMode": "Indexed" });
    let mode = "spec.jobTemplate.spec.completionMode";
    says(
        (nothing(), job, nothing()),
        Level::Warning,
        mode,
        "SICHEN_SHARD_INDEX",
    );
    assert!(spec(nothing(), json!({ "completions": 1 }))["shards"].is_null());
    let queue = json!({ "parallelism": 4 });
    let field = "spec.jobTemplate.spec.parallelism";
    says(
        (nothing(), queue, nothing()),
        Level::Refused,
        field,
        "queue",
    );
    let none = json!({ "parallelism": 0 });
    says(
        (nothing(), none, nothing()),
        Level::Refused,
        field,
        "no pod",
    );
}

#[test]
fn an_indexed_container_is_told_its_index_by_both_names() {
    let job = json!({ "completions": 3, "completionMode": "Indexed" });
    let import = import(&cron_job(nothing(), job, nothing()).to_string());
    let worker = import.jobs[0].comments.last().unwrap();
    let argv = worker.split_once("argv: ").unwrap().1;
    let argv: Vec<String> = serde_json::from_str(argv.trim_end_matches(" }")).unwrap();
    // The same start with another program in podman's place.
    let script = argv[2].replace("/usr/bin/podman", "/bin/echo");
    let told = std::process::Command::new(&argv[0])
        .args([&argv[1], &script])
        .args(&argv[3..])
        .env("SICHEN_SHARD_INDEX", "2")
        .output()
        .unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    assert_eq!(
        told,
        "run --rm --env SICHEN_* --env JOB_COMPLETION_INDEX example/report:1 all\n"
    );
    let script = argv[2].replace("exec /usr/bin/podman", "exec /usr/bin/env");
    let told = std::process::Command::new(&argv[0])
        .args([&argv[1], &script])
        .env("SICHEN_SHARD_INDEX", "2")
        .output()
        .unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(
        told.lines().any(|line| line == "JOB_COMPLETION_INDEX=2"),
        "{told}"
    );
}

#[test]
fn a_pod_failure_policy_becomes_rules() {
    let rules = json!([
        { "action": "FailJob", "onExitCodes": { "operator": "In", "values": [42, 43] } },
        { "action": "Count", "onExitCodes": { "operator": "NotIn", "values": [2, 200, 255] } },
        { "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget" }] },
    ]);
    let policy = json!({ "podFailurePolicy": { "rules": rules }, "backoffLimit": 4 });
    let found = spec(nothing(), policy);
    assert_eq!(
        found["retry"]["rules"],
        json!([
            { "exitCodes": [42, 43], "action": "failRun" },
            { "exitCodes": [1, "3-199", "201-254"], "action": "retry" },
            { "ends": ["lost"], "action": "retry" },
        ])
    );
    let odd = json!([{ "action": "FailJob", "onPodConditions": [{ "type": "ConfigIssue" }] }]);
    let policy = json!({ "podFailurePolicy": { "rules": odd } });
    let field = "spec.jobTemplate.spec.podFailurePolicy.rules[0]";
    says(
        (nothing(), policy, nothing()),
        Level::Refused,
        field,
        "no counterpart",
    );
}

#[test]
fn zones_and_schedules_that_mean_something_else_are_refused() {
    let schedule = |text: &str| (json!({ "schedule": text }), nothing(), nothing());
    let field = "spec.schedule";
    says(schedule("@every 90m"), Level::Refused, field, "last start");
    says(
        schedule("0 0 12 * * *"),
        Level::Refused,
        field,
        "five fields",
    );
    says(schedule("0 9 * * 7"), Level::Refused, field, "SC1103");
    says(schedule("0 0 30 2 *"), Level::Refused, field, "SC1113");
    says(
        schedule("TZ=Asia/Tokyo 0 9 * * *"),
        Level::Refused,
        field,
        "keep one",
    );
    let no_zone = json!({ "timeZone": null });
    says(
        (no_zone, nothing(), nothing()),
        Level::Warning,
        field,
        "--tz",
    );
    let zone = json!({ "timeZone": "Local" });
    says(
        (zone, nothing(), nothing()),
        Level::Refused,
        "spec.timeZone",
        "SC1120",
    );
    let in_text = json!({ "timeZone": null, "schedule": "CRON_TZ=Asia/Tokyo 5/20 9 ? * *" });
    assert_eq!(spec(in_text, nothing())["timeZone"], "Asia/Tokyo");
}

#[test]
fn a_suspended_one_is_paused_and_what_has_no_counterpart_is_named() {
    let suspended = import(&cron_job(json!({ "suspend": true }), nothing(), nothing()).to_string());
    assert!(suspended.jobs[0].paused);
    says(
        (json!({ "suspend": true }), nothing(), nothing()),
        Level::Warning,
        "spec.suspend",
        "pause",
    );
    let limits = json!({ "successfulJobsHistoryLimit": 3 });
    let field = "spec.successfulJobsHistoryLimit";
    says((limits, nothing(), nothing()), Level::Note, field, "by age");
    let odd = json!({ "schedul": "x" });
    says(
        (odd, nothing(), nothing()),
        Level::Warning,
        "spec.schedul",
        "not known",
    );
    let job = json!({ "podReplacementPolicy": "Failed" });
    let field = "spec.jobTemplate.spec.podReplacementPolicy";
    says(
        (nothing(), job, nothing()),
        Level::Warning,
        field,
        "no counterpart",
    );
    let pod = json!({ "volumes": [] });
    let field = "spec.jobTemplate.spec.template.spec.volumes";
    says((nothing(), nothing(), pod), Level::Warning, field, "worker");
    let pod = json!({ "initContainers": [{ "name": "i" }] });
    let field = "spec.jobTemplate.spec.template.spec.initContainers";
    says((nothing(), nothing(), pod), Level::Refused, field, "before");
}

#[test]
fn lists_and_several_documents_are_read_and_other_kinds_named() {
    let one = cron_job(nothing(), nothing(), nothing());
    let mut two = one.clone();
    two["metadata"]["name"] = "second".into();
    two.as_object_mut().unwrap().remove("kind");
    two.as_object_mut().unwrap().remove("apiVersion");
    let list = json!({ "apiVersion": "batch/v1", "kind": "CronJobList", "items": [two] });
    let mixed = json!({ "apiVersion": "v1", "kind": "List", "items": [one, list] });
    let text = format!(
        "# a service first\napiVersion: v1\nkind: Service\nmetadata: {{ name: web }}\n---\n{mixed}\n"
    );
    let import_ = import(&text);
    let names: Vec<&str> = import_.jobs.iter().map(|job| job.name()).collect();
    assert_eq!(names, ["report", "second"], "{:#?}", import_.remarks);
    let note = &import_.remarks[0];
    assert_eq!((note.line, note.level), (2, Level::Note));
    assert!(note.message.contains("Service web"), "{note:?}");
    let mut old = cron_job(nothing(), nothing(), nothing());
    old["apiVersion"] = "batch/v1beta1".into();
    let beta = import(&old.to_string());
    assert!(
        beta.remarks
            .iter()
            .any(|r| r.level == Level::Warning && r.field == "apiVersion")
    );
    assert_eq!(beta.jobs.len(), 1);
    old["apiVersion"] = "batch/v2alpha1".into();
    assert!(import(&old.to_string()).refused());
    assert!(import("a: [").refused());
}

#[test]
fn remarks_stand_at_the_line_of_their_field() {
    let text = "apiVersion: batch/v1\nkind: CronJob\nmetadata:\n  name: x\nspec:\n  schedule: '0 9 * * *'\n  \
                timeZone: UTC\n  successfulJobsHistoryLimit: 1\n  jobTemplate:\n    spec:\n      template:\n        \
                spec:\n          containers:\n          - image: i\n            resources: {}\n";
    let import = import(text);
    let line = |field: &str| {
        let remark = import.remarks.iter().find(|r| r.field.ends_with(field));
        remark.map(|r| r.line)
    };
    assert_eq!(
        line("successfulJobsHistoryLimit"),
        Some(8),
        "{:#?}",
        import.remarks
    );
    assert_eq!(line("resources"), Some(15), "{:#?}", import.remarks);
}
