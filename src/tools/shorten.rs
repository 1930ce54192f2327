//! Text that is too long for the model, cut in the middle.

use std::borrow::Cow;

/// The first fifth and the last four fifths of `max_chars`, with a line between that says how
/// much is missing.
pub(super) fn shorten(text: &str, max_chars: usize) -> Cow<'_, str> {
    let chars = text.chars().count();
    if chars <= max_chars {
        return Cow::Borrowed(text);
    }
    let at = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    let head = max_chars / 5;
    let tail = chars - (max_chars - head);
    let missing = tail - head;
    Cow::Owned(format!(
        "{}\n[... {missing} characters left out ...]\n{}",
        &text[..at(head)],
        &text[at(tail)..]
    ))
}
