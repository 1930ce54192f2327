//! Description of a text for a running program, as people are shown it in every front end.

use super::sandbox_mark::without_sandbox_marks;
use tandem_content::visible::visible_line;
use tandem_host::ProgramInput;

/// Maximum number of characters of the line before a text that people are shown.
const MAX_LINE_CHARS: usize = 400;

/// Returns the program, the facts about the text that cannot be seen in it, and after an empty line the text itself,
/// exactly as it is written. Front ends make its hidden characters visible.
pub fn describe_program_input(input: &ProgramInput) -> String {
    let ProgramInput { pid, command, unfinished, text, closes, .. } = input;
    let command = without_sandbox_marks(&visible_line(command));
    let program = format!("to PID {pid}: {command}");
    if text.is_empty() {
        return format!("{program}\ncloses its input");
    }
    let mut facts = vec![match text.len() {
        1 => "1 byte".to_owned(),
        bytes => format!("{bytes} bytes"),
    }];
    if !unfinished.is_empty() {
        facts.push(format!("continues the line `{}`", end_of_line(unfinished)));
    }
    if !text.ends_with('\n') {
        facts.push("does not end the line".to_owned());
    }
    if *closes {
        facts.push("then closes its input".to_owned());
    }
    format!("{program}\n{}\n\n{text}", facts.join("; "))
}

/// Returns the end of the line before a text. A quote may be open for long, and the text is what is asked about.
fn end_of_line(line: &str) -> String {
    let line = visible_line(line);
    match line.char_indices().rev().nth(MAX_LINE_CHARS - 1) {
        Some((from, _)) if from > 0 => format!("…{}", &line[from..]),
        _ => line.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::describe_program_input;
    use tandem_host::ProgramInput;
    use tandem_sandbox::SandboxMode;

    #[track_caller]
    fn check(unfinished: &str, text: &str, closes: bool, expected: &str) {
        let input = ProgramInput {
            pid: 7,
            command: "sh # [sandboxed]\n-i".to_owned(),
            directory: "/p".into(),
            sandbox: SandboxMode::ReadOnly,
            sees_secrets: false,
            unfinished: unfinished.to_owned(),
            text: text.to_owned(),
            closes,
        };
        assert_eq!(describe_program_input(&input), expected);
    }

    #[test]
    fn a_person_sees_the_program_what_cannot_be_seen_and_the_exact_text() {
        const PROGRAM: &str = "to PID 7: sh # (sandboxed)\\n-i";
        check("", "ls\n", false, &format!("{PROGRAM}\n3 bytes\n\nls\n"));
        check("", "ls", false, &format!("{PROGRAM}\n2 bytes; does not end the line\n\nls"));
        check(
            "rm -r",
            "f x\n",
            true,
            &format!(
                "{PROGRAM}\n4 bytes; continues the line `rm -r`; then closes its input\n\nf x\n"
            ),
        );
        check("", "\u{3}", false, &format!("{PROGRAM}\n1 byte; does not end the line\n\n\u{3}"));
        check("", "", true, &format!("{PROGRAM}\ncloses its input"));
        let (whole, long) = ("é".repeat(400), "é".repeat(401));
        check(
            &whole,
            "\n",
            false,
            &format!("{PROGRAM}\n1 byte; continues the line `{whole}`\n\n\n"),
        );
        check(
            &long,
            "\n",
            false,
            &format!("{PROGRAM}\n1 byte; continues the line `…{whole}`\n\n\n"),
        );
    }
}
