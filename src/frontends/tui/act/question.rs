//! The user's answer to a question.

use super::super::clock::now;
use super::super::dialog::{Dialog, DialogChoice};
use super::super::ui::Ui;
use tandem_agent::commands::is_share;
use tandem_agent::session::{Answer, AnswerError, MAX_INPUT_ANSWER_CHARS};

impl Ui {
    /// Rejects the call with the typed sentence, or answers the model's question with it. If the sentence is a command
    /// that shares the session, it is sent instead, and the question stays open.
    pub(super) fn say(&mut self) {
        let why = self.state.questions.take_saying().unwrap_or_default();
        let why = why.trim();
        if is_share(why) {
            return self.send(why);
        }
        let dialog = self.state.questions.shown();
        if let Some(question) = dialog.and_then(Dialog::input_question) {
            return match question.read_answer(why) {
                Some(answer) => self.reply(answer),
                None if why.is_empty() => {}
                None => {
                    let most = MAX_INPUT_ANSWER_CHARS;
                    self.state.hint = Some(format!("an answer has at most {most} characters"));
                    self.state.questions.begin_saying(why);
                }
            };
        }
        self.answer(match why {
            "" => Answer::Reject,
            why => Answer::RejectSaying(why.to_owned()),
        });
    }

    pub(super) async fn choose(&mut self, choice: DialogChoice) -> anyhow::Result<()> {
        match choice {
            DialogChoice::Answer(answer) => self.answer(answer),
            DialogChoice::Reply(text) => self.reply(text),
            DialogChoice::Say => self.state.questions.begin_saying(""),
            DialogChoice::Edit => return self.edit_proposal().await,
        }
        Ok(())
    }

    /// Answers the question of the model, and shows the next one; the last answer is sent with those before.
    fn reply(&mut self, text: String) {
        let dialog = self.state.questions.shown_mut();
        if let Some(answer) = dialog.and_then(|dialog| dialog.reply(text, now())) {
            self.answer(answer);
        }
    }

    /// Answers the shown question; if another client has answered first, a hint says so.
    fn answer(&mut self, answer: Answer) {
        let Some(call) = self.state.questions.shown().map(|dialog| dialog.call().to_owned()) else {
            return;
        };
        self.answer_to(&call, answer);
    }

    fn answer_to(&mut self, call: &str, answer: Answer) {
        // The question closes before the reply comes, and opens again if the answer did not reach the session.
        let asked = self.state.questions.close(call, now());
        self.on_reply(self.session.answer(call, answer), |ui, answered| {
            ui.state.hint = match answered {
                Ok(Ok(())) => return,
                // This answer did arrive, but the connection was lost before the reply came, so the answer was sent
                // twice.
                Ok(Err(AnswerError::AlreadyAnswered { by, .. })) if by == ui.session.me() => return,
                Ok(Err(AnswerError::AlreadyAnswered { by, .. })) => {
                    Some(format!("{by} has answered already"))
                }
                Ok(Err(_)) => Some(
                    "the question is closed: the call does not wait for an answer any more"
                        .to_owned(),
                ),
                Err(why) => {
                    if let Some(dialog) = asked {
                        ui.state.ask_again(dialog, now());
                    }
                    Some(why)
                }
            };
        });
    }

    /// Opens the text that the call would write in the user's editor. A text that the user has changed answers the
    /// question; without a change the question stays open, since the user may have left the editor to think again.
    async fn edit_proposal(&mut self) -> anyhow::Result<()> {
        let Some(dialog) = self.state.questions.shown() else { return Ok(()) };
        let Some((path, text)) = dialog.proposal() else { return Ok(()) };
        let name = path.rsplit('/').next().unwrap_or_default();
        let suffix = name.rfind('.').map_or("", |at| &name[at..]).to_owned();
        let (call, text) = (dialog.call().to_owned(), text.to_owned());
        if let Some(edited) = self.edit_externally(&text, &suffix).await? {
            if edited == text {
                self.state.hint = Some("not changed: the question is still open".to_owned());
            } else {
                self.answer_to(&call, Answer::Once { edited: Some(edited) });
            }
        }
        Ok(())
    }
}
