//! Ways to log in from this terminal, and the login that is in progress.

use super::login_attempt::LoginAttempt;
use super::news::Reply;
use super::setup::{KeyProvider, KeyProviders, LogIn, Login, MakeDefault};

/// Id of the demonstration's model.
pub(super) const DEMO_MODEL: &str = "replay";

/// Ways to log in from this terminal, and the login that is in progress.
pub(super) struct LoginService {
    login: Option<LogIn>,
    providers: Option<KeyProviders>,
    make_default: Option<MakeDefault>,
    /// `true` if servers on this machine must be asked for their models after the next drawing.
    pub(super) look_for_models: bool,
    /// Login that is in progress.
    pub(super) attempt: Option<LoginAttempt>,
    /// Id of the model that was used before the user chose the demonstration.
    pub(super) before_demo: Option<String>,
}

impl LoginService {
    pub(super) fn new(
        login: Option<LogIn>,
        providers: Option<KeyProviders>,
        make_default: Option<MakeDefault>,
    ) -> Self {
        let (look_for_models, attempt, before_demo) = (false, None, None);
        Self { login, providers, make_default, look_for_models, attempt, before_demo }
    }

    /// Returns whether the user can log in from here.
    pub(super) fn is_possible(&self) -> bool {
        self.login.is_some()
    }

    /// Returns the ways to log in for a chosen provider's model, else for the current model. While the demonstration is
    /// the current model, the model before it counts.
    pub(super) fn options(&self, chosen: Option<&str>, current: &str) -> Option<Login> {
        let before = self.before_demo.as_deref().filter(|_| current == DEMO_MODEL);
        let model = chosen.or(before).unwrap_or(current);
        self.login.as_ref().map(|login| login(model))
    }

    /// Returns the providers whose keys the user may give.
    pub(super) fn providers(&self) -> Vec<KeyProvider> {
        self.providers.as_ref().map(|providers| providers()).unwrap_or_default()
    }

    /// Makes a model the one that new sessions begin with; `None` if the choice is not stored.
    pub(super) fn make_default(&self, model: &str) -> Option<Reply<String>> {
        self.make_default.as_ref().map(|make_default| make_default(model.to_owned()))
    }

    /// Notes that the demonstration takes the place of the current model, unless the demonstration is the current model
    /// already.
    pub(super) fn enter_demo(&mut self, current: String) {
        if current != DEMO_MODEL {
            self.before_demo = Some(current);
        }
    }

    /// Notes that the demonstration ends. Returns the model to go back to, if the demonstration is the current model.
    pub(super) fn leave_demo(&mut self, current: &str) -> Option<String> {
        self.before_demo.take().filter(|_| current == DEMO_MODEL)
    }
}
