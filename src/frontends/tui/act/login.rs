//! Login, or the choice of the demonstration in its place.

use futures::FutureExt as _;

use super::super::clock::now;
use super::super::input::TextInput;
use super::super::item::{HistoryItem, ItemBody, Tone};
use super::super::login_attempt::{LoginAttempt, LoginStep};
use super::super::login_service::DEMO_MODEL;
use super::super::offer::{LoginChoice, LoginOffer, LoginStage, NextStep, OfferReason};
use super::super::setup::Login;
use super::super::ui::Ui;
use tandem_agent::session::{Millis, ModelError, ModelGroup, PromptPart, ServerScope};

/// Command that changes the model.
pub(super) const SET_MODEL: &str = "/model set";

/// Command that continues the last turn without a new prompt.
pub(super) const GO_ON: &str = "/continue";

impl Ui {
    /// Returns whether a prompt needs a model for which there is no key.
    pub(in super::super) fn no_key(&self, prompt: &[PromptPart]) -> bool {
        let Some(session) = self.session.session().filter(|_| self.login.is_possible()) else {
            return false;
        };
        // The last check may read files to recognise a command, so it runs only if there is no key.
        matches!(session.ready(), Err(ModelError::NotAuthenticated(_)))
            && !matches!(prompt, [PromptPart::Shell(_)])
            && session.needs_model(prompt)
    }

    /// Offers to log in; sets a hint if the user cannot log in from here.
    pub(in super::super) fn offer_login(
        &mut self,
        cause: OfferReason,
        opened: Option<Millis>,
        then: NextStep,
    ) {
        let offer = self
            .login_options()
            .map(|login| LoginOffer::new(cause, &login, &self.login.providers(), opened, then));
        if offer.is_none() {
            let hint = "this session gets its key where it runs: log in there";
            self.state.hint = Some(hint.to_owned());
        }
        self.state.offer = offer;
        self.login.look_for_models = true;
    }

    /// Asks servers on this machine for their models if the user is choosing a provider. The loop calls this after a
    /// drawing, so that the choices are on the screen first.
    pub(in super::super) fn find_models_here(&mut self) {
        let is_wanted = std::mem::take(&mut self.login.look_for_models) && self.is_choosing();
        let Some(session) = self.session.session().filter(|_| is_wanted).cloned() else { return };
        let served = async move { session.served_models(ServerScope::ThisMachine).await };
        let served = tokio::spawn(served).map(|groups| Ok(groups.unwrap_or_default()));
        self.on_reply(served.boxed(), |ui, groups: Result<Vec<ModelGroup>, String>| {
            if let Some(offer) = &mut ui.state.offer {
                offer.found_models(groups.unwrap_or_default(), now());
            }
        });
    }

    /// Returns whether the user is choosing a provider.
    fn is_choosing(&self) -> bool {
        self.state.offer.as_ref().is_some_and(|offer| matches!(offer.stage, LoginStage::Providers))
    }

    /// Returns the ways to log in for the chosen provider's model, else for the current model.
    fn login_options(&self) -> Option<Login> {
        let chosen = self.state.offer.as_ref().and_then(|offer| offer.model.as_deref());
        self.login.options(chosen, &self.session.model())
    }

    pub(super) fn choose_login(&mut self, choice: LoginChoice) {
        let Some(offer) = &mut self.state.offer else { return };
        offer.failure = None;
        match choice {
            LoginChoice::Provider(at) => offer.choose_provider(at),
            LoginChoice::Found(at) => {
                if let Some(model) = offer.found.get(at).map(|model| model.id.clone()) {
                    self.take_found(&model);
                }
            }
            LoginChoice::Search => {
                let why = "No server on this machine answers with a model. Start one, such as `ollama serve` or \
                    `llama-server --jinja -m FILE`, and choose this again.";
                offer.failure = Some(why.to_owned());
                self.login.look_for_models = true;
            }
            LoginChoice::Paste => offer.stage = LoginStage::Typing(TextInput::default()),
            LoginChoice::Browser => {
                offer.stage = LoginStage::Browser(None);
                self.enter_key(None);
            }
            LoginChoice::Demo => self.take_demo(),
        }
    }

