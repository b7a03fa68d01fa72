//! Whose an event is, for callers who do not see all namespaces.
//!
//! # Not here
//! What else is judged by the namespace ([`super::access`]).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sichen_core::event::Entity;
use sichen_core::name::Name;
use sichen_core::port;

use super::Api;
use super::access::Caller;

/// Entities whose namespace a node keeps in mind; beyond it forgets them all and begins anew.
const MAX_NAMESPACES_KEPT: usize = 10_000;

/// The namespaces of entities that were looked up: they never change.
#[derive(Debug, Default)]
pub(super) struct Namespaces(Mutex<HashMap<Entity, Name>>);

impl Namespaces {
    fn get(&self, entity: &Entity) -> Option<Name> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(entity).cloned()
    }

    fn keep(&self, entity: Entity, namespace: Name) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_NAMESPACES_KEPT {
            kept.clear();
        }
        kept.insert(entity, namespace);
    }
}

impl Caller {
    /// Whether the caller may see the events of `entity`. What is in no namespace, or is gone, only
    /// those see who see everything.
    pub(super) async fn sees_event(&self, api: &Api, entity: &Entity) -> Result<bool, port::Error> {
        if self.sees_all() {
            return Ok(true);
        }
        let namespace = namespace(api, entity).await?;
        Ok(namespace.is_some_and(|namespace| self.sees(&namespace)))
    }
}

async fn namespace(api: &Api, entity: &Entity) -> Result<Option<Name>, port::Error> {
    let entity = match entity {
        Entity::Shard(key) => Entity::Run(key.run),
        Entity::Calendar(name) => return Ok(Some(name.namespace.clone())),
        Entity::Namespace(name) => return Ok(Some(name.clone())),
        other => other.clone(),
    };
    if let Some(kept) = api.0.namespaces.get(&entity) {
        return Ok(Some(kept));
    }
    let store = api.store();
    let found = match &entity {
        Entity::Run(id) => {
            let run = store.get_run(*id).await?;
            run.map(|(run, _)| run.job_name.namespace)
        }
        Entity::Job(uid) => {
            let job = store.get_job_by_uid(*uid).await?;
            job.map(|job| job.name.namespace)
        }
        Entity::Backfill(id) => match store.get_backfill(*id).await? {
            Some(backfill) => {
                let job = store.get_job_by_uid(backfill.job).await?;
                job.map(|job| job.name.namespace)
            }
            None => None,
        },
        Entity::Shard(_)
        | Entity::Calendar(_)
        | Entity::Session(_)
        | Entity::Node(_)
        | Entity::Duty(_)
        | Entity::AccessToken(_)
        | Entity::User(_)
        | Entity::Capacity(_)
        | Entity::Namespace(_) => None,
    };
    if let Some(namespace) = &found {
        api.0.namespaces.keep(entity, namespace.clone());
    }
    Ok(found)
}
