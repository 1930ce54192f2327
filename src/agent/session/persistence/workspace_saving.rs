//! When a session's directory that is made for the session is brought up to date, and saved: before and after a turn.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

use crate::session::engine::Engine;
use crate::session::events::event::{Event, StopReason};
use crate::session::events::saved_workspace::WorkspaceSave;
use tandem_model as model;

/// Reason for people why a workspace is not saved, after a panic.
const PANICKED: &str = "there is a fault in the agent, of which its log (`--log-file`) says more";

/// Brings the session's directory to where the last turn has left it. An error is the end of the turn that runs.
pub(crate) async fn restore(engine: &Engine, cancel: &CancellationToken) -> Result<(), StopReason> {
    let Some(workspace) = &engine.workspace else { return Ok(()) };
    // A clone is noted as that of a stored session.
    if cancel.run_until_cancelled(is_ours(engine)).await != Some(true) {
        return Err(StopReason::Cancelled { answering: false });
    }
    let before = engine.state.look(|state| state.ran_before.clone());
    match workspace.restore(before, cancel).await {
        Ok(None) => Ok(()),
        Ok(Some(lost)) => {
            engine.log.append(Event::ToldNext(format!("\n\n[{lost}]")));
            engine.log.append(Event::Notice(lost));
            Ok(())
        }
        Err(_) if cancel.is_cancelled() => Err(StopReason::Cancelled { answering: false }),
        // Like a model that cannot be reached: it may be there when it is asked again.
        Err(why) => Err(StopReason::Failed(model::Error::Unavailable(format!(
            "The workspace is not there: {why}. `/continue` tries again."
        )))),
    }
}

/// Saves the session's directory as the turn that runs has left it. If that fails, people are told.
pub(crate) async fn save(engine: &Engine, cancel: &CancellationToken) {
    let Some(workspace) = &engine.workspace else { return };
    // Another process that has taken the session over saves its own.
    if !is_ours(engine).await {
        return;
    }
    let saving = AssertUnwindSafe(workspace.save(cancel)).catch_unwind().await;
    let saved = saving.unwrap_or_else(|_| Err(PANICKED.to_owned()));
    let WorkspaceSave { place, remark } = saved.unwrap_or_else(|why| {
        let remark = format!(
            "The workspace is not saved: {why}. It is tried again after the next turn; until then, another node \
             does not have what has changed."
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

/// Returns `true` as soon as all that has happened is kept, and `false` if another process has the session.
async fn is_ours(engine: &Engine) -> bool {
    engine.log.kept(engine.log.len().saturating_sub(1)).await
}
