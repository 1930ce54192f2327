//! Work that is done to its end, whether or not somebody still waits for it.

use std::{io, panic};

use tokio::task::JoinHandle;

use super::ToolError;

/// Runs work that must not be left half done: it goes on when this future is dropped.
pub(super) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, ToolError>> + Send + 'static,
) -> Result<T, ToolError> {
    ended(tokio::spawn(work)).await
}

/// Runs work that blocks, all of it, also when this future is dropped.
pub(super) async fn off_thread<T: Send + 'static, E: From<Ending> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    ended(tokio::task::spawn_blocking(work)).await
}

/// Error of work that was not done because the runtime ends.
pub(super) struct Ending;

impl From<Ending> for ToolError {
    fn from(_: Ending) -> Self {
        Self::cancelled()
    }
}

impl From<Ending> for io::Error {
    fn from(_: Ending) -> Self {
        Self::other("the agent is ending")
    }
}

async fn ended<T, E: From<Ending>>(work: JoinHandle<Result<T, E>>) -> Result<T, E> {
    match work.await {
        Ok(result) => result,
        Err(failed) => match failed.try_into_panic() {
            Ok(panicked) => panic::resume_unwind(panicked),
            Err(_) => Err(Ending.into()),
        },
    }
}
