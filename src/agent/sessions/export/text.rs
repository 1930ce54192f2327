//! A conversation as plain text.

use super::conversation::{CallBody, Conversation, Passage, status_word};
use tandem_content::visible::visible_prose;

/// Returns the conversation as plain text.
pub fn to_text(conversation: &Conversation) -> String {
    let mut out = format!("{}\n{}\n", conversation.heading(), conversation.facts().join(", "));
    for passage in &conversation.passages {
        out.push('\n');
        match passage {
            Passage::Prompt(text) => add_lines(&mut out, "> ", text),
            Passage::Answer(text) => add_lines(&mut out, "", text),
            Passage::Note(text) => add_lines(&mut out, "! ", text),
            Passage::Call(call) => {
                let label = format!("{}: {}", call.label, status_word(call.status));
                add_lines(&mut out, "* ", &label);
                if let Some(
                    CallBody::Markdown(text) | CallBody::Plain(text) | CallBody::Diff(text),
                ) = &call.body
                {
                    add_lines(&mut out, "    ", text);
                }
            }
        }
    }
    visible_prose(&out).into_owned()
}

/// Adds a text, each line with a prefix.
fn add_lines(out: &mut String, prefix: &str, text: &str) {
    for line in text.trim_end().trim_start_matches('\n').lines() {
        out.push_str(format!("{prefix}{line}").trim_end());
        out.push('\n');
    }
}
