//! Choice of the model that answers, and of its level of thinking.

use futures::FutureExt as _;

use super::super::model_menu::{CurrentModel, ModelMenu, ModelMenuChoice};
use super::super::ui::Ui;
use super::login::SET_MODEL;

/// Command that changes the level of thinking.
const SET_THINKING: &str = "/thinking";

impl Ui {
    /// Offers the models that can answer. Their servers are asked meanwhile.
    pub(super) fn offer_models(&mut self) {
        let Some(session) = self.session.session().cloned() else { return };
        self.state.models = self.current_model().map(ModelMenu::of_models);
        let offered = async move { Ok(session.offered_models().await) };
        self.on_reply(offered.boxed(), |ui, groups| {
            if let Some(menu) = &mut ui.state.models {
                menu.read(groups.unwrap_or_default());
            }
        });
    }

    /// Offers the levels of thinking of the model that answers. If it offers none, the session gets the typed command,
    /// and says so.
    pub(super) fn offer_levels(&mut self, typed: &str) {
        self.state.models = self.current_model().and_then(ModelMenu::of_levels);
        if self.state.models.is_none() {
            self.send(typed);
        }
    }

    fn current_model(&self) -> Option<CurrentModel> {
        let session = self.session.session()?;
        Some(CurrentModel {
            id: session.model(),
            thinking: session.thinking_levels(),
            level: session.thinking(),
        })
    }

    /// Takes the marked row of the menu.
    pub(super) fn choose_model(&mut self) {
        let chosen = self.state.models.as_mut().and_then(ModelMenu::enter);
        let Some(ModelMenuChoice { model, level }) = chosen else { return };
        self.state.models = None;
        if let Some(model) = model {
            self.send(&format!("{SET_MODEL} {model}"));
        }
        if let Some(level) = level {
            self.send(&format!("{SET_THINKING} {level}"));
        }
    }

    /// Goes back from the levels to the models, or closes the menu.
    pub(super) fn leave_models(&mut self) {
        self.state.models.take_if(|menu| !menu.back());
    }
}
