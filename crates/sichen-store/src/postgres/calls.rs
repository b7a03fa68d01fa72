//! How a use case becomes a call of the engine.

/// Runs a use case over copies of its arguments, since it may be tried more than once.
macro_rules! write {
    ($store:ident, $op:expr, [$($arg:ident),*], |$tx:ident| $body:block) => {
        $store.engine.write($op, move |$tx| {
            $(let $arg = $arg.clone();)*
            Box::pin(async move { $body })
        })
    };
}

/// As `read!`, for reads that need no common snapshot and no clock but the one they read.
macro_rules! glance {
    ($store:ident, [$($arg:ident),*], |$read:ident| $body:expr) => {
        $store.engine.glance(move |$read| {
            $(let $arg = $arg.clone();)*
            Box::pin(async move { $body })
        })
    };
}

/// As `write!`, for one statement that is the whole use case and may be said again.
macro_rules! alone {
    ($store:ident, [$($arg:ident),*], |$read:ident| $body:expr) => {
        $store.engine.alone(move |$read| {
            $(let $arg = $arg.clone();)*
            Box::pin(async move { $body })
        })
    };
}

/// As `write!`, from one snapshot.
macro_rules! read {
    ($store:ident, [$($arg:ident),*], |$read:ident| $body:expr) => {
        $store.engine.read(move |$read| {
            $(let $arg = $arg.clone();)*
            Box::pin(async move { $body })
        })
    };
}
