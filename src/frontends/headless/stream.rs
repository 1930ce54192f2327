//! The format `stream-json`: an object a line as things happen, of Gemini CLI's shape.

use serde_json::{Value, json};

use super::Failure;
use super::stats::Stats;
use crate::session::{Entry, Event, Millis, ToolOutcome, TurnId};
use crate::visible::escaped_json;

pub(super) struct Stream {
    id: String,
    model: String,
    stats: Stats,
    /// The prompt whose turn has not come.
    queued: Option<(TurnId, String)>,
    /// The calls that have begun.
    calls: Vec<String>,
    /// When the last thing happened.
    at: Option<Millis>,
}

impl Stream {
    pub(super) fn new(model: &str) -> Self {
        Self {
            id: uuid::Uuid::new_v4().to_string(),
            model: model.to_owned(),
            stats: Stats::new(model),
            queued: None,
            calls: Vec::new(),
            at: None,
        }
    }

    pub(super) fn event(&mut self, entry: &Entry) -> String {
        self.stats.event(entry);
        self.at = Some(entry.at);
        match &*entry.event {
            Event::TurnQueued { turn, prompt, .. } if self.queued.is_none() => {
                let prompt = prompt.iter().map(ToString::to_string).collect();
                self.queued = Some((*turn, prompt));
                self.line("init", json!({ "session_id": self.id, "model": self.model }))
            }
            Event::TurnStarted { turn } => match &self.queued {
                Some((queued, prompt)) if queued == turn => {
                    self.line("message", json!({ "role": "user", "content": prompt }))
                }
                _ => String::new(),
            },
            Event::Text(text) | Event::Output(text) => {
                let message = json!({ "role": "assistant", "content": text, "delta": true });
                self.line("message", message)
            }
            Event::Retry(retry) if retry.discard => {
                self.warning(&format!("{retry}; the answer begins anew"))
            }
            Event::Retry(retry) => self.warning(&retry.to_string()),
            Event::Notice(notice) => self.warning(notice),
            Event::Compressed(short) => self.warning(&short.to_string()),
            Event::CallStarted(started) => {
                let call = &started.call;
                self.calls.push(call.id.clone());
                let using = json!({
                    "tool_name": call.name,
                    "tool_id": call.id,
                    "parameters": call.args,
                });
                self.line("tool_use", using)
            }
            // A call that the cancel overtook never began.
            Event::CallFinished { call, outcome } if self.calls.contains(call) => {
                self.line("tool_result", result(call, outcome))
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

/// What came of a call.
fn result(call: &str, outcome: &ToolOutcome) -> Value {
    let (kind, message) = match outcome {
        ToolOutcome::Done(output) => {
            return json!({ "tool_id": call, "status": "success", "output": output.text });
        }
        ToolOutcome::Failed(error) => (error.kind.as_str(), error.message.as_str()),
        ToolOutcome::Rejected => ("rejected", "The call was not allowed."),
        ToolOutcome::Cancelled => ("cancelled", "The call was cancelled."),
    };
    let error = json!({ "type": kind, "message": message });
    json!({ "tool_id": call, "status": "error", "output": message, "error": error })
}
