//! Adoption of orphans: descendants that lose their parent become children of the agent. So they cannot hide from it,
//! not even in a session of their own with an empty environment. Only Linux has this.
//!
//! The agent must then reap adopted children when they end. Other code of this process reaps a program that it has
//! started as soon as the program ends. So a child is reaped here only if it is found dead at two checks in a row.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, waitpid};
use tokio::signal::unix::{SignalKind, signal};

use super::table;

/// Time between two checks for dead children.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Makes this process the subreaper: descendants that lose their parent become its children.
pub(super) fn adopt() {
    #[cfg(target_os = "linux")]
    if let Err(err) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::warn!(%err, "what loses its parent will not be found");
    }
}

/// Reaps adopted children when they end. `looked` is called after each check.
pub(super) async fn wait_for(looked: impl Fn()) {
    let Ok(mut ended) = signal(SignalKind::child()) else { return };
    let mut seen = HashSet::new();
    loop {
        if seen.is_empty() {
            ended.recv().await;
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
        let dead: HashSet<_> = table::dead_children().into_iter().collect();
        dead.intersection(&seen).for_each(|pid| wait(*pid));
        seen = dead.difference(&seen).copied().collect();
        looked();
    }
}

/// Reaps a child if it has ended.
pub(super) fn wait(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}
