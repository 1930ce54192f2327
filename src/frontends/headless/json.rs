//! The format `json`: one object at the end, of Gemini CLI's shape.

use serde_json::json;

use super::Failure;
use super::stats::Stats;
use tandem_agent::session::{LastAnswer, Projection, Update, UpdateKind};
use tandem_content::visible::escaped_json;

pub(super) struct Json {
    id: String,
    stats: Stats,
    answer: LastAnswer,
    /// Output of a command.
    output: String,
}

impl Json {
    pub(super) fn new(id: &str, model: &str) -> Self {
        Self {
            id: id.to_owned(),
            stats: Stats::new(model),
            answer: LastAnswer::default(),
            output: String::new(),
        }
    }

    pub(super) fn update(&mut self, update: &Update<'_>, projection: &Projection) {
        self.stats.update(update, projection);
        self.answer.apply(&update.kind);
        if let UpdateKind::Output(text) = update.kind {
            self.output.push_str(text);
        }
    }

    pub(super) fn end(self, failure: Option<&Failure>) -> String {
        let answer = self.answer.text;
        let mut result = json!({
            "session_id": self.id,
            "response": if answer.is_empty() { self.output } else { answer },
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