    /// Checks the typed key.
    pub(super) fn check_key(&mut self) {
        let Some(offer) = &mut self.state.offer else { return };
        let Some(typed) = offer.typing().map(std::mem::take) else { return };
        if typed.is_empty() {
            return;
        }
        (offer.stage, offer.failure) = (LoginStage::Checking, None);
        self.enter_key(Some(typed.into_text()));
    }

    /// Starts a login: checks the key `typed`, or asks for a key in the browser.
    fn enter_key(&mut self, typed: Option<String>) {
        let Some(login) = self.login_options() else { return };
        self.login.attempt = Some(LoginAttempt::start(&login, typed));
    }

    pub(in super::super) fn entered(&mut self, step: LoginStep) {
        match (step, &mut self.state.offer) {
            (LoginStep::Opened(url), Some(offer)) => offer.stage = LoginStage::Browser(Some(url)),
            (LoginStep::Opened(_), None) => {}
            (LoginStep::Done(Ok(told)), _) => {
                self.login.attempt = None;
                self.logged_in(told);
            }
            (LoginStep::Done(Err(why)), offer) => {
                self.login.attempt = None;
                if let Some(offer) = offer {
                    let typed = matches!(offer.stage, LoginStage::Checking);
                    let again = LoginStage::Typing(TextInput::default());
                    offer.stage = if typed { again } else { LoginStage::Choosing };
                    offer.failure = Some(why);
                }
            }
        }
    }

    /// Changes to a model of this machine, also for new sessions, and continues what waited for a key.
    fn take_found(&mut self, model: &str) {
        self.login.before_demo = None;
        if let Some(stored) = self.login.make_default(model) {
            self.on_reply(stored, |ui, stored| {
                let (tone, text) = match stored {
                    Ok(note) => (Tone::Aside, note),
                    Err(why) => (Tone::Error, why),
                };
                ui.state.transcript.aside(HistoryItem::new(ItemBody::Note(tone, text)));
            });
        }
        self.send(&format!("{SET_MODEL} {model}"));
        let then = self.state.offer.take().map_or(NextStep::Nothing, |offer| offer.then);
        self.go_on(then);
    }

    /// Shows the note on the new key, changes to the model that the key is for, and continues what waited for the key.
    fn logged_in(&mut self, told: String) {
        self.state.transcript.aside(HistoryItem::new(ItemBody::Note(Tone::Aside, told)));
        let offer = self.state.offer.take();
        let chosen = offer.as_ref().and_then(|offer| offer.model.clone());
        let current = self.session.model();
        let before = self.login.leave_demo(&current);
        if let Some(model) = chosen.or(before).filter(|model| *model != current) {
            self.send(&format!("{SET_MODEL} {model}"));
        }
        self.go_on(offer.map_or(NextStep::Nothing, |offer| offer.then));
    }

    /// Sends the prompt, or continues the turn, that waited for a key.
    fn go_on(&mut self, then: NextStep) {
        match then {
            NextStep::Nothing => {}
            NextStep::Say(typed) => self.send(&typed),
            NextStep::GoOn => self.send(GO_ON),
        }
    }

    /// Changes to the demonstration.
    fn take_demo(&mut self) {
        let then = self.state.offer.take().map_or(NextStep::Nothing, |offer| offer.then);
        self.login.enter_demo(self.session.model());
        self.send(&format!("{SET_MODEL} {DEMO_MODEL}"));
        match then {
            NextStep::Say(typed) => self.send(&typed),
            NextStep::Nothing | NextStep::GoOn => {
                let hint = "say anything: the demonstration plays its script".to_owned();
                self.state.hint = Some(hint);
            }
        }
    }

    /// Goes one step back in the login; closes the offer at the first step, and puts a waiting prompt back into the
    /// line.
    pub(super) fn leave_login(&mut self) {
        self.login.attempt = None;
        let Some(offer) = &mut self.state.offer else { return };
        offer.failure = None;
        if offer.back() {
            return;
        }
        let then = self.state.offer.take().map(|offer| offer.then);
        if let Some(NextStep::Say(typed)) = then
            && self.state.input.is_empty()
        {
            self.state.input.set(&typed);
        }
        self.state.hint = Some("/auth shows the login again".to_owned());
    }
}
