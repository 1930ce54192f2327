//! The format `text`: what the model says, as it comes.

use crate::session::Event;
use crate::visible::visible_prose;

#[derive(Default)]
pub(super) struct Text {
    /// Whether a line has begun and not ended.
    in_line: bool,
    /// `true` if something has been printed of an answer that goes on.
    in_answer: bool,
}

impl Text {
    pub(super) fn event(&mut self, event: &Event) -> String {
        match event {
            Event::Text(text) | Event::Output(text) => {
                let text = visible_prose(text);
                if !text.is_empty() {
                    self.in_line = !text.ends_with('\n');
                }
                self.in_answer |= matches!(event, Event::Text(_));
                text.into_owned()
            }
            // What was printed cannot be taken back.
            Event::Retry(retry) if retry.discard && self.in_answer => {
                self.in_answer = false;
                format!("{}\n{}\n\n", self.end_line(), visible_prose(&retry.interruption()))
            }
            Event::AnswerFinished { .. } | Event::Retry(_) => {
                self.in_answer = false;
                self.end_line()
            }
            _ => String::new(),
        }
    }

    pub(super) fn end(mut self) -> String {
        self.end_line()
    }

    fn end_line(&mut self) -> String {
        let end = if self.in_line { "\n" } else { "" };
        self.in_line = false;
        end.to_owned()
    }
}
