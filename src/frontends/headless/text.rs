//! The format `text`: what the model says, as it comes.

use super::plain::plain;
use crate::session::Event;

#[derive(Default)]
pub(super) struct Text {
    /// Whether a line has begun and not ended.
    in_line: bool,
}

impl Text {
    pub(super) fn event(&mut self, event: &Event) -> String {
        match event {
            Event::Text(text) | Event::Output(text) => {
                let text = plain(text);
                if let Some(last) = text.chars().last() {
                    self.in_line = last != '\n';
                }
                text
            }
            // What follows is another answer, or the same from its beginning.
            Event::AnswerFinished { .. } | Event::Retry(_) => self.end_line(),
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
