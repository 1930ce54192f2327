//! The format `text`: what the model says, as it comes.

use tandem_agent::session::UpdateKind;
use tandem_content::visible::visible_prose;

#[derive(Default)]
pub(super) struct Text {
    /// `true` if a line has begun and not ended.
    in_line: bool,
}

impl Text {
    pub(super) fn update(&mut self, update: &UpdateKind<'_>) -> String {
        match update {
            UpdateKind::Text(text) | UpdateKind::Output(text) => {
                let text = visible_prose(text);
                if !text.is_empty() {
                    self.in_line = !text.ends_with('\n');
                }
                text.into_owned()
            }
            // What was printed cannot be taken back.
            UpdateKind::Retry { retry, restarts: true } => {
                format!("{}\n{}\n\n", self.end_line(), visible_prose(&retry.interruption()))
            }
            UpdateKind::AnswerFinished(_) | UpdateKind::Retry { .. } => self.end_line(),
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
