//! Conversion of typed text into a prompt: a text, or a command line after `!`.

use tandem_agent::session::PromptPart;

/// Returns the parts of a prompt; an empty list if the text is blank.
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
    if typed.is_empty() { Vec::new() } else { vec![PromptPart::Text(typed.to_owned())] }
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

    #[test]
    fn a_command_line_is_told_from_text() {
        check(" see @x ", &[text("see @x")]);
        check("!ls @x", &[PromptPart::Shell("ls @x".to_owned())]);
        check("! ", &[]);
        check("  ", &[]);
    }
}
