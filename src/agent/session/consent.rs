//! The question whether the programs of the project's own settings may be used: asked before the first
//! turn goes on, in every front end, like any other question.

use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::Session;
use super::call;
use super::decision::Decision;
use super::event::{Answer, CallStarted, Caller, Event, ToolOutcome};
use crate::permission::consent::{ConsentStatus, Executable};
use crate::permission::{Question, RuleName};
use tandem_model::Call;
use tandem_tools::{Access, Kind, Summary, ToolOutput};

/// Asks if nobody has answered yet. Returns whether it did.
pub(super) async fn ask(session: &Session, cancel: &CancellationToken) -> bool {
    let Some(status) = cancel.run_until_cancelled(session.approvals.consent.status()).await else {
        return false;
    };
    if status != ConsentStatus::Pending {
        return false;
    }
    let started = question(session, &session.approvals.consent.executables());
    let id = started.call.id.clone();
    let answer = call::ask(session, started, cancel).await;
    let outcome = take(session, answer, cancel).await;
    session.finish_call(id, outcome);
    true
}

fn question(session: &Session, executables: &[Executable]) -> Arc<CallStarted> {
    let folder = session.host.workspace.root().display().to_string();
    let lines: Vec<_> = executables.iter().map(ToString::to_string).collect();
    let description =
        format!("The settings in {folder} would have this run:\n- {}", lines.join("\n- "));
    let call = Call {
        id: String::new(),
        name: "trust_folder".to_owned(),
        args: json!({ "folder": folder, "runs": lines }),
    };
    Arc::new(CallStarted {
        call: session.unique(call),
        caller: Caller::Agent,
        kind: Kind::Other,
        summary: Summary::new(format!("Use what the settings in {folder} would run")),
        access: Access::Other { description },
        question: Some(Question {
            why:
                "this folder's own settings are not trusted yet; `/permissions trust` changes the \
                answer"
                    .to_owned(),
            rules: vec![RuleName::BuiltIn("unknown-folder".to_owned())],
            commands: Vec::new(),
            scopes: Vec::new(),
            can_save: false,
        }),
    })
}

/// Does what the answer says; returns the outcome of the call that asked.
async fn take(
    session: &Session,
    answer: Option<Answer>,
    cancel: &CancellationToken,
) -> ToolOutcome {
    let permitted = call::permitted(session, answer.as_ref(), cancel).await;
    let yes = permitted.is_ok();
    match answer.as_ref().map(Answer::decision) {
        Some(Decision::Nobody(_)) => session.approvals.consent.settle(false),
        Some(decision) if decision.runs() || matches!(decision, Decision::Reject(_)) => {
            if let Err(why) = session.approvals.consent.answer(yes).await {
                let notice = format!("The answer counts for this session: {why}.");
                session.log.append(Event::Notice(notice));
            }
        }
        // It stays open: whoever comes next is asked.
        _ => {}
    }
    let used = "What the folder's settings run is used.";
    permitted.map_or_else(|outcome| outcome, |_| ToolOutcome::Done(ToolOutput::new(used, used)))
}
