//! Handlers: the user's functions, and how one attempt goes through them.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sichen_proto::v1;

use crate::context::{Context, EarlierAttempt, Part};
use crate::data_source::DataSource;
use crate::error::{HandlerError, Stopped};
use crate::session::{Ended, MAX_RESULT_BYTES};

/// A boxed future, as object-safe traits need it.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Something that can run attempts. Most users give a function to
/// [`Builder::handler`](crate::worker::Builder::handler) instead.
pub trait Handler: Send + Sync + 'static {
    /// Runs one attempt to its end and returns its result as JSON (`null` for none).
    fn run(&self, context: Context) -> BoxFuture<Result<serde_json::Value, HandlerError>>;

    /// Whether it ends by itself within the grace of [`Context::stop_order`], and only when all
    /// that it started is dead. Such a handler is never aborted: its return is the proof of death.
    fn ends_itself(&self) -> bool {
        false
    }
}

/// What a probe found out about an earlier attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Probed {
    /// Its effect took place: the shard succeeds with this result, and the handler is not run.
    TookPlace(serde_json::Value),
    /// It did not, and no longer can.
    DidNot,
    /// Can't be told now: the attempt fails with the code `outcome-unknown` and is retried by the
    /// job's policy, rather than doing twice what may have been done.
    Unknown,
}

/// Asks whether the effect of an earlier attempt took place.
pub(crate) trait Probe: Send + Sync + 'static {
    fn ask(
        &self,
        context: Context,
        earlier: EarlierAttempt,
    ) -> BoxFuture<Result<Probed, HandlerError>>;
}

impl<F, Fut> Probe for F
where
    F: Fn(Context, EarlierAttempt) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Probed, HandlerError>> + Send + 'static,
{
    fn ask(
        &self,
        context: Context,
        earlier: EarlierAttempt,
    ) -> BoxFuture<Result<Probed, HandlerError>> {
        Box::pin(self(context, earlier))
    }
}

/// An async function as a handler.
pub(crate) struct AsyncFn<F, P>(pub(crate) F, pub(crate) std::marker::PhantomData<fn(P)>);

impl<F, P, Fut, R> Handler for AsyncFn<F, P>
where
    F: Fn(Context, P) -> Fut + Send + Sync + 'static,
    P: DeserializeOwned + 'static,
    Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
    R: Serialize + 'static,
{
    fn run(&self, context: Context) -> BoxFuture<Result<serde_json::Value, HandlerError>> {
        match context.read_parameters() {
            Ok(parameters) => {
                let work = (self.0)(context, parameters);
                Box::pin(async move { Ok(serde_json::to_value(work.await?)?) })
            }
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

/// A blocking function as a handler. It runs on a thread of its own, can't be aborted, and has to
/// look at [`Context::check`] often.
pub(crate) struct BlockingFn<F, P>(
    pub(crate) Arc<F>,
    pub(crate) std::marker::PhantomData<fn(P)>,
);

impl<F, P, R> Handler for BlockingFn<F, P>
where
    F: Fn(Context, P) -> Result<R, HandlerError> + Send + Sync + 'static,
    P: DeserializeOwned + Send + 'static,
    R: Serialize + 'static,
{
    fn run(&self, context: Context) -> BoxFuture<Result<serde_json::Value, HandlerError>> {
        let work = Arc::clone(&self.0);
        Box::pin(async move {
            let parameters: P = context.read_parameters()?;
            // Not of the runtime's pool: that one is bounded whatever the slots say, and a runtime
            // that ends waits for it, also for a handler that never does.
            let (done, ended) = tokio::sync::oneshot::channel();
            let runtime = tokio::runtime::Handle::current();
            let body = move || {
                let _entered = runtime.enter();
                let run = std::panic::AssertUnwindSafe(|| {
                    let result = work(context, parameters)?;
                    Ok::<_, HandlerError>(serde_json::to_value(result)?)
                });
                let result = std::panic::catch_unwind(run);
                // Nobody waits any more if the worker is gone.
                let _ = done.send(result.unwrap_or_else(|panic| Err(panic_error(&*panic))));
            };
            std::thread::Builder::new()
                .name("sichen-handler".into())
                .spawn(body)?;
            ended.await?
        })
    }

    fn ends_itself(&self) -> bool {
        true
    }
}

/// The error of an attempt whose code panicked.
pub(crate) fn panicked(join: tokio::task::JoinError) -> HandlerError {
    match join.try_into_panic() {
        Ok(panic) => panic_error(&*panic),
        Err(_) => Stopped.into(),
    }
}

fn panic_error(panic: &(dyn std::any::Any + Send)) -> HandlerError {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned());
    HandlerError::retryable("panic", text)
}

/// All that the worker can run.
#[derive(Default, Clone)]
pub(crate) struct Registry {
    pub(crate) handlers: BTreeMap<String, Arc<dyn Handler>>,
    pub(crate) probes: BTreeMap<String, Arc<dyn Probe>>,
    pub(crate) data_sources: BTreeMap<String, DataSource>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("handlers", &self.handlers.keys())
            .field("probes", &self.probes.keys())
            .field("data_sources", &self.data_sources.keys())
            .finish()
    }
}

impl Registry {
    pub(crate) fn ends_itself(&self, handler: &str) -> bool {
        self.handlers
            .get(handler)
            .is_some_and(|handler| handler.ends_itself())
    }

    /// One attempt, from its probes to its result.
    pub(crate) fn attempt(&self, context: Context) -> impl Future<Output = Ended> + Send + 'static {
        let name = context.grant().handler.clone();
        let handler = self.handlers.get(&name).cloned();
        let probe = self.probes.get(&name).cloned();
        let plan = plan_of(context.grant()).cloned();
        let source = plan
            .as_ref()
            .and_then(|plan| self.data_sources.get(&plan.data_source).cloned());
        async move {
            let outcome = match (&plan, handler) {
                (Some(step), _) if !step.data_source.is_empty() => {
                    plan_here(&context, step, source).await
                }
                (_, Some(handler)) => run(&context, &*handler, probe, plan.as_ref()).await,
                (_, None) => Err(HandlerError::fatal_shard(
                    "no-handler",
                    format!("no handler {name}"),
                )),
            };
            match outcome {
                Ok(ended) => ended,
                Err(error) => Ended::Failed(error.to_wire()),
            }
        }
    }
}

