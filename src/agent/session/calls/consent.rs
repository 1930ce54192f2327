//! The question whether the programs in the project's own settings may run. It is asked at the beginning of the first
//! turn, and shown and answered in every front end like a question about a call.

use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::session::engine::Engine;
use crate::session::events::event::{CallStarted, Caller, Event, ToolOutcome};
use tandem_approval::consent::{ConsentError, ConsentStatus, Executable};
use tandem_approval::{Answer, BuiltInRule, Decision, Question, QuestionSubject};
use tandem_host::{Access, Summary, ToolError, ToolKind, ToolOutput};
use tandem_model::Call;

/// Asks for the user's consent, if it has been neither given nor refused. Returns `true` if it asked.
pub(crate) async fn ask(engine: &Engine, cancel: &CancellationToken) -> bool {
    let Some(review) = cancel.run_until_cancelled(engine.approvals.consent.review()).await else {
        return false;
    };
    if review.status != ConsentStatus::Pending {
        return false;
    }
    let shown = review.executables;
    let started = question(engine, &shown);
    let id = started.call.id.clone();
    let answer = engine.approvals.ask(started, cancel).await;
    let outcome = apply_answer(engine, &shown, answer, cancel).await;
    engine.calls.finish(id, outcome);
    true
}

fn question(engine: &Engine, executables: &[Executable]) -> Arc<CallStarted> {
    let folder = engine.host.workspace.root().display().to_string();
    let lines: Vec<_> = executables.iter().map(ToString::to_string).collect();
    let description = format!(
        "The settings in {folder} name these programs and servers:\n- {}",
        lines.join("\n- ")
    );
    let call = Call {
        id: String::new(),
        name: "trust_folder".to_owned(),
        args: json!({ "folder": folder, "runs": lines }),
    };
    Arc::new(CallStarted {
        call: engine.calls.with_unique_id(call),
        caller: Caller::Agent,
        kind: ToolKind::Other,
        summary: Summary::new(format!("Use the programs and servers that the settings in {folder} name")),
        access: Access::Other { description },
        question: Some(Question {
            subject: QuestionSubject::FolderPrograms,
            why: "you have not trusted this folder's settings yet; `/permissions trust` changes the answer"
                .to_owned(),
            rules: vec![BuiltInRule::UnknownFolder.into()],
            ..Question::default()
        }),
    })
}

/// Acts on the answer about the programs that were shown. Returns the outcome of the call that stands for the question.
async fn apply_answer(
    engine: &Engine,
    shown: &[Executable],
    answer: Option<Answer>,
    cancel: &CancellationToken,
) -> ToolOutcome {
    let permitted = engine.approvals.apply_answer(answer.as_ref(), cancel).await;
    let yes = permitted.is_ok();
    match answer.as_ref().map(Answer::decision) {
        Some(Decision::Nobody(_)) => {
            engine.approvals.consent.settle(false);
            engine.servers.hub.withdraw();
        }
        Some(decision) if decision.runs() || matches!(decision, Decision::Reject(_)) => {
            match engine.servers.answer(shown, yes).await {
                Ok(()) => {}
                Err(why @ ConsentError::NotSaved(_)) => {
                    engine.log.append(Event::Notice(why.to_string()));
                }
                Err(why @ ConsentError::Changed) => {
                    let error = ToolError::new("programs_changed", why.to_string());
                    return ToolOutcome::Failed(error);
                }
            }
        }
        // A cancelled turn, or an answer that was not understood, decides nothing: the next turn asks again.
        _ => {}
    }
    let used = "The programs that the folder's settings name are trusted.";
    permitted.map_or_else(|outcome| outcome, |_| ToolOutcome::Done(ToolOutput::new(used, used)))
}
