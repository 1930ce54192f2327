//! What the user typed as a prompt: text, files that it mentions, or a command line.

use crate::session::PromptPart;

/// The parts of a prompt; none if nothing was said.
pub(super) fn parts(typed: &str) -> Vec<PromptPart> {
    let typed = typed.trim();
    if let Some(command) = typed.strip_prefix('!') {
        let command = command.trim();
        return if command.is_empty() {
            Vec::new()
        } else {
            vec![PromptPart::Shell(command.to_owned())]
        };
    }
    // What follows a command's name is the command's.
    if typed.starts_with('/') {
        return vec![PromptPart::Text(typed.to_owned())];
    }
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut before = ' ';
    let mut rest = typed;
    while let Some(c) = rest.chars().next() {
        if c == '@' && before.is_whitespace() {
            let (path, length) = path(&rest[1..]);
            if !path.is_empty() {
                if !text.is_empty() {
                    parts.push(PromptPart::Text(std::mem::take(&mut text)));
                }
                parts.push(PromptPart::Path(path));
                (rest, before) = (&rest[1 + length..], 'x');
                continue;
            }
        }
        text.push(c);
        (rest, before) = (&rest[c.len_utf8()..], c);
    }
    if !text.is_empty() {
        parts.push(PromptPart::Text(text));
    }
    parts
}

/// The path at the beginning, and how many bytes it was written with. A backslash keeps the space
/// after it; punctuation at the end is the sentence's.
fn path(text: &str) -> (String, usize) {
    let (mut path, mut length) = (String::new(), 0);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let kept = if c == '\\' { chars.next() } else { Some(c).filter(|c| !c.is_whitespace()) };
        let Some(kept) = kept else { break };
        path.push(kept);
        length = text.len() - chars.as_str().len();
    }
    let trimmed = path.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '"', '\'']);
    let over = path.len() - trimmed.len();
    path.truncate(path.len() - over);
    (path, length - over)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, expected: &[PromptPart]) {
        assert_eq!(parts(typed), expected);
    }

    fn text(text: &str) -> PromptPart {
        PromptPart::Text(text.to_owned())
    }

    fn file(path: &str) -> PromptPart {
        PromptPart::Path(path.to_owned())
    }

    #[test]
    fn files_are_told_from_text() {
        check(
            "see @src/main.rs, and @b",
            &[text("see "), file("src/main.rs"), text(", and "), file("b")],
        );
        check("@my\\ file.txt?", &[file("my file.txt"), text("?")]);
        check("me@there.org @ x", &[text("me@there.org @ x")]);
        check("(@a) [@b]", &[text("(@a) [@b]")]);
    }

    #[test]
    fn commands_and_command_lines_stay_whole() {
        check(" /memory add @x ", &[text("/memory add @x")]);
        check("!ls @x", &[PromptPart::Shell("ls @x".to_owned())]);
        check("! ", &[]);
        check("  ", &[]);
    }
}
