//! Connections of a command in the sandbox: what the policy leaves open, the user is asked while the
//! command waits.

use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::decision::Decision;
use super::engine::Engine;
use super::event::Answer;
use super::own_call::{self, OwnCall};
use crate::permission::{CONNECT, Permissions, Verdict};
use tandem_tools::network::{Admission, Connect, Destination};
use tandem_tools::{Access, ToolKind, one_line};

/// Maximum number of connections that wait to be asked about.
const WAITING: usize = 16;

/// Characters of the command in the label.
const LONGEST: usize = 80;

/// A connection that the user is to be asked about.
struct WantedConnection {
    destination: Destination,
    is_allowed: bool,
    admission: oneshot::Sender<Admission>,
}

/// The connections of one command that the user is to be asked about.
pub(super) struct Connections {
    wanted: mpsc::Receiver<WantedConnection>,
    /// Label of the command's call.
    command: String,
}

impl Connections {
    /// Returns them, and the function that decides for the command: by the policy as it is then, and by
    /// asking as long as somebody [answers](Self::answer).
    pub(super) fn of(permissions: &Arc<Permissions>, command: &str) -> (Self, Connect) {
        let (sender, wanted) = mpsc::channel(WAITING);
        let command = one_line(command, LONGEST);
        let (permissions, label) = (Arc::clone(permissions), command.clone());
        let connect = move |destination: Destination, is_allowed| {
            let (permissions, label, sender) =
                (Arc::clone(&permissions), label.clone(), sender.clone());
            async move {
                match connection(&label, &destination, is_allowed).judge(&permissions) {
                    Verdict::Allow => return Admission::Admitted,
                    Verdict::Deny { why, .. } => return Admission::Refused(why),
                    Verdict::Ask(_) => {}
                }
                let (admission, admitted) = oneshot::channel();
                let wanted = WantedConnection { destination, is_allowed, admission };
                // Nobody is there when the call has ended.
                drop(sender.send(wanted).await);
                admitted.await.unwrap_or_else(|_| Admission::NotNow(ALONE.to_owned()))
            }
            .boxed()
        };
        (Self { wanted, command }, Arc::new(connect))
    }

    /// Asks about one after another, until the command is over or the turn is cancelled; then the question
    /// that is open is withdrawn.
    pub(super) async fn answer(
        mut self,
        engine: &Engine,
        cancel: &CancellationToken,
        over: &CancellationToken,
    ) {
        while let Some(wanted) = own_call::next(&mut self.wanted, cancel, over).await {
            let WantedConnection { destination, is_allowed, admission } = wanted;
            let call = connection(&self.command, &destination, is_allowed);
            // An answer may have changed that while this one waited.
            let admitted = match call.judge(&engine.approvals.permissions) {
                Verdict::Allow => Admission::Admitted,
                Verdict::Deny { why, .. } => Admission::Refused(why),
                Verdict::Ask(question) => {
                    let asked = call.ask(engine, question, cancel, over.cancelled());
                    admission_of(asked.await.as_ref())
                }
            };
            // The command may have ended.
            let _ = admission.send(admitted);
        }
    }
}

/// Returns the call that stands for a connection of a command.
fn connection(command: &str, destination: &Destination, is_allowed: bool) -> OwnCall {
    let Destination { host, port } = destination.clone();
    OwnCall {
        name: CONNECT,
        args: json!({ "host": host, "port": port }),
        access: Access::Connect { host, port, command: command.to_owned(), is_allowed },
        kind: ToolKind::Fetch,
        label: format!("Connect to {destination} (for {command})"),
        done: brings,
    }
}

/// Returns what a yes brings, for people.
fn brings(decision: Decision<'_>) -> &'static str {
    match decision {
        Decision::Always(_) => "Commands may connect to it while this session is open.",
        Decision::AlwaysAndSave(_) => "Commands may connect to it from now on.",
        _ => "The command may connect to it until it ends.",
    }
}

fn admission_of(answer: Option<&Answer>) -> Admission {
    match answer.map(Answer::decision) {
        Some(decision) if decision.runs() => Admission::Admitted,
        Some(Decision::Reject(None)) => Admission::Refused(REJECTED.to_owned()),
        Some(Decision::Reject(Some(why))) => {
            Admission::Refused(format!("{REJECTED}, and said: {why}"))
        }
        Some(Decision::Nobody(why)) => Admission::Refused(why.to_owned()),
        _ => Admission::Refused("the question was not answered".to_owned()),
    }
}

const REJECTED: &str = "the user did not allow it";
const ALONE: &str = "nobody can be asked after the call of a command has ended; run what needs this host \
    in the foreground";
