//! The connections of a command in the sandbox. The user is asked about the hosts on which the policy does not decide,
//! while the command waits.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::own_call::{self, OwnCall};
use crate::session::engine::Engine;
use tandem_approval::{Answer, CONNECT_TOOL, Decision, Permissions, Question, Scope, Verdict};
use tandem_content::shorten::one_line;
use tandem_host::network::{Admission, Connect, Destination};
use tandem_host::{Access, ToolKind};

/// Maximum number of connections that wait to be asked about.
const MAX_WAITING: usize = 256;

/// Maximum number of hosts of one question, not counting the first.
const MAX_OTHER_HOSTS: usize = 99;

/// Maximum number of characters of the command in a question's label.
const MAX_LABEL_CHARS: usize = 80;

/// A connection that the user is to be asked about.
struct WantedConnection {
    destination: Destination,
    /// `true` if the settings allow the host.
    is_allowed: bool,
    /// Sender of the decision, for which the connection waits.
    admission: oneshot::Sender<Admission>,
}

/// The connections of one command that the user is to be asked about.
pub(super) struct Connections {
    wanted: mpsc::Receiver<WantedConnection>,
    /// The command that connects, or the addresses that a web tool reads, on one line.
    command: String,
}

impl Connections {
    /// Returns the connections of a command, and the function that decides on each. The function applies the policy as
    /// it is at that time. Where the policy asks, the user is asked as long as [`Self::answer`] runs; afterwards such a
    /// connection is not admitted.
    pub(super) fn open(permissions: &Arc<Permissions>, command: &str) -> (Self, Connect) {
        let (sender, wanted) = mpsc::channel(MAX_WAITING);
        let command = one_line(command, MAX_LABEL_CHARS);
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
                // Sending fails when the call has ended. Then `admission` is dropped, which the line below sees.
                drop(sender.send(wanted).await);
                admitted.await.unwrap_or_else(|_| Admission::NotNow(NOBODY_TO_ASK.to_owned()))
            }
            .boxed()
        };
        (Self { wanted, command }, Arc::new(connect))
    }

    /// Asks the user until the command is over or the turn is cancelled; then the open question is withdrawn.
    /// Connections that are wanted while a question is open wait for the next question. One question is about all
    /// waiting hosts that the same rules ask about.
    pub(super) async fn answer(
        mut self,
        engine: &Engine,
        cancel: &CancellationToken,
        over: &CancellationToken,
    ) {
        let mut waiting = VecDeque::new();
        loop {
            if waiting.is_empty() {
                let next = own_call::next(&mut self.wanted, cancel, over).await;
                let Some(wanted) = next else { return };
                waiting.push_back(wanted);
            }
            while let Ok(wanted) = self.wanted.try_recv() {
                waiting.push_back(wanted);
            }
            // The last answer, or a change of the rules, may decide on the hosts that still wait: they need no
            // question.
            let Some(asked) = self.next_question(engine, &mut waiting) else { continue };
            let HostsQuestion { first, others, question } = asked;
            let call = connections(&self.command, &first, &others);
            let answer = call.ask(engine, question, cancel, over.cancelled()).await;
            for wanted in [first].into_iter().chain(others) {
                // Sending fails if the command has ended.
                let _ = wanted.admission.send(admission_of(answer.as_ref()));
            }
            if cancel.is_cancelled() || over.is_cancelled() {
                return;
            }
        }
    }

    /// Takes the next question out of `waiting`: about the first connection that the policy asks about, and the others
    /// that the same rules ask about. Connections on which the policy decides get their decision; the rest stay in
    /// `waiting`. `None` if the policy asks about none.
    fn next_question(
        &self,
        engine: &Engine,
        waiting: &mut VecDeque<WantedConnection>,
    ) -> Option<HostsQuestion> {
        let mut asked: Option<HostsQuestion> = None;
        for wanted in std::mem::take(waiting) {
            let call = connection(&self.command, &wanted.destination, wanted.is_allowed);
            let admission = match (call.judge(&engine.approvals.permissions), &mut asked) {
                (Verdict::Allow, _) => Admission::Admitted,
                (Verdict::Deny { why, .. }, _) => Admission::Refused(why),
                (Verdict::Ask(question), None) => {
                    asked = Some(HostsQuestion { first: wanted, others: Vec::new(), question });
                    continue;
                }
                (Verdict::Ask(question), Some(asked)) => {
                    if question.rules == asked.question.rules
                        && asked.others.len() < MAX_OTHER_HOSTS
                    {
                        asked.question.scopes = joined(&asked.question.scopes, question.scopes);
                        asked.others.push(wanted);
                    } else {
                        waiting.push_back(wanted);
                    }
                    continue;
                }
            };
            // Sending fails if the command has ended.
            let _ = wanted.admission.send(admission);
        }
        asked
    }
}

