//! A prompt with gaps: `{{args}}`, `@{FILE}` and `!{COMMAND}`. The last two end at the brace that closes them. A text
//! that fills a gap is never searched for further gaps.

use crate::session::PromptPiece;

/// Placeholder for the text after the command's name.
const ARGS_PLACEHOLDER: &str = "{{args}}";

/// A prompt, split into its pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PromptTemplate(Vec<PromptPiece>);

impl PromptTemplate {
    /// Parses a prompt. The error says what is wrong with the prompt.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        loop {
            let next = ["@{", "!{"].into_iter().filter_map(|mark| rest.find(mark)).min();
            let Some(at) = next else { break };
            let inner = &rest[at + 2..];
            let end = closing(inner).ok_or_else(|| {
                let line = rest.as_ptr() as usize - text.as_ptr() as usize + at;
                let line = text[..line].matches('\n').count() + 1;
                format!("in line {line} of its `prompt`, `{}` is not closed", &rest[at..at + 2])
            })?;
            if at > 0 {
                pieces.push(PromptPiece::Text(rest[..at].to_owned()));
            }
            let inside = inner[..end].trim().to_owned();
            pieces.push(if rest[at..].starts_with('@') {
                PromptPiece::File(inside)
            } else {
                PromptPiece::Shell(inside)
            });
            rest = &inner[end + 1..];
        }
        if !rest.is_empty() {
            pieces.push(PromptPiece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// Returns `true` if the prompt has a place for arguments.
    pub(super) fn takes_arguments(&self) -> bool {
        let takes = |piece: &PromptPiece| match piece {
            PromptPiece::Text(text) | PromptPiece::File(text) | PromptPiece::Shell(text) => {
                text.contains(ARGS_PLACEHOLDER)
            }
        };
        self.0.iter().any(takes)
    }

    /// Returns the command lines in the prompt, as they are written.
    pub(super) fn shells(&self) -> Vec<&str> {
        let mut shells = Vec::new();
        for piece in &self.0 {
            if let PromptPiece::Shell(command) = piece {
                shells.push(command.as_str());
            }
        }
        shells
    }

    /// Returns the prompt with these arguments filled in. In a command line they are quoted, as one word of the shell.
    pub(super) fn filled(&self, args: &str) -> Vec<PromptPiece> {
        let fill = |piece: &PromptPiece| match piece {
            PromptPiece::Text(text) => PromptPiece::Text(text.replace(ARGS_PLACEHOLDER, args)),
            PromptPiece::File(path) => PromptPiece::File(path.replace(ARGS_PLACEHOLDER, args)),
            PromptPiece::Shell(command) => {
                PromptPiece::Shell(command.replace(ARGS_PLACEHOLDER, &quoted(args)))
            }
        };
        self.0.iter().map(fill).collect()
    }
}

/// Returns the offset of the brace that closes a gap, in the text after the gap's opening brace.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => open += 1,
            b'}' if open == 0 => return Some(at),
            b'}' => open -= 1,
            _ => {}
        }
    }
    None
}

/// Returns a text as one quoted word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(prompt: &str, args: &str, expected: &[PromptPiece]) {
        assert_eq!(PromptTemplate::parse(prompt).unwrap().filled(args), expected);
    }

    fn text(text: &str) -> PromptPiece {
        PromptPiece::Text(text.to_owned())
    }

    fn shell(command: &str) -> PromptPiece {
        PromptPiece::Shell(command.to_owned())
    }

    #[test]
    fn gaps_are_found_up_to_the_brace_that_closes_them() {
        check("hi", "", &[text("hi")]);
        check("a !{ls -l} b", "", &[text("a "), shell("ls -l"), text(" b")]);
        check(
            "!{awk '{print $1}' f}@{a b.md}",
            "",
            &[shell("awk '{print $1}' f"), PromptPiece::File("a b.md".to_owned())],
        );
        check("an { open } brace, a@b, wow! {x}", "", &[text("an { open } brace, a@b, wow! {x}")]);
    }

    #[test]
    fn arguments_are_one_word_of_a_command_line() {
        check("say {{args}} twice: {{args}}", "hi", &[text("say hi twice: hi")]);
        check("!{grep -r {{args}} .}", "a b", &[shell("grep -r 'a b' .")]);
        check("!{echo {{args}}}", "it's; rm -rf /", &[shell(r"echo 'it'\''s; rm -rf /'")]);
        check("!{echo {{args}}}", "", &[shell("echo ''")]);
        check("@{docs/{{args}}.md}", "x", &[PromptPiece::File("docs/x.md".to_owned())]);
    }

    #[test]
    fn what_is_put_in_is_no_gap() {
        check(
            "{{args}}",
            "!{rm -rf /} @{secret} {{args}}",
            &[text("!{rm -rf /} @{secret} {{args}}")],
        );
    }

    #[test]
    fn a_gap_that_is_not_closed_is_named_with_its_line() {
        let why = PromptTemplate::parse("one\ntwo !{a {b} c\nthree").unwrap_err();
        assert_eq!(why, "in line 2 of its `prompt`, `!{` is not closed");
        let why = PromptTemplate::parse("!{ok} @{").unwrap_err();
        assert_eq!(why, "in line 1 of its `prompt`, `@{` is not closed");
    }
}
