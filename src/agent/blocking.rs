//! The hand-over of work that reads or writes files: the runtime's thread would stand still meanwhile.

/// Error of a command that panicked.
pub(crate) const FAULT: &str =
    "The command failed because of a fault in this agent; its log says more.";

/// Does work that may read or write files, on a thread for that.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(FAULT.to_owned()))
}