/// One question about several connections.
struct HostsQuestion {
    first: WantedConnection,
    others: Vec<WantedConnection>,
    question: Question,
}

/// Joins the scopes of two questions, index by index. Two `Connections` scopes become one scope with all hosts; of
/// any other pair, the first scope stays. Scopes without a partner are left out.
fn joined(some: &[Scope], others: Vec<Scope>) -> Vec<Scope> {
    let both = some.iter().cloned().zip(others);
    let both = both.map(|scopes| match scopes {
        (Scope::Connections(mut hosts), Scope::Connections(more)) => {
            hosts.extend(more);
            hosts.sort();
            hosts.dedup();
            Scope::Connections(hosts)
        }
        (scope, _) => scope,
    });
    both.collect()
}

/// Returns the call whose question is about several connections of a command.
fn connections(command: &str, first: &WantedConnection, others: &[WantedConnection]) -> OwnCall {
    let call = connection(command, &first.destination, first.is_allowed);
    if others.is_empty() {
        return call;
    }
    let label =
        format!("Connect to {} and {} more (for {command})", first.destination, others.len());
    let others: Vec<_> = others.iter().map(|wanted| wanted.destination.to_string()).collect();
    let Destination { host, port } = first.destination.clone();
    let args = json!({ "host": host, "port": port, "others": others });
    let (command, is_allowed) = (command.to_owned(), first.is_allowed);
    let access = Access::Connect { host, port, others, command, is_allowed };
    OwnCall { args, access, label, ..call }
}

/// Returns the call whose question is about one connection of a command.
fn connection(command: &str, destination: &Destination, is_allowed: bool) -> OwnCall {
    let Destination { host, port } = destination.clone();
    OwnCall {
        name: CONNECT_TOOL,
        args: json!({ "host": host, "port": port }),
        access: Access::Connect {
            host,
            port,
            others: Vec::new(),
            command: command.to_owned(),
            is_allowed,
        },
        kind: ToolKind::Fetch,
        label: format!("Connect to {destination} (for {command})"),
        done: brings,
    }
}

/// Returns the effect of a yes, as a sentence for people.
fn brings(decision: Decision<'_>) -> &'static str {
    match decision {
        Decision::Always(_) => "Commands may connect there while this session is open.",
        Decision::AlwaysAndSave(_) => "Commands may connect there from now on.",
        _ => "The command may connect there until it ends.",
    }
}

fn admission_of(answer: Option<&Answer>) -> Admission {
    match answer.map(Answer::decision) {
        Some(decision) if decision.runs() => Admission::Admitted,
        Some(Decision::Reject(None)) => Admission::Refused(USER_REJECTED.to_owned()),
        Some(Decision::Reject(Some(why))) => {
            Admission::Refused(format!("{USER_REJECTED}, and said: {why}"))
        }
        Some(Decision::Nobody(why)) => Admission::Refused(why.to_owned()),
        // No person has decided about the host, and the command may run on in the background. So the next connection asks
        // again.
        None | Some(Decision::CancelTurn) => Admission::NotNow(QUESTION_WITHDRAWN.to_owned()),
        _ => Admission::Refused("the question was not answered".to_owned()),
    }
}

const QUESTION_WITHDRAWN: &str = "the question was withdrawn before an answer came";
const USER_REJECTED: &str = "the user did not allow it";
const NOBODY_TO_ASK: &str = "nobody can be asked after the call of a command has ended; run what needs this host \
    in the foreground";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_no_holds_until_the_command_ends() {
        let refused = |answer| matches!(admission_of(Some(&answer)), Admission::Refused(_));
        assert!(refused(Answer::Reject));
        assert!(refused(Answer::RejectSaying("not this one".to_owned())));
        assert!(refused(Answer::Nobody("nobody is there".to_owned())));
        for withdrawn in [None, Some(&Answer::Cancel)] {
            assert!(matches!(admission_of(withdrawn), Admission::NotNow(_)), "{withdrawn:?}");
        }
        let once = Answer::Once { edited: None };
        assert_eq!(admission_of(Some(&once)), Admission::Admitted);
    }
}
