//! The REST API under `/api/v1`.
//!
//! # Invariants
//! - Every route asks for a token or a login, but for `/healthz`, `/readyz` and `/login`.
//! - Every listing is paged, every body and every wait has a limit.
//!
//! # Not here
//! The use cases (`sichen_engine::control`), reading documents ([`crate::document`]).

mod access;
mod alerts;
mod answer;
mod backfills;
mod calendars;
mod capacities;
mod changes;
mod clock;
mod cluster;
mod convert;
mod cookie;
mod dead_letters;
mod etag;
pub mod export;
mod forecast;
mod gate;
mod history;
mod import;
mod job_list;
mod jobs;
pub(crate) mod keyed;
mod login;
mod metrics;
mod namespaces;
mod oidc;
mod output;
mod overview;
mod request;
mod restore;
mod runs;
mod schemas;
mod seen;
mod start;
mod status;
mod tokens;
mod users;
mod watch;
pub mod wire;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use axum::{Router, middleware};
use sichen_core::document::Document;
use sichen_core::ids::{JobUid, Revision};
use sichen_core::model::Job;
use sichen_core::port::{self, Store};
use sichen_engine::control::Control;
use sichen_engine::documents::Documents;
use sichen_engine::driver::Engine;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Access;
use crate::grpc::Streams;
use crate::oidc::Oidc;

pub use import::{Importer, Source};
pub use status::{About, DeadRows};

pub use gate::{MAX_BODY_BYTES, MAX_OPEN_BODY_BYTES, MAX_REQUESTS};
pub use start::MAX_STARTS;
pub use watch::MAX_WATCHERS;

/// What the handlers share.
#[derive(Clone)]
struct Api(Arc<Shared>);

struct Shared {
    engine: Arc<Engine>,
    streams: Arc<Streams>,
    about: Arc<About>,
    control: Control,
    documents: Documents,
    access: Arc<Access>,
    oidc: Option<Arc<Oidc>>,
    needs: access::Needs,
    namespaces: seen::Namespaces,
    running: TaskTracker,
    room: Arc<Semaphore>,
    exporting: Arc<Semaphore>,
    probing: Arc<Semaphore>,
    watching: Arc<watch::Room>,
    tail: watch::Tail,
    timeout: Duration,
}

impl Api {
    fn new(
        engine: Arc<Engine>,
        streams: Arc<Streams>,
        access: Arc<Access>,
        about: Arc<About>,
        oidc: Option<Arc<Oidc>>,
        timeout: Duration,
    ) -> Self {
        Self(Arc::new(Shared {
            streams,
            about,
            control: engine.control.clone(),
            engine,
            documents: Documents::default(),
            access,
            oidc,
            needs: access::needs(&openapi()),
            namespaces: seen::Namespaces::default(),
            running: TaskTracker::new(),
            room: Arc::new(Semaphore::new(MAX_REQUESTS)),
            exporting: Arc::new(Semaphore::new(1)),
            probing: Arc::new(Semaphore::new(cluster::MAX_PROBES)),
            watching: Arc::default(),
            tail: watch::Tail::default(),
            timeout,
        }))
    }

    fn store(&self) -> &dyn Store {
        &*self.0.engine.context.store
    }

    /// The document in force of `job`.
    async fn document(&self, job: &Job) -> Result<Arc<Document>, port::Error> {
        let documents = &self.0.documents;
        documents.get(self.store(), job.uid, job.revision).await
    }

    /// The zone of a revision; UTC if its document can't be read (any more).
    async fn time_zone(&self, job: JobUid, revision: Revision) -> Result<String, port::Error> {
        match self.0.documents.get(self.store(), job, revision).await {
            Ok(document) => Ok(document.spec.time_zone.clone()),
            Err(port::Error::Corrupt(_)) => Ok("UTC".to_owned()),
            Err(error) => Err(error),
        }
    }
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Sichen",
        version = "v1",
        description = "Jobs, runs, shards, workers. Every route but `/login` asks for a bearer token or for the cookie of a login, and judges the roles of who asks."
    ),
    // What parameters alone name is not found by itself.
    components(schemas(jobs::What)),
    security(("bearer" = []), ("login" = [])),
    modifiers(&Bearer)
)]
struct Description;

struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::security::{
            ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme,
        };
        let components = openapi.components.get_or_insert_default();
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        components.add_security_scheme("bearer", scheme);
        let cookie = ApiKey::Cookie(ApiKeyValue::new("sichen-login"));
        components.add_security_scheme("login", SecurityScheme::ApiKey(cookie));
    }
}

