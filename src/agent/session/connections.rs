//! Connections of a command in the sandbox: what the policy leaves open, the user is asked while the
//! command waits.

use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::decision::Decision;
use super::engine::Engine;
use super::event::{Answer, CallStarted, Caller, ToolOutcome};
use crate::permission::{Environment, Permissions, PolicyRequest, Question, Verdict};
use tandem_model::Call;
use tandem_tools::network::{Admission, Connect, Destination};
use tandem_tools::{Access, Summary, ToolKind, ToolOutput, one_line};

/// Name by which rules know these calls, which no tool makes.
const TOOL: &str = "connect";

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
                match judge(&permissions, &label, &destination, is_allowed) {
                    Verdict::Allow => return Admission::Admitted,
                    Verdict::Deny(why) => return Admission::Refused(why),
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
        while let Some(Some(wanted)) = over.run_until_cancelled(self.wanted.recv()).await {
            if cancel.is_cancelled() {
                return;
            }
            let WantedConnection { destination, is_allowed, admission } = wanted;
            let permissions = &engine.approvals.permissions;
            // An answer may have changed that while this one waited.
            let admitted = match judge(permissions, &self.command, &destination, is_allowed) {
                Verdict::Allow => Admission::Admitted,
                Verdict::Deny(why) => Admission::Refused(why),
                Verdict::Ask(question) => {
                    let started = self.started(engine, &destination, is_allowed, question);
                    ask(engine, started, cancel, over).await
                }
            };
            // The command may have ended.
            let _ = admission.send(admitted);
        }
    }

    fn started(
        &self,
        engine: &Engine,
        destination: &Destination,
        is_allowed: bool,
        question: Question,
    ) -> Arc<CallStarted> {
        let call = Call { id: String::new(), name: TOOL.to_owned(), args: args(destination) };
        Arc::new(CallStarted {
            call: engine.calls.with_unique_id(call),
            caller: Caller::Agent,
            kind: ToolKind::Fetch,
            summary: Summary::new(format!("Connect to {destination} (for {})", self.command)),
            access: access(&self.command, destination, is_allowed),
            question: Some(question),
        })
    }
}

fn judge(
    permissions: &Permissions,
    command: &str,
    destination: &Destination,
    is_allowed: bool,
) -> Verdict {
    let (args, access) = (args(destination), access(command, destination, is_allowed));
    let request = PolicyRequest { tool: TOOL, aliases: &[], args: &args, access: &access };
    permissions.check(&request, &Environment::default()).verdict
}

fn args(Destination { host, port }: &Destination) -> Value {
    json!({ "host": host, "port": port })
}

fn access(command: &str, Destination { host, port }: &Destination, is_allowed: bool) -> Access {
    let (host, command) = (host.clone(), command.to_owned());
    Access::Connect { host, port: *port, command, is_allowed }
}

async fn ask(
    engine: &Engine,
    started: Arc<CallStarted>,
    cancel: &CancellationToken,
    over: &CancellationToken,
) -> Admission {
    let id = started.call.id.clone();
    let answer = engine.approvals.ask_until(started, cancel, over.cancelled()).await;
    let permitted = engine.approvals.obey(answer.as_ref(), cancel).await;
    let decision = answer.as_ref().map(Answer::decision);
    let admission = match decision {
        Some(decision) if decision.runs() => Admission::Admitted,
        Some(Decision::Reject(None)) => Admission::Refused(REJECTED.to_owned()),
        Some(Decision::Reject(Some(why))) => {
            Admission::Refused(format!("{REJECTED}, and said: {why}"))
        }
        Some(Decision::Nobody(why)) => Admission::Refused(why.to_owned()),
        _ => Admission::Refused("the question was not answered".to_owned()),
    };
    let done = match decision.and_then(Decision::scope) {
        Some(_) => "Commands may connect to it until the session ends.",
        None => "The command may connect to it until it ends.",
    };
    let done = |_| ToolOutcome::Done(ToolOutput::new(done, done));
    engine.calls.finish(id, permitted.map_or_else(|outcome| outcome, done));
    admission
}

const REJECTED: &str = "the user did not allow it";
const ALONE: &str = "nobody can be asked after the call of a command has ended; run what needs this host \
    in the foreground";
