//! Goes back to before an earlier prompt, and puts that prompt into the line so that the user can change it.

use super::super::rewind::{RewindChoice, RewindMenu};
use super::super::ui::Ui;

impl Ui {
    /// Handles Esc where it closes and cancels nothing: the second Esc in a row offers the earlier prompts.
    pub(super) fn escape_idle(&mut self) {
        if !self.state.input.is_empty() || self.state.is_lost() {
            return;
        }
        if self.recent_keys.take_escape() {
            self.offer_rewind();
        } else if !self.state.earlier.is_empty() {
            self.recent_keys.note_escape();
            self.state.hint = Some("press Esc again to go back to an earlier prompt".to_owned());
        }
    }

    /// Offers the earlier prompts.
    pub(super) fn offer_rewind(&mut self) {
        self.state.rewind = RewindMenu::new(self.state.earlier.list());
        if self.state.rewind.is_none() {
            self.state.hint = Some("there is no prompt to go back to".to_owned());
        }
    }

    /// Takes the marked row of the menu: a prompt, or how to go back to it.
    pub(super) fn choose_rewind(&mut self) {
        let Some(menu) = &mut self.state.rewind else { return };
        let Some(choice) = menu.enter() else { return };
        let marked = menu.marked().cloned();
        self.state.rewind = None;
        let command = match choice {
            RewindChoice::WithFiles => "/rewind",
            RewindChoice::Conversation => "/rewind conversation",
            RewindChoice::Nothing => return,
        };
        if let Some(prompt) = marked {
            self.send(&format!("{command} {}", prompt.turn.0));
            self.state.rewinding = Some((prompt.turn, prompt.text));
        }
    }

    /// Goes from the choice of files back to the list of prompts, or closes the menu.
    pub(super) fn leave_rewind(&mut self) {
        let Some(menu) = &mut self.state.rewind else { return };
        if menu.choice.take().is_none() {
            self.state.rewind = None;
        }
    }
}
