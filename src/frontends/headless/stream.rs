//! The format `stream-json`: an object a line as things happen, of Gemini CLI's shape.

use serde_json::{Value, json};

use super::Failure;
use super::stats::Stats;
use tandem_agent::session::{
    CallStep, Millis, Projection, ToolOutcome, Update, UpdateKind, explain_retry,
};
use tandem_content::visible::escaped_json;

pub(super) struct Stream {
    id: String,
    model: String,
    stats: Stats,
    /// When the last thing happened.
    at: Option<Millis>,
}

impl Stream {
    pub(super) fn new(id: &str, model: &str) -> Self {
        Self { id: id.to_owned(), model: model.to_owned(), stats: Stats::new(model), at: None }
    }

    pub(super) fn update(&mut self, update: &Update<'_>, projection: &Projection) -> String {
        self.stats.update(update, projection);
        self.at = Some(update.at);
        match &update.kind {
            UpdateKind::TurnQueued(_) => {
                self.line("init", json!({ "session_id": self.id, "model": self.model }))
            }
            UpdateKind::TurnStarted => {
                let turn = update.turn.and_then(|turn| projection.turn(turn));
                let prompt = turn.map_or("", |turn| &turn.prompt);
                self.line("message", json!({ "role": "user", "content": prompt }))
            }
            UpdateKind::Text(text) | UpdateKind::Output(text) => {
                let message = json!({ "role": "assistant", "content": text, "delta": true });
                self.line("message", message)
            }
            UpdateKind::Retry { retry, restarts } => self.warning(&explain_retry(retry, *restarts)),
            UpdateKind::Note { text, .. } => self.warning(text),
            UpdateKind::Call(started, CallStep::Started) => {
                let call = &started.call;
                let using = json!({
                    "tool_name": call.name,
                    "tool_id": call.id,
                    "parameters": call.args,
                });
                self.line("tool_use", using)
            }
            UpdateKind::Call(started, CallStep::Finished(outcome)) => {
                self.line("tool_result", result(&started.call.id, outcome))
            }
            _ => String::new(),
        }
    }

    pub(super) fn end(self, failure: Option<&Failure>) -> String {
        let stats = self.stats.brief();
        let result = match failure {
            None => json!({ "status": "success", "stats": stats }),
            Some(failure) => json!({
                "status": "error",
                "error": { "type": failure.name(), "message": failure.to_string() },
                "stats": stats,
            }),
        };
        self.line("result", result)
    }

    fn warning(&self, message: &str) -> String {
        self.line("error", json!({ "severity": "warning", "message": message }))
    }

    fn line(&self, r#type: &str, fields: Value) -> String {
        let at = self.at.and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
        let at = at.unwrap_or_else(jiff::Timestamp::now);
        let mut line = json!({ "type": r#type, "timestamp": format!("{at:.3}") });
        if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
            line.extend(fields);
        }
        format!("{}\n", escaped_json(&line.to_string()))
    }
}

/// Returns the result of a call.
fn result(call: &str, outcome: &ToolOutcome) -> Value {
    let (kind, message) = match outcome {
        ToolOutcome::Done(output) => {
            return json!({ "tool_id": call, "status": "success", "output": output.text });
        }
        ToolOutcome::Failed(error) => (error.kind.as_str(), error.message.as_str()),
        ToolOutcome::Rejected => ("rejected", "The call was not allowed."),
        ToolOutcome::Cancelled => ("cancelled", "The call was cancelled."),
        ToolOutcome::Interrupted => {
            ("interrupted", "The agent was stopped before the call had ended.")
        }
    };
    let error = json!({ "type": kind, "message": message });
    json!({ "tool_id": call, "status": "error", "output": message, "error": error })
}
