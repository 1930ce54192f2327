//! Hand-over of work that reads or writes files to another thread. On the runtime's thread, the work would block all
//! other tasks.

/// Error of a command that panicked.
pub(crate) const FAULT_MESSAGE: &str =
    "The command failed because of a bug in tandem; the log (`--log-file`) says more.";

/// Does work that may read or write files, on a thread for blocking work.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(FAULT_MESSAGE.to_owned()))
}
