//! When a session's directory that is made for the session is brought up to date, and saved: before and after a turn.

use tokio_util::sync::CancellationToken;

use super::engine::Engine;
use super::event::{Event, StopReason};
use tandem_model as model;

/// Brings the session's directory to where the last turn has left it. An error is the end of the turn that runs.
pub(super) async fn restore(engine: &Engine, cancel: &CancellationToken) -> Result<(), StopReason> {
    let Some(workspace) = &engine.workspace else { return Ok(()) };
    let before = engine.state.look(|state| state.ran_before);
    match cancel.run_until_cancelled(workspace.restore(before)).await {
        None => Err(StopReason::Cancelled { answering: false }),
        Some(Ok(None)) => Ok(()),
        Some(Ok(Some(lost))) => {
            engine.log.append(Event::ToldNext(format!("\n\n[{lost}]")));
            engine.log.append(Event::Notice(lost));
            Ok(())
        }
        // Like a model that cannot be reached: it may be there when it is asked again.
        Some(Err(why)) => Err(StopReason::Failed(model::Error::Unavailable(format!(
            "The workspace is not there: {why}. `/continue` tries again."
        )))),
    }
}

/// Saves the session's directory as the turn that runs has left it. If that fails, people are told.
pub(super) async fn save(engine: &Engine) {
    let Some(workspace) = &engine.workspace else { return };
    let remark = workspace.save().await.unwrap_or_else(|why| {
        Some(format!(
            "The workspace is not saved: {why}. It is tried again after the next turn; until then, another node \
             does not have what has changed."
        ))
    });
    if let Some(remark) = remark {
        engine.log.append(Event::Notice(remark));
    }
}
