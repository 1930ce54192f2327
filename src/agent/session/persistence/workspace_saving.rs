//! Restoring and saving of a directory that was made for a session: it is brought up to date before a turn, and saved
//! after the turn.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

use crate::session::engine::Engine;
use crate::session::events::event::{Event, StopReason};
use crate::session::events::saved_workspace::WorkspaceSave;
use tandem_model as model;

/// Reason for people why a workspace is not saved, after a panic.
const PANIC_MESSAGE: &str = "there is a bug in tandem; the log (`--log-file`) says more";

/// Brings the session's directory to the state in which the last turn has left it. An error is the reason to end the
/// running turn.
pub(crate) async fn restore(engine: &Engine, cancel: &CancellationToken) -> Result<(), StopReason> {
    let Some(workspace) = &engine.workspace else { return Ok(()) };
    // The session must be in the store before `restore` notes the directory as the clone of a stored session.
    if cancel.run_until_cancelled(is_ours(engine)).await != Some(true) {
        return Err(StopReason::Cancelled { answering: false });
    }
    let before = engine.state.with_state(|state| state.ran_before.clone());
    match workspace.restore(before, cancel).await {
        Ok(None) => Ok(()),
        Ok(Some(lost)) => {
            engine.log.append(Event::ToldNext(format!("\n\n[{lost}]")));
            engine.log.append(Event::Notice(lost));
            Ok(())
        }
        Err(_) if cancel.is_cancelled() => Err(StopReason::Cancelled { answering: false }),
        // The turn ends like a turn whose model cannot be reached, because a later attempt may succeed.
        Err(why) => Err(StopReason::Failed(model::Error::Unavailable(format!(
            "The workspace could not be brought back: {why}. `/continue` tries again."
        )))),
    }
}

/// Saves the session's directory as the running turn has left it. If that fails, people are told.
pub(crate) async fn save(engine: &Engine, cancel: &CancellationToken) {
    let Some(workspace) = &engine.workspace else { return };
    // If another process has taken the session over, that process saves its own directory.
    if !is_ours(engine).await {
        return;
    }
    let saving = AssertUnwindSafe(workspace.save(cancel)).catch_unwind().await;
    let saved = saving.unwrap_or_else(|_| Err(PANIC_MESSAGE.to_owned()));
    let WorkspaceSave { place, remark } = saved.unwrap_or_else(|why| {
        let remark = format!(
            "The workspace is not saved: {why}. tandem tries again after the next turn; until then, other nodes \
             do not have the changes."
        );
        WorkspaceSave { place: None, remark: Some(remark) }
    });
    if let Some(place) = place {
        engine.log.append(Event::WorkspaceSaved(place));
    }
    if let Some(remark) = remark {
        engine.log.append(Event::Notice(remark));
    }
}

/// Waits until all events so far are stored. Returns `true` then, and `false` if they never will be, because another
/// process has the session or the store has refused for too long.
async fn is_ours(engine: &Engine) -> bool {
    engine.log.wait_persisted(engine.log.len().saturating_sub(1)).await
}
