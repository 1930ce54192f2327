//! Search for a text in stored sessions.

use super::export::{Conversation, Passage, read_conversation};
use crate::session::{Listed, Query, Store, StoreError};
use tandem_content::shorten::first_chars;

/// A session in which a text was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// The session.
    pub listed: Listed,
    /// Number of the session in the list of the query, from 1.
    pub number: usize,
    /// First line that contains the text, or the part of the line around the text.
    pub line: String,
}

/// Number of characters of a line that are shown on each side of the text that was found.
const CONTEXT_CHARS: usize = 60;

/// Finds the sessions of a query whose prompts or answers contain a text, in upper or lower case; the last changed
/// first.
pub async fn search(
    store: &dyn Store,
    query: &Query,
    text: &str,
) -> Result<Vec<SearchHit>, StoreError> {
    let text = text.trim().to_lowercase();
    let mut hits = Vec::new();
    for (number, listed) in (1..).zip(store.list(query).await?) {
        // An error means that the session was deleted meanwhile, or cannot be read: the other sessions are still
        // searched.
        if !store.may_say(&listed.head.id, &text).await.unwrap_or(false) {
            continue;
        }
        let Ok(conversation) = read_conversation(store, &listed).await else { continue };
        if let Some(line) = find_line(&conversation, &text) {
            hits.push(SearchHit { listed, number, line });
        }
    }
    Ok(hits)
}

fn find_line(conversation: &Conversation, lower: &str) -> Option<String> {
    conversation.passages.iter().find_map(|passage| match passage {
        Passage::Prompt(text) | Passage::Answer(text) => {
            text.lines().find_map(|line| piece(line, lower))
        }
        Passage::Call(_) | Passage::Note(_) => None,
    })
}

/// Returns a line that contains the text, cut on both sides if it is long.
fn piece(line: &str, lower: &str) -> Option<String> {
    let found = line.to_lowercase().find(lower)?;
    // The index is that of the lower-case line. If the lower case of a letter is longer or shorter, the part that is
    // shown is a little beside the text.
    let found = line.floor_char_boundary(found);
    let before =
        line[..found].char_indices().rev().take(CONTEXT_CHARS).last().map_or(found, |it| it.0);
    let (before_is_cut, rest) = (before > 0, &line[before..]);
    let most = CONTEXT_CHARS * 2 + lower.chars().count();
    let shown = first_chars(rest, most);
    let (from, to) =
        (if before_is_cut { "…" } else { "" }, if shown.len() < rest.len() { "…" } else { "" });
    Some(format!("{from}{}{to}", shown.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_the_line_around_what_was_found() {
        assert_eq!(piece("  The Word is here ", "word").unwrap(), "The Word is here");
        assert_eq!(piece("nothing", "word"), None);
        let long = format!("{}Wörd{}", "ä".repeat(100), "ö".repeat(200));
        let expected = format!("…{}Wörd{}…", "ä".repeat(60), "ö".repeat(60));
        assert_eq!(piece(&long, "wörd").unwrap(), expected);
        // The lower case of `İ` has two characters, so an index of the lower-case line is none of the line.
        assert!(piece("İİİİ word", "word").is_some());
    }
}