fn plan_of(grant: &v1::Grant) -> Option<&v1::PlanStep> {
    match grant.descriptor.as_ref()?.descriptor.as_ref()? {
        v1::descriptor::Descriptor::Plan(plan) => Some(plan),
        _ => None,
    }
}

async fn plan_here(
    context: &Context,
    step: &v1::PlanStep,
    source: Option<DataSource>,
) -> Result<Ended, HandlerError> {
    let Some(source) = source else {
        let message = format!("this worker has no data source {:?}", step.data_source);
        return Err(HandlerError::retryable("no-data-source", message));
    };
    let plan = source.plan(context, step).await?;
    Ok(Ended::Succeeded {
        result: Vec::new(),
        plan: Some(plan),
    })
}

async fn run(
    context: &Context,
    handler: &dyn Handler,
    probe: Option<Arc<dyn Probe>>,
    plan: Option<&v1::PlanStep>,
) -> Result<Ended, HandlerError> {
    if let Some(probe) = probe {
        // Newest first: if the last one did it, the earlier ones do not matter.
        for earlier in context.earlier_unknown().into_iter().rev() {
            // It only looks: nothing is lost where it is told to stop.
            let answer = tokio::select! {
                answer = probe.ask(context.clone(), earlier) => answer?,
                () = context.cancelled() => return Err(Stopped.into()),
            };
            match answer {
                Probed::TookPlace(result) => return succeeded(&result, None),
                Probed::DidNot => {}
                Probed::Unknown => {
                    let message = format!("attempt {} may have taken effect", earlier.attempt);
                    return Err(HandlerError::retryable("outcome-unknown", message));
                }
            }
        }
    }
    let result = handler.run(context.clone()).await?;
    succeeded(&result, plan)
}

fn succeeded(
    result: &serde_json::Value,
    plan: Option<&v1::PlanStep>,
) -> Result<Ended, HandlerError> {
    if plan.is_some() {
        return Ok(Ended::Succeeded {
            result: Vec::new(),
            plan: Some(plan_from(result)?),
        });
    }
    let result = if result.is_null() {
        Vec::new()
    } else {
        serde_json::to_vec(result)?
    };
    if result.len() > MAX_RESULT_BYTES {
        let message = format!(
            "the result has {} bytes, the limit is {MAX_RESULT_BYTES}",
            result.len()
        );
        return Err(HandlerError::fatal_shard("result-too-large", message));
    }
    Ok(Ended::Succeeded { result, plan: None })
}

/// What a handler that plans returns: `{"min": 1, "max": 9}`, `{"min_us": …, "max_us": …}`,
/// `{"items": ["a", "b"]}`, or `null` for no input.
fn plan_from(result: &serde_json::Value) -> Result<v1::PlanResult, HandlerError> {
    use v1::plan_result::Plan;
    let int = |name: &str| result.get(name).and_then(serde_json::Value::as_i64);
    let items = || -> Option<Vec<String>> {
        let list = result.get("items")?.as_array()?;
        list.iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect()
    };
    let plan = if result.is_null() {
        Plan::Nothing(v1::Nothing {})
    } else if let (Some(min), Some(max)) = (int("min"), int("max")) {
        Plan::IntBounds(v1::IntBounds { min, max })
    } else if let (Some(min_us), Some(max_us)) = (int("min_us"), int("max_us")) {
        Plan::TimeBounds(v1::TimeBounds { min_us, max_us })
    } else if let Some(items) = items() {
        Plan::Items(v1::Items { items })
    } else {
        let message = "a plan is {min, max}, {min_us, max_us}, {items: [text]} or null";
        return Err(HandlerError::fatal_run("bad-plan", message));
    };
    Ok(v1::PlanResult { plan: Some(plan) })
}

impl Part {
    /// Whether the handler is to plan the run rather than work on a shard of it.
    #[must_use]
    pub fn is_plan(&self) -> bool {
        matches!(self, Part::Plan)
    }
}
