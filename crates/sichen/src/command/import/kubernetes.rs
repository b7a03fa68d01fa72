//! Kubernetes CronJobs, field by field.
//!
//! # Invariants
//! - A field that moves times or changes outcomes is taken over, or the CronJob is refused; every
//!   other field that is there is named.
//!
//! # Not here
//! What a container needs (image, volumes, secrets): that belongs to the worker that starts it
//! (`super::container`); the policy of failures (`super::failures`).

use serde_json::{Map, Value, json};
use sichen_audit::{Dialect as Slow, Timetable};
use sichen_core::schedule::cron::{Cron, Dialect};
use sichen_core::schedule::zone_by_name;
use sichen_server::document::{Foreign, read_foreign};

use super::container;
use super::failures;
use super::source::{Import, Imported, Level, document};

/// Items of lists within one file.
pub const MAX_ITEMS: usize = 1_000;

/// How manifests are to be read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The zone of CronJobs that name none.
    pub time_zone: Option<String>,
    /// The namespace of CronJobs that name none.
    pub namespace: String,
    pub pool: Option<String>,
}

/// A field and why it can't be taken over.
pub type Refused = (String, String);

/// Reads manifests: documents and lists, of any kinds.
pub fn read(text: &str, options: &Options) -> Import {
    let mut import = Import::default();
    let documents = match read_foreign(text) {
        Ok(documents) => documents,
        Err(problem) => {
            import.say(
                problem.line.unwrap_or(1),
                Level::Refused,
                "",
                problem.message,
            );
            return import;
        }
    };
    for foreign in &documents {
        object(foreign, &foreign.value, "", options, &mut import);
    }
    import.remarks.sort_by_key(|remark| remark.line);
    import
}

fn object(foreign: &Foreign, value: &Value, at: &str, options: &Options, import: &mut Import) {
    let line = foreign.line_of(at);
    let kind = value["kind"].as_str().unwrap_or("");
    let version = value["apiVersion"].as_str().unwrap_or("");
    if let (true, Some(items)) = (kind.ends_with("List"), value["items"].as_array()) {
        if items.len() > MAX_ITEMS {
            let message = format!("the list has more than {MAX_ITEMS} items; split it");
            return import.say(line, Level::Refused, "items", message);
        }
        for (n, item) in items.iter().enumerate() {
            let mut item = item.clone();
            // The items of a list of one kind need not name it.
            if let (Some(kind), Some(fields)) = (kind.strip_suffix("List"), item.as_object_mut())
                && !kind.is_empty()
            {
                fields.entry("kind").or_insert_with(|| kind.into());
                fields.entry("apiVersion").or_insert_with(|| version.into());
            }
            let at = if at.is_empty() {
                format!("items[{n}]")
            } else {
                format!("{at}.items[{n}]")
            };
            object(foreign, &item, &at, options, import);
        }
        return;
    }
    let name = value["metadata"]["name"]
        .as_str()
        .unwrap_or("without a name");
    if kind != "CronJob" {
        let kind = if kind.is_empty() { "document" } else { kind };
        let message = format!("{kind} {name} is no CronJob and is passed over");
        return import.say(line, Level::Note, "kind", message);
    }
    match version {
        "batch/v1" => {}
        "batch/v1beta1" => {
            let message =
                "batch/v1beta1 is gone from Kubernetes since 1.25; it is read as batch/v1";
            import.say(line, Level::Warning, "apiVersion", message);
        }
        other => {
            let message = format!("{other:?} is not known; batch/v1 is read");
            return import.say(line, Level::Refused, "apiVersion", message);
        }
    }
    let mut reader = Reader {
        foreign,
        at,
        value,
        options,
        import,
    };
    match reader.cron_job() {
        Ok(job) => import.jobs.push(job),
        Err((field, why)) => {
            let inside = if at.is_empty() {
                field.clone()
            } else {
                format!("{at}.{field}")
            };
            let line = foreign.line_of(&inside);
            import.say(
                line,
                Level::Refused,
                &field,
                format!("CronJob {name}: {why}"),
            );
        }
    }
}

