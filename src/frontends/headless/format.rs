//! Formats of standard output.

use std::str::FromStr;

use serde_json::{Value, json};
use tandem_agent::session::{
    ANSWER_RESTARTS, CallStep, LastAnswer, Millis, Projection, StopReason, ToolOutcome, Update,
    UpdateKind, explain_resumed, explain_retry, explain_unknown_outcome,
};
use tandem_content::visible::{escaped_json, visible_prose};

use super::failure::RunFailure;
use super::refusals::Refusals;
use super::stats::Stats;

/// Format of standard output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// The model's text, as it arrives.
    #[default]
    Text,
    /// One JSON object at the end.
    Json,
    /// One JSON object on each line, as events happen.
    StreamJson,
}

impl Format {
    const ALL: [(&'static str, Self); 3] =
        [("text", Self::Text), ("json", Self::Json), ("stream-json", Self::StreamJson)];
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("must be one of {}", names.join(", "))
        })
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(Self::ALL.iter().find(|(_, it)| it == self).map_or("", |(name, _)| name))
    }
}

/// End of a run, as the printers write it.
pub(super) struct RunEnd<'a> {
    /// Reason for which the turn ended; `None` if no turn began.
    pub(super) reason: Option<&'a StopReason>,
    /// Failure of the run, if it has failed.
    pub(super) failure: Option<&'a RunFailure>,
    /// Calls that were refused.
    pub(super) refusals: &'a Refusals,
    /// Cost of the run at list prices in US dollars; `None` if it is not known.
    pub(super) cost: Option<f64>,
    /// Answer as JSON, if the prompt asks for a schema and the answer fits it.
    pub(super) structured: Option<&'a Value>,
}

impl RunEnd<'_> {
    /// Adds the cost to the fields of a result, if the cost is known.
    fn add_cost(&self, result: &mut Value) {
        if let Some(cost) = self.cost {
            // A nanodollar is less than any token costs; further digits come from binary fractions.
            result["total_cost_usd"] = json!((cost * 1e9).round() / 1e9);
        }
    }
}

/// Printer of one of the formats. It returns the text to write for each event of the turn.
pub(super) enum Printer {
    Text(TextPrinter),
    /// Printer of the format `text` for an answer that fits a schema: the JSON alone, at the end.
    Structured,
    Json(Box<JsonPrinter>),
    Stream(Box<StreamPrinter>),
}

impl Printer {
    /// Makes a printer. `structured`: the answer is JSON that fits a schema.
    pub(super) fn new(format: Format, structured: bool, id: &str, model: &str) -> Self {
        match format {
            Format::Text if structured => Self::Structured,
            Format::Text => Self::Text(TextPrinter::default()),
            Format::Json => Self::Json(Box::new(JsonPrinter::new(id, model))),
            Format::StreamJson => Self::Stream(Box::new(StreamPrinter::new(id, model))),
        }
    }

    pub(super) fn update(&mut self, update: &Update<'_>, projection: &Projection) -> String {
        match self {
            Self::Text(text) => text.update(&update.kind),
            Self::Structured => String::new(),
            Self::Json(json) => {
                json.update(update, projection);
                String::new()
            }
            Self::Stream(stream) => stream.update(update, projection),
        }
    }

    pub(super) fn end(self, end: &RunEnd<'_>) -> String {
        match self {
            Self::Text(text) => text.end(),
            Self::Structured => end.structured.map(line).unwrap_or_default(),
            Self::Json(json) => json.end(end),
            Self::Stream(stream) => stream.end(end),
        }
    }
}

/// Printer of the format `text`: the model's text, as it arrives.
#[derive(Default)]
pub(super) struct TextPrinter {
    /// `true` if the last line that was printed has no line end yet.
    in_line: bool,
}

