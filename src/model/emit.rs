//! Makes the stream of an answer from one async function that tells it.

use futures::channel::mpsc;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, SinkExt as _, StreamExt as _};

use super::retry::{Failure, Policy};
use super::{Chunk, Error, Finish, Retry};

/// Takes the chunks of one answer.
pub(super) struct Emit(mpsc::Sender<Chunk>);

/// What `tell` emits, and then its result. Nothing runs beside: dropping the stream drops it all.
pub(super) fn answer<F>(tell: impl FnOnce(Emit) -> F) -> BoxStream<'static, Result<Chunk, Error>>
where
    F: Future<Output = Result<Finish, Error>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(0);
    let last = tell(Emit(sender)).map(|result| result.map(Chunk::Finish)).into_stream();
    stream::select(receiver.map(Ok), last).boxed()
}

impl Emit {
    /// Hands a chunk over, and waits until it is taken.
    pub(super) async fn send(&mut self, chunk: Chunk) {
        // The receiver lives as long as what runs here.
        drop(self.0.send(chunk).await);
    }

    /// Announces another attempt and waits until its time has come. If there is none, the
    /// failure's error. `again` takes the place of what has been streamed, if that is void.
    pub(super) async fn retry(
        &mut self,
        failure: Failure,
        policy: &Policy,
        failed: u32,
        again: Option<Vec<Chunk>>,
    ) -> Result<(), Error> {
        let Some(delay) = policy.delay(failed, failure.advice, fastrand::f64()) else {
            return Err(failure.error);
        };
        let (attempt, of) = (failed + 1, policy.attempts);
        tracing::info!(reason = failure.reason, ?delay, attempt, of, "the model is asked again");
        let discard = again.is_some();
        let retry = Retry { reason: failure.reason, delay, attempt, of, discard };
        self.send(Chunk::Retry(retry)).await;
        for chunk in again.into_iter().flatten() {
            self.send(chunk).await;
        }
        tokio::time::sleep(delay).await;
        Ok(())
    }
}
