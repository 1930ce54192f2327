//! Helpers for the words and sentences of prompts and descriptions.

/// Returns the first word, and the rest of the text, trimmed.
pub(super) fn word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

/// Returns the first sentence of a description, on one line. The rest of the description is for the model.
pub(super) fn first_sentence(description: &str) -> String {
    let end = description.find(". ").map_or(description.len(), |end| end + 1);
    let line: Vec<_> = description[..end].split_whitespace().collect();
    line.join(" ")
}

/// Returns names with commas between them.
pub(super) fn list(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
