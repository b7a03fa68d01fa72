//! Threads for what blocks: an attempt's waiting and its output.
//!
//! Not the runtime's pool for blocking work: that one has 512 threads whatever the slots say, and a
//! process whose output waits for a free one would itself stand still.

use tokio::sync::oneshot;

/// Runs `work` on a thread of its own. Without a thread, or if it panics, the answer is an error.
pub(super) fn run<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> oneshot::Receiver<T> {
    let (done, result) = oneshot::channel();
    let body = move || {
        // The attempt may have been dropped meanwhile.
        let _ = done.send(work());
    };
    if let Err(error) = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
    {
        tracing::error!(name, %error, "no thread could be started");
    }
    result
}
