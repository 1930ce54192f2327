//! Hand-over of work that blocks, such as reading files, to a thread for such work. On a thread of the async runtime, the
//! work would hold up all other tasks.

use std::{error, fmt, io};

use tokio::task::spawn_blocking;

/// Error of blocking work without an output: the work panicked, or the async runtime was shut down before its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockingError;

impl fmt::Display for BlockingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the work was cut off by a bug in tandem, or by its end: the log (`--log-file`) says more")
    }
}

impl error::Error for BlockingError {}

impl From<BlockingError> for io::Error {
    fn from(error: BlockingError) -> Self {
        Self::other(error)
    }
}

impl From<BlockingError> for String {
    fn from(error: BlockingError) -> Self {
        error.to_string()
    }
}

/// Begins blocking work, and returns a future of its output. The work goes on to its end if the future is dropped.
pub fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = Result<T, BlockingError>> + Send + 'static {
    let output = spawn_blocking(work);
    async move { output.await.map_err(|_| BlockingError) }
}

/// Does blocking work that may fail. The work goes on to its end if this future is dropped.
pub async fn try_blocking<T: Send + 'static, E: From<BlockingError> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    blocking(work).await?
}
