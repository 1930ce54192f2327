//! A session's directory that is made for the session, and saved elsewhere after each turn, so that another machine
//! can go on with it.

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::engine::Engine;
use super::event::{Event, StopReason};
use super::store::GitOrigin;
use tandem_model as model;

/// A session's directory that is saved elsewhere after each turn.
#[async_trait]
pub trait SavedWorkspace: Send + Sync {
    /// Returns the repository that the directory is a clone of.
    fn origin(&self) -> &GitOrigin;

    /// Brings the directory to where the last turn has left it, as far as that was saved, before a turn runs.
    /// Returns a text for people and the model about what is lost. The error says why the turn cannot run.
    async fn restore(&self, before: PastTurns) -> Result<Option<String>, String>;

    /// Saves the directory as a turn has left it. Returns a text for people about what is left out. The error says
    /// why it is not saved.
    async fn save(&self) -> Result<Option<String>, String>;
}

/// The turns that ran before another one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PastTurns {
    /// Number of times that one began, or went on in another process.
    pub count: u64,
    /// `true` if the process of the last one was killed before its end.
    pub was_interrupted: bool,
}

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
