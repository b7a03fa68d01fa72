//! From a job document and an occasion to the run that is to be written.
//!
//! The one place where a layout meets its parameters and period, so that a scheduled, a manual and
//! a backfilled run are cut alike.
//!
//! # Not here
//! Writing it ([`crate::port::Store`]); cutting ([`crate::layout`]).

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::check::{Problem, range_cut};
use super::{BoundsSpec, Document, ItemsSpec, KeySpec, RangeSpec, RunSpec, ShardsSpec};
use crate::ids::{JobUid, Occasion, Revision};
use crate::layout::{Descriptor, Layout, MAX_SHARDS};
use crate::model::{Period, RunTerms};
use crate::name::{Name, nearest};
use crate::place::BROADCAST_TO;
use crate::port::NewRun;
use crate::timeouts::Timeouts;

/// The handler name under which a worker runs processes.
pub const PROCESS_HANDLER: &str = "process";

/// Which run is wanted.
#[derive(Clone, Debug)]
pub struct Request {
    /// The job.
    pub job: JobUid,
    /// Its revision, the one of the document.
    pub revision: Revision,
    /// The occasion.
    pub occasion: Occasion,
    /// The period it stands for.
    pub period: Option<Period>,
    /// Parameters that take the place of the document's.
    pub parameters: Map<String, Value>,
    /// Digest of the request, for idempotency keys.
    pub digest: String,
}

/// The run that `request` asks for, as the document has it at `now`.
///
/// # Errors
/// A [`Problem`] if a parameter is none that the document declares or can't be handed on as it is, if those that the layout needs
/// are missing or of the wrong kind, or if it gives too many shards.
pub fn new_run(doc: &Document, request: Request, now: Timestamp) -> Result<NewRun, Problem> {
    let spec = &doc.spec;
    declared(doc, &request.parameters)?;
    if doc.is_broadcast() && request.parameters.contains_key(BROADCAST_TO) {
        let message = "SC1075: is filled in by `strategy: broadcast` with the names of the workers";
        return Err(problem("parameters.sichen_workers", message.to_owned()));
    }
    let mut parameters = spec.parameters.clone();
    if !request.parameters.is_empty() {
        parameters.extend(request.parameters);
        let together = super::parameters::check(&parameters, "parameters");
        if let Some(problem) = together.into_iter().next() {
            return Err(problem);
        }
    }
    let shards = shards(doc, &parameters, request.period)?;
    let handler = match &spec.run {
        RunSpec::Handler(name) => name.clone(),
        RunSpec::Process(_) => PROCESS_HANDLER.to_owned(),
    };
    let pool = Name::new(&spec.pool)
        .map_err(|e| problem("spec.pool", format!("SC1001: the name {:?} {e}", spec.pool)))?;
    let deadline = spec.timeouts.run.and_then(|t| now.checked_add(t.0).ok());
    let terms = RunTerms {
        pool,
        handler,
        priority: spec.priority,
        parallelism: spec.parallelism.unwrap_or(MAX_SHARDS),
        parameters: Value::Object(parameters).to_string(),
        counts_must_match: spec.counts_must_match,
        deadline,
        start_by: None,
        uses: doc.uses(),
    };
    Ok(NewRun {
        job: request.job,
        occasion: request.occasion,
        revision: request.revision,
        period: request.period,
        nominal: None,
        terms,
        shards: shards.into(),
        ready_at: now,
        backfill: None,
        waits: None,
        counted: None,
        digest: request.digest,
        born_leased: None,
        timeouts: doc.timeouts(),
    })
}

impl Document {
    /// How long an attempt, and the run from its first grant, may take.
    #[must_use]
    pub fn timeouts(&self) -> Timeouts {
        let spec = &self.spec.timeouts;
        Timeouts {
            attempt: spec.attempt.map(|t| t.0),
            stall: spec.stall.map(|t| t.0),
            active: spec.active_deadline.map(|t| t.0),
        }
    }

    /// From asking an attempt to stop to killing it, if the job says so.
    #[must_use]
    pub fn grace(&self) -> Option<jiff::SignedDuration> {
        self.spec.timeouts.grace.map(|grace| grace.0)
    }

    /// The data source that the plan step reads, if the layout has one.
    #[must_use]
    pub fn data_source(&self) -> Option<&str> {
        match &self.spec.shards {
            Some(ShardsSpec::Range(range)) => match &range.bounds {
                BoundsSpec::Query(query) => Some(&query.data_source),
                BoundsSpec::Literal(_) | BoundsSpec::Parameters(_) | BoundsSpec::Period => None,
            },
            Some(ShardsSpec::Count(_) | ShardsSpec::Items(_)) | None => None,
        }
    }

    /// The layout that the answer of the plan step's query gives.
    ///
    /// # Errors
    /// A message if the document has no such layout or the answer can't be cut.
    pub fn cut_extremes(&self, keys: Option<(i64, i64)>) -> Result<Vec<Descriptor>, String> {
        let Some(ShardsSpec::Range(range)) = &self.spec.shards else {
            return Err("SC1021: this job's layout takes no bounds from a query".to_owned());
        };
        let layout = Layout::from_extremes(keys, range_cut(range)?).map_err(|e| e.to_string())?;
        layout.cut().map_err(|e| e.to_string())
    }
}