impl TextPrinter {
    fn update(&mut self, update: &UpdateKind<'_>) -> String {
        match update {
            UpdateKind::Text(text) | UpdateKind::Output(text) => {
                let text = visible_prose(text);
                if !text.is_empty() {
                    self.in_line = !text.ends_with('\n');
                }
                text.into_owned()
            }
            // The part of the answer that was printed cannot be taken back, so a text marks the new beginning.
            UpdateKind::Retry { retry, restarts: true } => {
                format!("{}\n{}\n\n", self.end_line(), visible_prose(&retry.interruption()))
            }
            UpdateKind::TurnResumed { restarts: true } => {
                format!("{}\n{ANSWER_RESTARTS}\n\n", self.end_line())
            }
            UpdateKind::AnswerFinished(_)
            | UpdateKind::Retry { .. }
            | UpdateKind::TurnResumed { .. } => self.end_line(),
            _ => String::new(),
        }
    }

    fn end(mut self) -> String {
        self.end_line()
    }

    fn end_line(&mut self) -> String {
        let end = if self.in_line { "\n" } else { "" };
        self.in_line = false;
        end.to_owned()
    }
}

/// Printer of the format `json`: one object at the end, in the shape of Gemini CLI.
pub(super) struct JsonPrinter {
    id: String,
    stats: Stats,
    answer: LastAnswer,
    /// Output of the prompt's slash command, printed if the model has not answered.
    output: String,
}

impl JsonPrinter {
    fn new(id: &str, model: &str) -> Self {
        Self {
            id: id.to_owned(),
            stats: Stats::new(model),
            answer: LastAnswer::default(),
            output: String::new(),
        }
    }

    fn update(&mut self, update: &Update<'_>, projection: &Projection) {
        self.stats.update(update, projection);
        self.answer.apply(&update.kind);
        if let UpdateKind::Output(text) = update.kind {
            self.output.push_str(text);
        }
    }

    fn end(self, end: &RunEnd<'_>) -> String {
        let answer = self.answer.text;
        let mut result = json!({
            "session_id": self.id,
            "response": if answer.is_empty() { self.output } else { answer },
            "stop_reason": end.reason.map(StopReason::name),
            "permission_denials": end.refusals.to_value(),
            "stats": self.stats.full(),
        });
        end.add_cost(&mut result);
        if let Some(answer) = end.structured {
            result["structured_output"] = answer.clone();
        }
        if let Some(failure) = end.failure {
            result["error"] = json!({
                "type": failure.name(),
                "message": failure.to_string(),
                "code": failure.code(),
            });
        }
        format!("{}\n", escaped_json(&format!("{result:#}")))
    }
}

/// Printer of the format `stream-json`: one object on each line as events happen, in the shape of Gemini CLI.
pub(super) struct StreamPrinter {
    id: String,
    model: String,
    stats: Stats,
    /// Time of the last event.
    at: Option<Millis>,
}

impl StreamPrinter {
    fn new(id: &str, model: &str) -> Self {
        Self { id: id.to_owned(), model: model.to_owned(), stats: Stats::new(model), at: None }
    }

    fn update(&mut self, update: &Update<'_>, projection: &Projection) -> String {
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
            UpdateKind::TurnResumed { restarts } => self.warning(&explain_resumed(*restarts)),
            UpdateKind::CommandReplied(text) => self.warning(text),
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

    fn end(self, end: &RunEnd<'_>) -> String {
        let mut result = json!({
            "status": if end.failure.is_none() { "success" } else { "error" },
            "stop_reason": end.reason.map(StopReason::name),
            "permission_denials": end.refusals.to_value(),
            "stats": self.stats.brief(),
        });
        end.add_cost(&mut result);
        if let Some(answer) = end.structured {
            result["structured_output"] = answer.clone();
        }
        if let Some(failure) = end.failure {
            result["error"] = json!({ "type": failure.name(), "message": failure.to_string() });
        }
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

/// Returns the result of a call in the form of the format `stream-json`.
fn result(call: &str, outcome: &ToolOutcome) -> Value {
    let unknown;
    let (kind, message) = match outcome {
        ToolOutcome::Done(output) => {
            return json!({ "tool_id": call, "status": "success", "output": output.text });
        }
        ToolOutcome::Unknown(outcome) => {
            unknown = explain_unknown_outcome(outcome);
            if outcome.is_done() {
                return json!({ "tool_id": call, "status": "success", "output": unknown });
            }
            ("unknown", unknown.as_str())
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

/// Returns a JSON value as one line that hides nothing from a person.
fn line(value: &Value) -> String {
    format!("{}\n", escaped_json(&value.to_string()))
}
