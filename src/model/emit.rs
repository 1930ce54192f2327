//! Makes a stream of an answer's chunks from one async function.

use futures::channel::mpsc;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, SinkExt as _, StreamExt as _};

use super::retry::{RequestFailure, RetryPolicy};
use super::{Chunk, Error, Finish, Retry};

/// The sending end of an answer's chunks.
pub(super) struct Emitter(mpsc::Sender<Chunk>);

/// Streams the chunks that `run` sends, and then its result. No task is spawned: dropping the stream drops the
/// request.
pub(super) fn answer<F>(run: impl FnOnce(Emitter) -> F) -> BoxStream<'static, Result<Chunk, Error>>
where
    F: Future<Output = Result<Finish, Error>> + Send + 'static,
{
    // The channel has no buffer: each chunk is consumed before the next bytes of the response are read.
    let (sender, receiver) = mpsc::channel(0);
    let last = run(Emitter(sender)).map(|result| result.map(Chunk::Finish)).into_stream();
    stream::select(receiver.map(Ok), last).boxed()
}

impl Emitter {
    /// Sends a chunk, and waits until it is consumed.
    pub(super) async fn send(&mut self, chunk: Chunk) {
        // Sending cannot fail: the receiver lives as long as the function that sends.
        drop(self.0.send(chunk).await);
    }

    /// Announces another attempt and waits until the attempt is due; returns the failure's error if no attempt is
    /// left. `replay` has the chunks that replace the streamed chunks, if those are void.
    pub(super) async fn retry(
        &mut self,
        failure: RequestFailure,
        policy: &RetryPolicy,
        failed: u32,
        replay: Option<Vec<Chunk>>,
    ) -> Result<(), Error> {
        let Some(delay) = policy.delay(failed, failure.advice, fastrand::f64()) else {
            return Err(failure.error);
        };
        let (attempt, of) = (failed + 1, policy.attempts);
        tracing::info!(reason = failure.reason, ?delay, attempt, of, "retrying the request");
        let discard = replay.is_some();
        let retry = Retry { reason: failure.reason, delay, attempt, of, discard };
        self.send(Chunk::Retry(retry)).await;
        for chunk in replay.into_iter().flatten() {
            self.send(chunk).await;
        }
        tokio::time::sleep(delay).await;
        Ok(())
    }
}
