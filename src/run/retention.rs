//! Removal of old sessions in the background, if the user's settings ask for it.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::ending::LAST_WORDS;
use tandem_agent::session::{Listed, Session, Store};
use tandem_agent::sessions::remove_old;
use tandem_settings::Settings;

/// Removal of old sessions, which may still be running in the background.
pub(super) struct Cleanup(Option<JoinHandle<()>>);

impl Cleanup {
    /// Begins the removal in the background, if `general.sessionRetention` asks for it. Afterwards `session` shows its
    /// people the number of removed sessions.
    pub(super) fn begin(
        settings: &Settings,
        store: Option<&Arc<dyn Store>>,
        session: &Arc<Session>,
    ) -> Self {
        let retention = settings.general.session_retention.retention();
        let (Some(retention), Some(store)) = (retention, store.cloned()) else {
            return Self(None);
        };
        let session = Arc::clone(session);
        let now = jiff::Timestamp::now().as_millisecond();
        Self(Some(tokio::spawn(async move {
            match remove_old(&*store, retention, now).await {
                Ok(removed) if removed.is_empty() => {}
                Ok(removed) => {
                    let removed = removal_note(&removed);
                    tracing::info!("{removed}");
                    session.notify(removed);
                }
                Err(err) => tracing::warn!("old sessions are not removed: {err}"),
            }
        })))
    }

    /// Waits until the removal has ended, but at most [`LAST_WORDS`]. If the process ended earlier, the files of a
    /// session that is half removed would stay on the disk.
    pub(super) async fn end(self) {
        if let Some(task) = self.0 {
            let _ = timeout(LAST_WORDS, task).await;
        }
    }
}

fn removal_note(removed: &[Listed]) -> String {
    let count = match removed.len() {
        1 => "1 old session was".to_owned(),
        count => format!("{count} old sessions were"),
    };
    format!("{count} removed, as `general.sessionRetention` in the settings says.")
}
