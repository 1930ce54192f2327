//! Work that continues to its end even if its caller stops waiting.

use std::{io, panic};

use tokio::task::JoinHandle;

use super::output::ToolError;

/// Runs work that must not be left half done: it continues if this future is dropped.
pub async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, ToolError>> + Send + 'static,
) -> Result<T, ToolError> {
    join_work(tokio::spawn(work)).await
}

/// Runs blocking work on a blocking thread: it continues to its end if this future is dropped.
pub async fn off_thread<T: Send + 'static, E: From<RuntimeEnded> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    join_work(tokio::task::spawn_blocking(work)).await
}

/// Error of work that was not done because the async runtime was shut down.
pub struct RuntimeEnded;

impl From<RuntimeEnded> for ToolError {
    fn from(_: RuntimeEnded) -> Self {
        Self::cancelled()
    }
}

impl From<RuntimeEnded> for io::Error {
    fn from(_: RuntimeEnded) -> Self {
        Self::other("the agent is ending")
    }
}

async fn join_work<T, E: From<RuntimeEnded>>(work: JoinHandle<Result<T, E>>) -> Result<T, E> {
    match work.await {
        Ok(result) => result,
        Err(failed) => match failed.try_into_panic() {
            Ok(panicked) => panic::resume_unwind(panicked),
            Err(_) => Err(RuntimeEnded.into()),
        },
    }
}
