//! The format `json`: one object at the end, of Gemini CLI's shape.

use serde_json::json;

use super::Failure;
use super::stats::Stats;
use crate::session::{Entry, Event};
use crate::visible::escaped_json;

pub(super) struct Json {
    id: String,
    stats: Stats,
    /// What the model said last.
    response: String,
    /// Whether that is a whole answer, and what follows is another.
    whole: bool,
}

impl Json {
    pub(super) fn new(model: &str) -> Self {
        Self {
            id: uuid::Uuid::new_v4().to_string(),
            stats: Stats::new(model),
            response: String::new(),
            whole: false,
        }
    }

    pub(super) fn event(&mut self, entry: &Entry) {
        self.stats.event(entry);
        match &*entry.event {
            Event::Text(text) | Event::Output(text) => {
                if self.whole {
                    self.response.clear();
                    self.whole = false;
                }
                self.response.push_str(text);
            }
            Event::AnswerFinished { .. } => self.whole = true,
            Event::Retry(retry) if retry.discard && !self.whole => self.response.clear(),
            _ => {}
        }
    }

    pub(super) fn end(self, failure: Option<&Failure>) -> String {
        let mut result = json!({
            "session_id": self.id,
            "response": self.response,
            "stats": self.stats.full(),
        });
        if let Some(failure) = failure {
            result["error"] = json!({
                "type": failure.name(),
                "message": failure.to_string(),
                "code": failure.code(),
            });
        }
        format!("{}\n", escaped_json(&format!("{result:#}")))
    }
}
