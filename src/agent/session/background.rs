//! When a command in the background has ended: people are told, and so is the model.

use std::sync::Arc;

use super::event::Event;
use super::log::Log;
use tandem_tools::background::Job;

/// Returns what a session with this log does when a command in the background has ended.
pub(super) fn listener(log: Log) -> Arc<dyn Fn(&Job) + Send + Sync> {
    Arc::new(move |job| ended(job, &log))
}

fn ended(job: &Job, log: &Log) {
    let Job { pid, command, .. } = job;
    let state = job.state();
    let first = command.trim().lines().next().unwrap_or_default();
    let notice = format!("In the background: PID {pid} {state}: `{first}` (`/shells {pid}`)");
    log.append(Event::Notice(notice));
    let text = format!(
        "\n\n[The command in the background with the PID {pid} {state}: `{command}`. \
         read_background_output reads what it wrote.]"
    );
    log.append(Event::ToldNext(text));
}
