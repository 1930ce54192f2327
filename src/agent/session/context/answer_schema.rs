//! Schema of the answer that a prompt asks for, as the model is told it.

use serde_json::Value;

use super::compress::beginning::BY_THE_AGENT;
use crate::session::events::event::PromptPart;

/// Returns the schema of the answer that a prompt asks for.
pub(in crate::session) fn of_prompt(prompt: &[PromptPart]) -> Option<&Value> {
    prompt.iter().find_map(|part| match part {
        PromptPart::AnswerSchema(schema) => Some(schema),
        _ => None,
    })
}

/// Returns the text that tells the model the schema. It also counts where the API enforces the schema: the model then
/// knows while it works what it has to find out.
pub(super) fn instruction(schema: &Value) -> String {
    format!(
        "\n\n{BY_THE_AGENT}a program reads your answer. Work as usual, with tools. Your last message, when you are \
         done, is JSON that fits this JSON Schema, and nothing else: no words around it, no Markdown.\n{schema}]"
    )
}

/// Returns the text that tells the model why its last message does not fit the schema. It has the schema again: a
/// compression may have cut the prompt.
pub(in crate::session) fn correction(schema: &Value, faults: &str) -> String {
    format!(
        "{BY_THE_AGENT}your last message does not fit the JSON Schema of the answer: {faults}. Answer again: the whole \
         JSON, corrected, and nothing else. The schema:\n{schema}]"
    )
}