fn described() -> OpenApiRouter<Api> {
    let api = OpenApiRouter::new()
        .routes(routes!(jobs::apply))
        .routes(routes!(jobs::validate))
        .routes(routes!(import::import))
        .routes(routes!(job_list::list))
        .routes(routes!(jobs::one, jobs::delete))
        .routes(routes!(jobs::revision))
        .routes(routes!(jobs::pause))
        .routes(routes!(jobs::resume))
        .routes(routes!(jobs::preview))
        .routes(routes!(jobs::decisions))
        .routes(routes!(jobs::next))
        .routes(routes!(start::start))
        .routes(routes!(start::start_batch))
        .routes(routes!(calendars::list))
        .routes(routes!(calendars::one, calendars::delete))
        .routes(routes!(calendars::compare))
        .routes(routes!(namespaces::list))
        .routes(routes!(namespaces::one, namespaces::set))
        .routes(routes!(capacities::list))
        .routes(routes!(capacities::one, capacities::delete))
        .routes(routes!(capacities::resize))
        .routes(routes!(runs::list))
        .routes(routes!(runs::one))
        .routes(routes!(runs::shards))
        .routes(routes!(runs::events))
        .routes(routes!(runs::cancel))
        .routes(routes!(runs::retry))
        .routes(routes!(runs::explain))
        .routes(routes!(runs::attempts))
        .routes(routes!(backfills::start, backfills::list))
        .routes(routes!(backfills::preview))
        .routes(routes!(backfills::one))
        .routes(routes!(backfills::checks))
        .routes(routes!(backfills::pause))
        .routes(routes!(backfills::resume))
        .routes(routes!(backfills::cancel))
        .routes(routes!(output::output))
        .routes(routes!(dead_letters::list))
        .routes(routes!(dead_letters::discard))
        .routes(routes!(history::events))
        .routes(routes!(changes::changes))
        .routes(routes!(watch::watch))
        .routes(routes!(history::export))
        .routes(routes!(overview::overview))
        .routes(routes!(alerts::list))
        .routes(routes!(forecast::forecast))
        .routes(routes!(cluster::workers))
        .routes(routes!(cluster::held))
        .routes(routes!(cluster::members))
        .routes(routes!(clock::show))
        .routes(routes!(clock::accept))
        .routes(routes!(restore::show_restore))
        .routes(routes!(restore::begin_restore))
        .routes(routes!(restore::decide_restore))
        .routes(routes!(schemas::job))
        .routes(routes!(schemas::calendar))
        .routes(routes!(schemas::capacity))
        .routes(routes!(status::server))
        .routes(routes!(tokens::me))
        .routes(routes!(login::log_in, login::log_in_ways))
        .routes(routes!(oidc::sign_on))
        .routes(routes!(oidc::signed_on))
        .routes(routes!(login::log_out))
        .routes(routes!(users::create, users::list))
        .routes(routes!(users::set_roles))
        .routes(routes!(users::set_password))
        .routes(routes!(users::disable))
        .routes(routes!(users::enable))
        .routes(routes!(tokens::create, tokens::list))
        .routes(routes!(tokens::revoke));
    let mut described = OpenApiRouter::with_openapi(Description::openapi()).nest("/api/v1", api);
    name_operations(described.get_openapi_mut());
    keyed::describe(described.get_openapi_mut());
    described
}

/// Gives each operation a name of its own (`runs_list`), which generated clients go by.
fn name_operations(openapi: &mut utoipa::openapi::OpenApi) {
    for item in openapi.paths.paths.values_mut() {
        let methods = [
            &mut item.get,
            &mut item.put,
            &mut item.post,
            &mut item.delete,
        ];
        for operation in methods.into_iter().flatten() {
            let tag = operation.tags.iter().flatten().next();
            if let (Some(tag), Some(id)) = (tag, &operation.operation_id) {
                operation.operation_id = Some(format!("{}_{id}", tag.replace('-', "_")));
            }
        }
    }
}

/// The API's description, as OpenAPI 3.1.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    described().into_openapi()
}

/// All routes over `engine`.
pub(crate) fn router(
    engine: Arc<Engine>,
    streams: Arc<Streams>,
    access: Arc<Access>,
    about: Arc<About>,
    oidc: Option<Arc<Oidc>>,
) -> Router {
    let api = Api::new(engine, streams, access, about, oidc, gate::REQUEST_TIMEOUT);
    let (router, openapi) = described().split_for_parts();
    // Written once: as a value it is megabytes, of which each route would have a copy.
    let description = openapi.to_json().expect("its keys are strings");
    let description = Bytes::from(description);
    let kind = [(CONTENT_TYPE, "application/json")];
    let described = get(move || async move { (kind, description) });
    router
        .route("/api/v1/openapi.json", described)
        .route("/metrics", get(metrics::metrics))
        .fallback(answer::no_route)
        .method_not_allowed_fallback(answer::no_method)
        .layer(middleware::from_fn_with_state(api.clone(), gate::pass))
        .route("/healthz", get(cluster::healthz))
        .route("/readyz", get(cluster::readyz))
        .with_state(api)
}
