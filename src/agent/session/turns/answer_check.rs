//! Check of a turn's last message against the schema that the prompt asks for. A model whose message does not fit is
//! told the faults, and asked again.

use std::sync::Arc;

use crate::session::context::answer_schema::{correction, of_prompt};
use crate::session::engine::Engine;
use crate::session::events::event::{Event, PromptPart, StopReason};
use tandem_content::blocking::try_blocking;
use tandem_model::Message;
use tandem_model::answer_schema::AnswerSchema;

/// Maximum number of times that a model is asked again in one turn.
const MAX_SCHEMA_RETRIES: usize = 2;

/// Check of a turn's last message.
pub(super) struct AnswerCheck {
    /// Schema of the message; `None` if any message will do.
    schema: Option<Arc<AnswerSchema>>,
    /// Number of times that the model was asked again.
    retries: usize,
}

impl AnswerCheck {
    /// Makes the check that a prompt asks for. Fails if the prompt's schema is none, as only a log that others wrote can
    /// have.
    pub(super) async fn new(prompt: &[PromptPart]) -> Result<Self, StopReason> {
        let Some(schema) = of_prompt(prompt).cloned() else {
            return Ok(Self { schema: None, retries: 0 });
        };
        // A schema may have many regular expressions, and compiling them takes long.
        let schema = try_blocking(move || AnswerSchema::new(schema)).await;
        let schema = schema.map_err(StopReason::SchemaMismatch)?;
        Ok(Self { schema: Some(Arc::new(schema)), retries: 0 })
    }

    /// Returns the schema of the message.
    pub(super) fn schema(&self) -> Option<Arc<AnswerSchema>> {
        self.schema.clone()
    }

    /// Checks the model's last message, with which the turn would end. Returns the reason why the turn ends; `None` if
    /// the model is asked again, and has been told the faults of the message.
    pub(super) async fn conclude(&mut self, engine: &Engine) -> Option<StopReason> {
        let Some(schema) = &self.schema else { return Some(StopReason::EndTurn) };
        let (reader, message) = (Arc::clone(schema), last_message(engine));
        // A check may take a million steps.
        let read = try_blocking(move || reader.read(&message).map_err(|faults| faults.join("; ")));
        let Err(faults) = read.await else { return Some(StopReason::EndTurn) };
        if self.retries == MAX_SCHEMA_RETRIES {
            return Some(StopReason::SchemaMismatch(faults));
        }
        self.retries += 1;
        let retries = self.retries;
        engine.log.append(Event::Notice(format!(
            "The answer does not fit the schema ({faults}); tandem asks the model again ({retries} of \
             {MAX_SCHEMA_RETRIES})."
        )));
        let text = correction(schema.value(), &faults);
        engine.log.append(Event::Told { call: None, text });
        None
    }
}

/// Returns the text of the model's last message.
fn last_message(engine: &Engine) -> String {
    let mut transcript = engine.transcript.lock();
    match transcript.conversation().messages().last().map(|message| &**message) {
        Some(Message::Assistant(answer)) => answer.text.clone(),
        _ => String::new(),
    }
}
