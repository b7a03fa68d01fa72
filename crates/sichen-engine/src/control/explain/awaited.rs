//! The workers that the shards of a broadcast run are for.
//!
//! # Not here
//! Whether that is the reason (`sichen_core::dispatch::why`).

use sichen_core::dispatch::why;
use sichen_core::place::{Strategy, broadcast_to, hash_of};

use super::Facts;

/// Workers that an explanation names.
const NAMED: usize = 8;

/// The names of the workers that ready shards are for, in the order of the shards; none if it is not broadcast.
fn names(facts: &Facts) -> Vec<String> {
    let terms = facts.terms.as_ref();
    if terms.is_none_or(|terms| terms.strategy != Strategy::Broadcast) {
        return Vec::new();
    }
    let all = broadcast_to(&facts.run.terms.parameters);
    let of = |no: &i32| all.get(usize::try_from(*no).ok()?).cloned();
    facts.waiting.numbers.iter().filter_map(of).collect()
}

fn is_there(name: &str, asked: &why::Facts) -> bool {
    let number = hash_of(name.as_bytes());
    asked.workers.iter().any(|worker| worker.number == number)
}

/// The worker that is asked about: the first that is not there, or else the first.
pub(super) fn number(facts: &Facts, asked: &why::Facts) -> Option<u64> {
    let names = names(facts);
    let absent = names.iter().find(|name| !is_there(name, asked));
    let name = absent.or(names.first())?;
    Some(hash_of(name.as_bytes()))
}

/// Which are awaited, and until when.
pub(super) fn worded(facts: &Facts, asked: &why::Facts) -> (String, String) {
    let mut absent = names(facts);
    absent.retain(|name| !is_there(name, asked));
    let more = match absent.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    absent.truncate(NAMED);
    let named = format!("{}{more}", absent.join(", "));
    let until = facts.run.terms.deadline;
    let until = until.map_or(String::new(), |at| {
        format!("; the run fails at {at} if it is not")
    });
    (
        format!(
            "the run was broadcast to workers of which these are not connected: {named}; a shard goes to no other \
             worker than its own{until}"
        ),
        format!("a worker of that name: {named}"),
    )
}