/// One CronJob, and where to say what there is to say.
pub struct Reader<'a> {
    foreign: &'a Foreign,
    at: &'a str,
    pub value: &'a Value,
    options: &'a Options,
    import: &'a mut Import,
}

/// What is known of a CronJob, its Job and its pods beside what is read; set by the cluster itself.
const SET_BY_CLUSTER: &[&str] = &[
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
];
const JOB: &str = "spec.jobTemplate.spec";
const POD: &str = "spec.jobTemplate.spec.template.spec";

impl Reader<'_> {
    pub fn say(&mut self, level: Level, field: &str, message: impl Into<String>) {
        let inside = if self.at.is_empty() {
            field.to_owned()
        } else {
            format!("{}.{field}", self.at)
        };
        let line = self.foreign.line_of(&inside);
        let name = self.value["metadata"]["name"].as_str().unwrap_or("");
        let message = format!("CronJob {name}: {}", message.into());
        self.import.say(line, level, field, message);
    }

    pub fn get(&self, path: &str) -> &Value {
        path.split('.').fold(self.value, |value, key| &value[key])
    }

    pub fn text(&self, path: &str) -> Result<Option<&str>, Refused> {
        match self.get(path) {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            other => Err((path.to_owned(), format!("{other} is no text"))),
        }
    }

    pub fn number(&self, path: &str) -> Result<Option<u64>, Refused> {
        match self.get(path) {
            Value::Null => Ok(None),
            other => other.as_u64().map(Some).ok_or_else(|| {
                let why = format!("{other} is no whole number from 0 on");
                (path.to_owned(), why)
            }),
        }
    }

    /// Names the fields of an object that nobody reads.
    pub fn others(&mut self, path: &str, known: &[&str], level: Level, why: &str) {
        let object = if path.is_empty() {
            self.value.as_object()
        } else {
            self.get(path).as_object()
        };
        let odd: Vec<String> = object
            .into_iter()
            .flat_map(|object| object.keys())
            .filter(|key| !known.contains(&key.as_str()))
            .cloned()
            .collect();
        for key in odd {
            let field = if path.is_empty() {
                key
            } else {
                format!("{path}.{key}")
            };
            self.say(level, &field, why);
        }
    }

    fn cron_job(&mut self) -> Result<Imported, Refused> {
        let name = self.text("metadata.name")?.map(str::to_owned);
        let name = name.ok_or(("metadata.name".to_owned(), "there is no name".to_owned()))?;
        let (times, zone) = self.times()?;
        let source = Timetable::cron(&times, Slow::Kubernetes, &zone, None, 0);
        let source = source.map_err(|why| ("spec.schedule".to_owned(), why))?;
        let mut spec = Map::new();
        let schedule = json!({
            "cron": times, "dialect": "kubernetes", "gap": "skip", "fold": "both",
        });
        spec.insert("schedules".into(), json!([schedule]));
        spec.insert("timeZone".into(), zone.into());
        if let Some(pool) = &self.options.pool {
            spec.insert("pool".into(), pool.as_str().into());
        }
        self.overlap(&mut spec)?;
        self.work(&mut spec)?;
        failures::read(self, &mut spec)?;
        let run = container::read(self, &name)?;
        spec.insert("run".into(), json!({ "handler": name }));
        let metadata = self.metadata(&name)?;
        let paused = self.suspended(&name)?;
        self.leftovers();
        let namespace = metadata["namespace"].as_str().unwrap_or("default");
        let title = format!("CronJob {namespace}/{name}");
        Ok(Imported {
            line: self.foreign.line_of(self.at),
            comments: [title].into_iter().chain(run).collect(),
            document: document(metadata, spec),
            source: vec![source],
            paused,
        })
    }

    fn metadata(&mut self, name: &str) -> Result<Map<String, Value>, Refused> {
        let namespace = self.text("metadata.namespace")?;
        let namespace = namespace.unwrap_or(&self.options.namespace).to_owned();
        let mut metadata = Map::new();
        metadata.insert("name".into(), name.into());
        metadata.insert("namespace".into(), namespace.into());
        if let Some(labels) = self.get("metadata.labels").as_object() {
            metadata.insert("labels".into(), labels.clone().into());
        }
        let known = ["name", "namespace", "labels"];
        let known: Vec<&str> = known.iter().chain(SET_BY_CLUSTER).copied().collect();
        let why = "left out: a job has a name, a title and labels";
        self.others("metadata", &known, Level::Note, why);
        Ok(metadata)
    }

    /// The expression and its zone.
    fn times(&mut self) -> Result<(String, String), Refused> {
        let field = "spec.schedule";
        let refused = |why: String| Err((field.to_owned(), why));
        let Some(text) = self.text(field)?.map(str::to_owned) else {
            return refused("there is no schedule".into());
        };
        let cron = match Cron::parse_for_job(&text, Dialect::Kubernetes, None) {
            Ok(cron) => cron,
            Err(error) => return refused(error.to_string()),
        };
        if cron.every().is_some() {
            return refused(
                "`@every` counts from the CronJob's last start, which no document can say; write \
                 a job with `every`, which keeps to a grid of its own"
                    .into(),
            );
        }
        if Dialect::of(cron.text()) == Dialect::Seconds {
            return refused("a CronJob's schedule has five fields".into());
        }
        let in_text = cron.zone().map(str::to_owned);
        let beside = self.text("spec.timeZone")?.map(str::to_owned);
        let zone = match (in_text, beside) {
            (Some(_), Some(_)) => {
                return refused("the schedule names a zone and `timeZone` too; keep one".into());
            }
            (Some(zone), None) => {
                let message = "the zone in front of the schedule is written as `timeZone`";
                self.say(Level::Warning, field, message);
                zone
            }
            (None, Some(zone)) => {
                if let Err(error) = zone_by_name(&zone) {
                    return Err(("spec.timeZone".to_owned(), error.to_string()));
                }
                zone
            }
            (None, None) => match &self.options.time_zone {
                Some(zone) => zone.clone(),
                None => {
                    let message = "no `timeZone`: the cluster takes that of its controller, which \
                                   is mostly UTC; UTC is written, --tz names another";
                    self.say(Level::Warning, field, message);
                    "UTC".to_owned()
                }
            },
        };
        Ok((cron.text().to_owned(), zone))
    }

    fn overlap(&mut self, spec: &mut Map<String, Value>) -> Result<(), Refused> {
        let field = "spec.concurrencyPolicy";
        let overlap = match self.text(field)? {
            None | Some("Allow") => "allow",
            Some("Forbid") => "forbid",
            Some("Replace") => "replace",
            Some(other) => {
                let why = format!("{other:?} is none of Allow, Forbid, Replace");
                return Err((field.to_owned(), why));
            }
        };
        spec.insert("overlap".into(), overlap.into());
        let mut catch_up = json!({ "policy": "latest" });
        if let Some(seconds) = self.number("spec.startingDeadlineSeconds")? {
            catch_up["startingDeadline"] = format!("{seconds}s").into();
        }
        spec.insert("catchUp".into(), catch_up);
        // A CronJob that is no longer suspended starts the newest time it missed, if that is in time.
        spec.insert("onResume".into(), "catchUp".into());
        Ok(())
    }

    /// Shards, parallelism and limits on time.
    fn work(&mut self, spec: &mut Map<String, Value>) -> Result<(), Refused> {
        let (all, at_once) = (format!("{JOB}.completions"), format!("{JOB}.parallelism"));
        let mode = format!("{JOB}.completionMode");
        let indexed = match self.text(&mode)? {
            None | Some("NonIndexed") => false,
            Some("Indexed") => true,
            Some(other) => return Err((mode, format!("{other:?} is not known"))),
        };
        let (completions, parallelism) = (self.number(&all)?, self.number(&at_once)?);
        let parallel = parallelism.unwrap_or(1);
        match completions {
            _ if parallel == 0 => {
                let why = "0 starts no pod: the CronJob does nothing as it stands";
                return Err((at_once, why.to_owned()));
            }
            Some(0) => return Err((all, "0 completions are no work".to_owned())),
            None if indexed => {
                return Err((all, "an Indexed job says how many completions".to_owned()));
            }
            None if parallel > 1 => {
                let why = "without `completions` the pods share a queue of their own and end \
                           together; Sichen's shards each have their part: write `shards`";
                return Err((at_once, why.to_owned()));
            }
            None => {}
            Some(count) => {
                if count > 1 || indexed {
                    spec.insert("shards".into(), json!({ "count": count }));
                    spec.insert("parallelism".into(), parallel.min(count).into());
                }
                if indexed {
                    let message = "JOB_COMPLETION_INDEX is SICHEN_SHARD_INDEX here, which the lines \
                                   above the document hand to the container under both names; \
                                   SICHEN_SHARD_TOTAL says how many there are";
                    self.say(Level::Warning, &mode, message);
                } else if count > 1 {
                    let message = "each completion becomes a shard with a number of its own";
                    self.say(Level::Note, &all, message);
                }
            }
        }
        let mut timeouts = Map::new();
        if let Some(seconds) = self.number(&format!("{JOB}.activeDeadlineSeconds"))? {
            timeouts.insert("activeDeadline".into(), format!("{seconds}s").into());
        }
        if let Some(seconds) = self.number(&format!("{POD}.activeDeadlineSeconds"))? {
            timeouts.insert("attempt".into(), format!("{seconds}s").into());
        }
        if !timeouts.is_empty() {
            spec.insert("timeouts".into(), timeouts.into());
        }
        Ok(())
    }

    fn suspended(&mut self, name: &str) -> Result<bool, Refused> {
        let inner = format!("{JOB}.suspend");
        if self.get(&inner) == &Value::Bool(true) {
            let why = "each Job is made suspended and waits for somebody to start it; make it a \
                       job without schedules, started by `sichen run`";
            return Err((inner, why.to_owned()));
        }
        match self.get("spec.suspend") {
            Value::Null | Value::Bool(false) => Ok(false),
            Value::Bool(true) => {
                let message = format!(
                    "it is suspended: --apply makes a paused job of it; where the document is \
                     applied by other means, `sichen pause {name}` has to follow"
                );
                self.say(Level::Warning, "spec.suspend", message);
                Ok(true)
            }
            other => Err((
                "spec.suspend".to_owned(),
                format!("{other} is no yes or no"),
            )),
        }
    }

    /// Names every field that was not read.
    fn leftovers(&mut self) {
        let unknown = "not known, left out";
        let top = ["apiVersion", "kind", "metadata", "spec", "status"];
        self.others("", &top, Level::Warning, unknown);
        for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
            let path = format!("spec.{field}");
            if !self.get(&path).is_null() {
                let message = "left out: history is kept by age, for all jobs alike";
                self.say(Level::Note, &path, message);
            }
        }
        let spec = [
            "schedule",
            "timeZone",
            "concurrencyPolicy",
            "startingDeadlineSeconds",
            "suspend",
            "successfulJobsHistoryLimit",
            "failedJobsHistoryLimit",
            "jobTemplate",
        ];
        self.others("spec", &spec, Level::Warning, unknown);
        let ttl = format!("{JOB}.ttlSecondsAfterFinished");
        if !self.get(&ttl).is_null() {
            let message = "left out: history is kept by age, for all jobs alike";
            self.say(Level::Note, &ttl, message);
        }
        let job = [
            "parallelism",
            "completions",
            "completionMode",
            "backoffLimit",
            "backoffLimitPerIndex",
            "podFailurePolicy",
            "activeDeadlineSeconds",
            "ttlSecondsAfterFinished",
            "suspend",
            "template",
        ];
        self.others(JOB, &job, Level::Warning, "has no counterpart, left out");
    }
}

#[cfg(test)]
#[path = "kubernetes_tests.rs"]
mod tests;
