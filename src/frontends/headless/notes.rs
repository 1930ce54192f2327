//! Notes for people, on standard error, beside the answer on standard output.

use std::io::Write;

use super::failure::RunFailure;
use super::question::allowing;
use super::refusals::NOBODY_TO_ASK;
use tandem_agent::session::{
    CallStarted, CallStep, Question, QuestionSubject, ToolOutcome, UpdateKind, explain_resumed,
    explain_retry,
};
use tandem_content::shorten::ellipsis;
use tandem_content::visible::{visible, visible_line};

/// Maximum length of a title or a message in a note, in characters.
const MAX_NOTE_CHARS: usize = 200;

pub(super) struct Notes<'a> {
    output: &'a mut (dyn Write + Send),
    /// `true` if the notes also report calls and retries, for a person who watches.
    progress: bool,
}

impl<'a> Notes<'a> {
    pub(super) fn new(output: &'a mut (dyn Write + Send), progress: bool) -> Self {
        Self { output, progress }
    }

    /// Writes the note for an update, if it has one.
    pub(super) fn update(&mut self, update: &UpdateKind<'_>) {
        match update {
            UpdateKind::CommandReplied(text) => self.say("tandem: ", text),
            UpdateKind::Note { text, .. } => self.say("tandem: ", text),
            UpdateKind::Call(started, CallStep::Started)
                if self.progress && started.question.is_none() =>
            {
                self.write(&format!("* {}", title(started)));
            }
            UpdateKind::Call(_, CallStep::Finished(ToolOutcome::Failed(error)))
                if self.progress && error.kind != NOBODY_TO_ASK =>
            {
                self.say("  failed: ", &error.message);
            }
            UpdateKind::Retry { retry, restarts } if self.progress => {
                self.say("* ", &explain_retry(retry, *restarts));
            }
            UpdateKind::TurnResumed { restarts } => {
                self.say("tandem: ", &explain_resumed(*restarts));
            }
            _ => {}
        }
    }

    /// Writes a question that another client of the session must answer.
    pub(super) fn write_question(&mut self, started: &CallStarted, question: &Question) {
        let why = line(&question.reason());
        let what = title(started);
        self.write(&format!("tandem: waits for an answer over A2A: {what} ({why})"));
        for option in started.input_questions().iter().flat_map(|asked| &asked.options) {
            self.write(&format!("  {}", line(&option.label)));
        }
        for choice in question.choices() {
            self.write(&format!("  {}", line(&choice.label)));
        }
    }

    /// Writes that a call was refused because no person can be asked, and what would have allowed the call.
    pub(super) fn not_allowed(&mut self, started: &CallStarted, question: &Question) {
        let why = line(&question.reason());
        let what = title(started);
        if question.subject == QuestionSubject::UserInput {
            return self.write(&format!("tandem: not answered, as nobody can be asked: {what}"));
        }
        let without = match allowing(question) {
            Some(with) => format!(" without {with}"),
            None => String::new(),
        };
        self.write(&format!("tandem: not allowed{without}: {what} ({why})"));
    }

    /// Writes the reason for which the prompt failed.
    pub(super) fn failed(&mut self, failure: &RunFailure) {
        for (n, text) in failure.to_string().lines().enumerate() {
            let begin = if n == 0 { "tandem: " } else { "  " };
            self.write(&format!("{begin}{}", visible(text.trim())));
        }
    }

    fn say(&mut self, begin: &str, text: &str) {
        self.write(&format!("{begin}{}", line(text)));
    }

    fn write(&mut self, text: &str) {
        // An error is ignored: if standard error is closed, no person reads the notes.
        let _ = writeln!(self.output, "{text}");
    }
}

/// Returns a call's title as one line, or the tool's name if the call has no title.
fn title(started: &CallStarted) -> String {
    let title = &started.summary.label;
    let title = visible_line(if title.is_empty() { &started.call.name } else { title });
    ellipsis(&title, MAX_NOTE_CHARS).into_owned()
}

/// Returns a text of several lines as one line, shortened to [`MAX_NOTE_CHARS`] characters.
fn line(text: &str) -> String {
    let line = text.trim().replace("\r\n", " ").replace(['\n', '\t'], " ");
    ellipsis(&visible(&line), MAX_NOTE_CHARS).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{MAX_NOTE_CHARS, line};

    #[test]
    fn a_note_is_one_line_and_gives_no_orders() {
        assert_eq!(line(" a\r\nb\tc\u{7}\u{9b}\u{202e} "), "a b c␇<U+009B><U+202E>");
        assert_eq!(
            line(&"ä".repeat(MAX_NOTE_CHARS + 1)),
            format!("{}…", "ä".repeat(MAX_NOTE_CHARS))
        );
    }
}