/// That each of `given` has a name that the document declares: in its parameters, or for its layout.
/// A document that declares none takes any, since only its handler knows them.
fn declared(doc: &Document, given: &Map<String, Value>) -> Result<(), Problem> {
    let mut names: Vec<&str> = doc.spec.parameters.keys().map(String::as_str).collect();
    // Not of the job's own making.
    names.retain(|name| *name != BROADCAST_TO);
    if names.is_empty() {
        return Ok(());
    }
    match &doc.spec.shards {
        Some(ShardsSpec::Items(ItemsSpec::Parameter(name))) => names.push(name),
        Some(ShardsSpec::Range(RangeSpec {
            bounds: BoundsSpec::Parameters(bounds),
            ..
        })) => names.extend([bounds.from.as_str(), &bounds.to]),
        Some(ShardsSpec::Count(_) | ShardsSpec::Items(_) | ShardsSpec::Range(_)) | None => {}
    }
    let Some(unknown) = given.keys().find(|name| !names.contains(&name.as_str())) else {
        return Ok(());
    };
    let meant = nearest(unknown, &names);
    let meant = meant.map_or(String::new(), |name| format!("did you mean `{name}`? "));
    Err(problem(
        &format!("parameters.{unknown}"),
        format!(
            "SC1027: the job declares no such parameter; {meant}declared: `{}`; to take others, add \
             them to the job's `parameters`",
            names.join("`, `")
        ),
    ))
}

fn problem(path: &str, message: impl Into<String>) -> Problem {
    Problem {
        path: path.to_owned(),
        message: message.into(),
    }
}

fn shards(
    doc: &Document,
    parameters: &Map<String, Value>,
    period: Option<Period>,
) -> Result<Vec<Descriptor>, Problem> {
    let layout = match &doc.spec.shards {
        None => Layout::Single,
        Some(ShardsSpec::Count(n)) => Layout::Count(*n),
        Some(ShardsSpec::Items(ItemsSpec::Values(items))) => Layout::Items(items.clone()),
        Some(ShardsSpec::Items(ItemsSpec::Parameter(name))) => {
            Layout::Items(items(parameters, name)?)
        }
        Some(ShardsSpec::Range(range)) => {
            if let BoundsSpec::Query(query) = &range.bounds {
                return Ok(vec![Descriptor::Plan {
                    data_source: query.data_source.clone(),
                    sql: query.sql.clone(),
                }]);
            }
            let path = "spec.shards.range";
            let cut = range_cut(range).map_err(|m| problem(path, m))?;
            let (from, to) = bounds(range, parameters, period)?;
            Layout::Range { from, to, cut }
        }
    };
    layout
        .cut()
        .map_err(|e| problem("spec.shards", e.to_string()))
}

fn items(parameters: &Map<String, Value>, name: &str) -> Result<Vec<String>, Problem> {
    let path = format!("parameters.{name}");
    let Some(Value::Array(values)) = parameters.get(name) else {
        return Err(problem(
            &path,
            "SC1022: the layout needs this parameter, a list of strings",
        ));
    };
    values
        .iter()
        .map(|v| v.as_str().map(str::to_owned))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| problem(&path, "SC1022: must be a list of strings"))
}

fn bounds(
    range: &RangeSpec,
    parameters: &Map<String, Value>,
    period: Option<Period>,
) -> Result<(i64, i64), Problem> {
    match &range.bounds {
        BoundsSpec::Literal(b) => {
            let key = |k| {
                range
                    .key(k)
                    .map_err(|m| problem("spec.shards.range.bounds.literal", m))
            };
            Ok((key(&b.from)?, key(&b.to)?))
        }
        BoundsSpec::Parameters(names) => {
            let key = |name: &str| {
                let path = format!("parameters.{name}");
                let key = match parameters.get(name) {
                    Some(Value::Number(n)) if n.is_i64() => {
                        KeySpec::Integer(n.as_i64().unwrap_or_default())
                    }
                    Some(Value::String(text)) => KeySpec::Instant(text.clone()),
                    _ => {
                        return Err(problem(
                            &path,
                            "SC1023: the layout needs this parameter, a key",
                        ));
                    }
                };
                range.key(&key).map_err(|m| problem(&path, m))
            };
            Ok((key(&names.from)?, key(&names.to)?))
        }
        BoundsSpec::Period => {
            let period = period.ok_or_else(|| {
                problem(
                    "spec.shards.range.bounds",
                    "SC1024: this run has no period; give one",
                )
            })?;
            Ok((period.start.as_microsecond(), period.end.as_microsecond()))
        }
        BoundsSpec::Query(_) => Err(problem("spec.shards.range.bounds", "SC1025: not read yet")),
    }
}
