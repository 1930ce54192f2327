//! Stored sessions in which something was said.

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
    /// The first line with the text in it, or a piece of it.
    pub line: String,
}

/// Characters of a line that are kept on each side of what was found.
const CONTEXT: usize = 60;

/// Finds the sessions of a query in whose prompts and answers a text is, whatever its case; the last
/// changed first.
pub async fn search(
    store: &dyn Store,
    query: &Query,
    text: &str,
) -> Result<Vec<SearchHit>, StoreError> {
    let text = text.trim().to_lowercase();
    let mut hits = Vec::new();
    for (number, listed) in (1..).zip(store.list(query).await?) {
        // Deleted meanwhile, or unreadable: the others are still searched.
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

/// Returns a line with the text in it, cut on both sides if it is long.
fn piece(line: &str, lower: &str) -> Option<String> {
    let found = line.to_lowercase().find(lower)?;
    // Of letters whose lower case is longer or shorter, the piece is a little beside.
    let found = line.floor_char_boundary(found);
    let before = line[..found].char_indices().rev().take(CONTEXT).last().map_or(found, |it| it.0);
    let (before_is_cut, rest) = (before > 0, &line[before..]);
    let most = CONTEXT * 2 + lower.chars().count();
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
        // One letter that becomes two.
        assert!(piece("İİİİ word", "word").is_some());
    }
}
