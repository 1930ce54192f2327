//! Estimates of tokens.

use super::{Message, Part, Prompt, ToolDeclaration, ToolResult};
use tandem_content::media::Media;

const IMAGE_TOKENS: u64 = 3000;
/// Tokens of a PDF of a hundred pages; a few minutes of audio or video take about as many.
const DOCUMENT_TOKENS: u64 = 25_800;

/// Estimates the tokens of a prompt.
pub fn of_prompt(prompt: &Prompt) -> u64 {
    let tools = prompt.tools.iter().map(of_tool);
    let messages = prompt.messages.iter().map(|message| of_message(message));
    of_text(&prompt.system) + tools.sum::<u64>() + messages.sum::<u64>()
}

/// Estimates the tokens of a tool's declaration.
pub fn of_tool(tool: &ToolDeclaration) -> u64 {
    of_text(&tool.name) + of_text(&tool.description) + of_text(&tool.parameters.to_string())
}

/// Returns `true` if a prompt has images or documents, whose tokens cannot be estimated well.
pub(crate) fn has_media(prompt: &Prompt) -> bool {
    prompt.messages.iter().any(|message| match &**message {
        Message::User(parts) => parts.iter().any(|part| matches!(part, Part::Media(_))),
        Message::Assistant(_) => false,
        Message::Results(results) => results.iter().any(|result| !result.media.is_empty()),
    })
}

/// Estimates the tokens of a message.
pub fn of_message(message: &Message) -> u64 {
    match message {
        Message::User(parts) => parts.iter().map(of_part).sum(),
        Message::Assistant(answer) => {
            let calls = answer.calls.iter();
            let calls = calls.map(|call| of_text(&call.name) + of_text(&call.args.to_string()));
            of_text(&answer.text) + calls.sum::<u64>()
        }
        Message::Results(results) => results.iter().map(of_result).sum(),
    }
}

/// Estimates the tokens of a call's result.
pub fn of_result(result: &ToolResult) -> u64 {
    let media = result.media.iter().map(of_media).sum::<u64>();
    of_text(&result.name) + of_text(&result.text) + media
}

/// Estimates the tokens of a text: a quarter of a token for an ASCII character, one and a half for any other.
pub fn of_text(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    // Each character that is not ASCII has exactly one byte of at least 0xC0, its first.
    let others = text.bytes().filter(|byte| *byte >= 0xC0).count() as u64;
    (ascii + others * 6).div_ceil(4)
}

/// Converts tokens to ASCII characters.
pub fn in_chars(tokens: u64) -> u64 {
    tokens.saturating_mul(4)
}

fn of_part(part: &Part) -> u64 {
    match part {
        Part::Text(text) => of_text(text),
        Part::Media(media) => of_media(media),
    }
}

fn of_media(media: &Media) -> u64 {
    if media.mime_type.starts_with("image/") { IMAGE_TOKENS } else { DOCUMENT_TOKENS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: u64) {
        assert_eq!(of_text(text), expected, "{text:?}");
    }

    #[test]
    fn a_quarter_for_ascii_and_one_and_a_half_for_the_rest() {
        check("", 0);
        check("abcd", 1);
        check("abcde", 2);
        check("日本", 3);
        check("é🦀", 3);
        check("aaaa日本", 4);
    }

    #[test]
    fn media_count_by_their_kind() {
        let media = |mime_type| Part::Media(Media::new(mime_type, b"x"));
        let parts =
            vec![Part::Text("abcd".to_owned()), media("image/png"), media("application/pdf")];
        assert_eq!(of_message(&Message::User(parts)), 1 + IMAGE_TOKENS + DOCUMENT_TOKENS);
    }
}
