//! What people are to know besides the answer: on standard error.

use std::io::Write;

use super::Failure;
use super::plain::line;
use super::question::allowing;
use crate::session::{CallStarted, Event, Question, ToolOutcome};

/// How a call fails that was said not to be allowed.
const NOBODY: &str = "nobody_to_ask";

/// How many characters of something are shown.
const SHOWN: usize = 200;

pub(super) struct Notes<'a> {
    output: &'a mut (dyn Write + Send),
    /// Whether a person watches, who wants to know what goes on.
    progress: bool,
}

impl<'a> Notes<'a> {
    pub(super) fn new(output: &'a mut (dyn Write + Send), progress: bool) -> Self {
        Self { output, progress }
    }

    /// What goes on.
    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::Notice(notice) => self.say("tandem: ", notice),
            Event::Compressed(short) => self.say("tandem: ", &short.to_string()),
            Event::CallStarted(started) if self.progress && started.question.is_none() => {
                let tool = format!("* {}: ", line(&started.call.name, SHOWN));
                self.say(&tool, label(started));
            }
            Event::CallFinished { outcome: ToolOutcome::Failed(error), .. }
                if self.progress && error.kind != NOBODY =>
            {
                self.say("  failed: ", &error.message);
            }
            Event::Retry(retry) if self.progress => self.say("* ", &retry.to_string()),
            _ => {}
        }
    }

    /// Somebody who has joined must answer.
    pub(super) fn asked(&mut self, started: &CallStarted, question: &Question) {
        let what = format!("{} ({})", label(started), question.reason());
        self.say("tandem: waits for an answer over A2A: ", &what);
    }

    /// Nobody could be asked.
    pub(super) fn not_allowed(&mut self, started: &CallStarted, question: &Question) {
        let why = line(&question.reason(), SHOWN);
        let what = line(label(started), SHOWN);
        let without = match allowing(question) {
            Some(with) => format!(" without `{with}`"),
            None => String::new(),
        };
        self.write(&format!("tandem: not allowed{without}: {what} ({why})"));
    }

    /// The answer is not whole.
    pub(super) fn cut(&mut self) {
        self.write("tandem: the answer was cut at the model's output limit");
    }

    /// The prompt came to nothing.
    pub(super) fn failed(&mut self, failure: &Failure) {
        let why = failure.to_string();
        for (n, text) in why.lines().enumerate() {
            let begin = if n == 0 { "tandem: " } else { "  " };
            self.write(&format!("{begin}{}", line(text, usize::MAX)));
        }
    }

    fn say(&mut self, begin: &str, text: &str) {
        self.write(&format!("{begin}{}", line(text, SHOWN)));
    }

    fn write(&mut self, text: &str) {
        // If standard error is closed there is nobody to tell.
        let _ = writeln!(self.output, "{text}");
    }
}

fn label(started: &CallStarted) -> &str {
    let label = &started.summary.label;
    if label.is_empty() { &started.call.name } else { label }
}
