//! Programs that lose their parent become children of the agent, so that none can hide: not in a
//! session of its own with an empty environment either. Only Linux has this.
//!
//! Somebody must then wait for them when they end. Here that is who finds them dead at two looks:
//! who else starts a program in this process waits for it at once.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, waitpid};
use tokio::signal::unix::{SignalKind, signal};

use super::table;

/// Between two looks at what has ended.
const LOOK: Duration = Duration::from_secs(1);

/// From now on, what loses its parent is ours.
pub(super) fn adopt() {
    #[cfg(target_os = "linux")]
    if let Err(err) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::warn!(%err, "what loses its parent will not be found");
    }
}

/// Waits for those that end. `looked` is called now and then while something ends.
pub(super) async fn wait_for(looked: impl Fn()) {
    let Ok(mut ended) = signal(SignalKind::child()) else { return };
    let mut seen = HashSet::new();
    loop {
        if seen.is_empty() {
            ended.recv().await;
        }
        tokio::time::sleep(LOOK).await;
        let dead: HashSet<_> = table::dead_children().into_iter().collect();
        dead.intersection(&seen).for_each(|pid| wait(*pid));
        seen = dead.difference(&seen).copied().collect();
        looked();
    }
}

/// Takes notice that a child has ended, if it has.
pub(super) fn wait(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}
