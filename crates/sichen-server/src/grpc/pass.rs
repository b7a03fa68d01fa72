//! With what right a worker comes: its join token, its certificate, and what they let it be.
//!
//! # Not here
//! Whether a token is believed ([`crate::access`]), who vouches for a certificate ([`crate::tls`]).

use std::sync::Arc;

use sichen_core::access::Bounds;
use sichen_core::name::Name;
use sichen_engine::sessions::Hello;

use super::{JoinAuth, Refusal};
use crate::tls::Peer;

/// With what right a worker is here.
pub(super) struct Pass {
    pub(super) auth: Arc<dyn JoinAuth>,
    pub(super) token: String,
    /// Whom its certificate names, if it showed one.
    pub(super) peer: Option<Arc<Peer>>,
    /// Whether it must have shown one.
    pub(super) certified: bool,
}

impl Pass {
    /// What the worker may be; anything, if there are no bounds.
    pub(super) async fn judge(&self) -> Result<Option<Bounds>, Refusal> {
        let named = self.peer.as_ref().and_then(|peer| peer.token());
        match named.filter(|_| self.token.is_empty()) {
            Some(name) => self.auth.judge_named(name).await,
            None => self.auth.judge(&self.token).await,
        }
    }

    /// Whether the certificate says which workers may show it.
    pub(super) fn binds_worker(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.binds_worker())
    }

    /// Why a worker of this name may not come with its certificate, if so.
    pub(super) fn misnamed(&self, name: &Name) -> Option<String> {
        let peer = self.peer.as_ref()?;
        (!peer.may_be_worker(name.as_str())).then(|| {
            format!(
                "SC4033: the client certificate is not for the worker {name}; one for it has the \
                 alternative name `URI:sichen:worker/{name}`"
            )
        })
    }
}

/// What a worker says of itself that its token does not allow.
pub(super) fn outside(bounds: &Bounds, hello: &Hello) -> Option<String> {
    if !bounds.takes_pool(hello.pool.as_str()) {
        return Some(format!(
            "SC4008: the join token is for the pool {}, and the worker is of {}; give --pool, or \
             another token",
            bounds.pool, hello.pool
        ));
    }
    let name = &hello.worker.name;
    if !bounds.takes_worker(name.as_str()) {
        return Some(format!(
            "SC4008: the join token is for the workers {}, and this one is {name}; give --name, or \
             another token",
            bounds.workers.join(", ")
        ));
    }
    let other = hello.handlers.iter().find(|h| !bounds.takes_handler(h));
    other.map(|handler| {
        format!(
            "SC4008: the join token is not for the handler {handler:?}; leave it out, or make a token \
             that has it"
        )
    })
}
