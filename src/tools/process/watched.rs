//! The end of a command: by itself, or of its whole group.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::table::{self, Process};
use super::{LOOK, MARK, Registry, signal_group, test_group};

/// How long what was killed may take to end: nothing helps with one that waits for a disk.
const KILLED: Duration = Duration::from_secs(3);

/// A command as the task that waits for it sees it.
pub(super) struct Watched {
    pub(super) running: Arc<Registry>,
    pub(super) child: Child,
    pub(super) group: i32,
    pub(super) mark: String,
    /// What it has between SIGTERM and SIGKILL.
    pub(super) grace: Duration,
}

impl Watched {
    /// Waits until it has ended, or ends it.
    pub(super) async fn watch(
        mut self,
        end: CancellationToken,
        status: watch::Sender<Option<ExitStatus>>,
    ) {
        let ending = self.running.ending.clone();
        tokio::select! {
            exit = self.child.wait() => { status.send_replace(exit.ok()); }
            () = end.cancelled() => {}
            () = ending.cancelled() => {}
        }
        if end.is_cancelled() || ending.is_cancelled() {
            self.end(&status).await;
        } else if test_group(self.group) {
            // Left running in the background, until the agent ends.
            return;
        }
        self.running.groups.lock().remove(&self.group);
        self.running.tell_guard('-', self.group);
    }

    async fn end(&mut self, status: &watch::Sender<Option<ExitStatus>>) {
        let group = self.group;
        // One that leaves both its group and its environment behind is found below the command.
        let family = search(move || table::below(group, |_| false)).await;
        signal_group(group, Signal::TERM);
        let child = &mut self.child;
        let gone = async {
            if let Ok(exit) = child.wait().await {
                status.send_replace(Some(exit));
            }
            let mut left = search(move || table::members(group)).await;
            while !left.is_empty() {
                sleep(LOOK).await;
                left.retain(|pid| {
                    Process::read(*pid).is_some_and(|it| it.group == group && !it.dead)
                });
            }
        };
        let _ = timeout(self.grace, gone).await;
        signal_group(group, Signal::KILL);
        if status.borrow().is_none()
            && let Ok(exit) = timeout(KILLED, self.child.wait()).await
        {
            status.send_replace(exit.ok());
        }
        family.iter().for_each(Process::kill);
        let mark = format!("{MARK}={}\0", self.mark);
        let marked = search(move || table::marked(&mark)).await;
        marked.into_iter().for_each(table::kill);
    }
}

/// Looks through `/proc`, which takes a while on a busy machine.
async fn search<T: Send + 'static>(look: impl FnOnce() -> Vec<T> + Send + 'static) -> Vec<T> {
    tokio::task::spawn_blocking(look).await.unwrap_or_default()
}
