//! Which run is meant: by number, key or trace id, or a job for its newest run.
//!
//! # Invariants
//! - A job's name stands for a run only where something is read. What changes a run wants the run.
//!
//! # Not here
//! Reading numbers, keys and trace ids (the server).

use sichen_core::trace::TraceId;
use sichen_server::rest::wire::RunPage;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::names;
use crate::output;

/// The run that `text` names, in words that the server takes. The newest run of a job is remarked.
pub async fn run(client: &Client, text: &str) -> Result<String, Failure> {
    let number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if number || text.contains(':') || TraceId::parse(text).is_some() {
        return Ok(text.to_owned());
    }
    // What can be no job's name is refused by the server, with what a run looks like.
    let Ok(name) = names::job(text) else {
        return Ok(text.to_owned());
    };
    let query = vec![("job", name.to_string()), ("limit", "1".to_owned())];
    let page: RunPage = match client.get(&["runs"], query).await {
        Ok(page) => page,
        Err(failure) => return Err(client.with_candidates(failure, &name).await),
    };
    match page.items.first() {
        Some(run) => {
            output::remark(&format!(
                "the newest run of {name}: {} ({})",
                run.id, run.key
            ));
            Ok(run.id.to_string())
        }
        None => Err(Failure::new(
            Exit::NotFound,
            format!("SC5001: job {name} has no run yet; `sichen run {name}` starts one"),
        )),
    }
}
