//! The offer to log in, which is made if there is no key or the provider refuses the key.

use super::input::TextInput;
use super::setup::{KeyProvider, Login};
use tandem_agent::session::{Millis, ModelGroup};

/// Grace period in milliseconds after the offer appears, during which keys still reach the prompt.
const OFFER_GRACE: Millis = 600;

/// Maximum number of models of this machine that the offer shows. `/model` shows all.
const MAX_FOUND_MODELS: usize = 6;

/// The offer, and the user's progress in it.
#[derive(Debug, Clone)]
pub(super) struct LoginOffer {
    /// Reason for the offer.
    pub(super) cause: OfferReason,
    /// Name of the provider whose key is wanted.
    pub(super) whose: String,
    /// Web site where the provider's keys are made.
    pub(super) made_at: String,
    /// Providers that the user can choose from; empty if only the key of `whose` is wanted.
    pub(super) providers: Vec<KeyProvider>,
    /// Id of the model that the wanted key is for, if the user has chosen the provider.
    pub(super) model: Option<String>,
    /// Models of servers that run on this machine.
    pub(super) found: Vec<FoundModel>,
    /// Time at which the offer appeared; `None` if the user asked for the offer.
    opened: Option<Millis>,
    pub(super) stage: LoginStage,
    /// Index of the marked choice.
    pub(super) selected: usize,
    /// Reason for which the last attempt failed.
    pub(super) failure: Option<String>,
    /// Step that follows once there is a key.
    pub(super) then: NextStep,
}

/// A model of a server that runs on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundModel {
    /// Id, as `/model set` takes it.
    pub(super) id: String,
    /// Name of the server's program, for people.
    pub(super) program: String,
}

/// Reason why a login is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OfferReason {
    /// There is no key.
    Missing,
    /// The provider does not accept the key.
    Refused,
    /// The user has asked for the login.
    Wanted,
}

/// Stage of the login.
#[derive(Debug, Clone)]
pub(super) enum LoginStage {
    /// The user is choosing a provider.
    Providers,
    /// The user is choosing how to give the key.
    Choosing,
    /// The user is typing the key.
    Typing(TextInput),
    /// The key is being checked.
    Checking,
    /// A page in the browser asks for the key; the page's address, once it is known.
    Browser(Option<String>),
}

/// Step that follows once there is a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NextStep {
    Nothing,
    /// A prompt is sent that has waited for the key.
    Say(String),
    /// The turn is continued that the provider's refusal ended.
    GoOn,
}

/// A choice of the offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoginChoice {
    /// A provider, by its index in the list of providers.
    Provider(usize),
    /// A model of this machine, by its index in the list of found models.
    Found(usize),
    /// A new search for models of this machine.
    Search,
    Browser,
    Paste,
    Demo,
}

/// A row of the offer: the keyboard key, the choice, and its text for people.
pub(super) type LoginRow = (char, LoginChoice, String);

const DEMO_ROW: (char, LoginChoice, &str) =
    ('d', LoginChoice::Demo, "try the demonstration first: no key, no network");

impl LoginOffer {
    /// Creates an offer for the key of the provider of `login`, or of any of several `providers`.
    pub(super) fn new(
        cause: OfferReason,
        login: &Login,
        providers: &[KeyProvider],
        opened: Option<Millis>,
        then: NextStep,
    ) -> Self {
        let any = cause != OfferReason::Refused && !providers.is_empty();
        Self {
            cause,
            whose: login.whose.clone(),
            made_at: login.made_at.clone(),
            providers: if any { providers.to_vec() } else { Vec::new() },
            model: None,
            found: Vec::new(),
            opened,
            stage: if any { LoginStage::Providers } else { LoginStage::Choosing },
            selected: 0,
            failure: None,
            then,
        }
    }

    /// Returns the rows that can be chosen now.
    pub(super) fn choices(&self) -> Vec<LoginRow> {
        let (key, demo, what) = DEMO_ROW;
        let demo = (key, demo, what.to_owned());
        if !matches!(self.stage, LoginStage::Providers) {
            let browser = "log in: a page in your browser asks for the key";
            let paste = "log in: paste the key here; it is not shown";
            return vec![
                ('b', LoginChoice::Browser, browser.to_owned()),
                ('k', LoginChoice::Paste, paste.to_owned()),
                demo,
            ];
        }
        let key = |title: &str| title.chars().next().map_or('k', |c| c.to_ascii_lowercase());
        let provider = |(at, provider): (usize, &KeyProvider)| {
            let what = format!("{}: a key from {}", provider.title, provider.made_at);
            (key(&provider.title), LoginChoice::Provider(at), what)
        };
        let mut choices: Vec<_> = self.providers.iter().enumerate().map(provider).collect();
        let found = ('1'..='9').zip(self.found.iter().take(MAX_FOUND_MODELS)).enumerate();
        choices.extend(found.map(|(at, (key, model))| {
            let what = format!("{} on this machine: no key", model.id);
            (key, LoginChoice::Found(at), what)
        }));
        if self.found.is_empty() {
            let what = "Ollama, llama.cpp, LM Studio or vLLM on this machine: no key";
            choices.push(('l', LoginChoice::Search, what.to_owned()));
        }
        choices.push(demo);
        choices
    }

    /// Returns the names of the programs that have the found models.
    pub(super) fn programs(&self) -> Vec<&str> {
        let mut programs: Vec<_> = self.found.iter().map(|model| model.program.as_str()).collect();
        programs.dedup();
        programs
    }

    /// Takes in the models of this machine. If the user has not marked another choice, the first of them is marked, and
    /// a new grace period starts, so that a key meant for the earlier choices does not take a model.
    pub(super) fn found_models(&mut self, groups: Vec<ModelGroup>, now: Millis) {
        let found = groups.into_iter().flat_map(|group| {
            let program = group.provider.title().to_owned();
            let model = move |id| FoundModel { id, program: program.clone() };
            group.models.into_iter().map(|offered| offered.id).map(model)
        });
        self.found = found.collect();
        if self.found.is_empty() {
            return;
        }
        self.failure = None;
        if self.selected == 0 && matches!(self.stage, LoginStage::Providers) {
            let choices = self.choices();
            let first = choices.iter().position(|(_, choice, _)| *choice == LoginChoice::Found(0));
            self.selected = first.unwrap_or(0);
            self.opened = Some(now);
        }
    }

    /// Chooses a provider, and goes on to the ways to give its key.
    pub(super) fn choose_provider(&mut self, at: usize) {
        let Some(chosen) = self.providers.get(at) else { return };
        (self.whose, self.made_at) = (chosen.title.clone(), chosen.made_at.clone());
        self.model = Some(chosen.model.clone());
        (self.stage, self.selected) = (LoginStage::Choosing, 0);
    }

    /// Goes one step back; returns `false` at the first step.
    pub(super) fn back(&mut self) -> bool {
        let stage = match self.stage {
            LoginStage::Providers => return false,
            LoginStage::Choosing if self.providers.is_empty() => return false,
            LoginStage::Choosing => LoginStage::Providers,
            _ => LoginStage::Choosing,
        };
        if matches!(stage, LoginStage::Providers) {
            self.model = None;
            self.selected = 0;
        }
        self.stage = stage;
        true
    }

    /// Returns whether the grace period is over, so that keys go to the offer.
    pub(super) fn ready(&self, now: Millis) -> bool {
        self.opened.is_none_or(|opened| now - opened >= OFFER_GRACE)
    }

    /// Restarts the grace period of an offer that appeared without a request of the user.
    pub(super) fn shown_at(&mut self, now: Millis) {
        self.opened = self.opened.map(|_| now);
    }

    /// Returns whether the offer waits for a check or for the browser, which may take long.
    pub(super) fn busy(&self) -> bool {
        matches!(self.stage, LoginStage::Checking | LoginStage::Browser(_))
    }

    /// Returns `true` if the choices have changed so recently that a key may have been meant for the earlier
    /// choices.
    pub(super) fn has_just_changed(&self, now: Millis) -> bool {
        !self.found.is_empty() && !self.ready(now)
    }

    /// Returns the keys of all choices.
    pub(super) fn keys(&self) -> String {
        self.choices().iter().map(|(key, ..)| *key).collect()
    }

    /// Returns the line with the key, while the user types it.
    pub(super) fn typed(&self) -> Option<&TextInput> {
        match &self.stage {
            LoginStage::Typing(input) => Some(input),
            _ => None,
        }
    }

    /// Returns the line with the key for a change, while the user types it.
    pub(super) fn typing(&mut self) -> Option<&mut TextInput> {
        match &mut self.stage {
            LoginStage::Typing(input) => Some(input),
            _ => None,
        }
    }

    /// Marks the next choice, or the previous choice.
    pub(super) fn select(&mut self, down: bool) {
        let count = self.choices().len();
        self.selected = (self.selected + if down { 1 } else { count - 1 }) % count;
    }

    /// Returns the choice that a keyboard key selects.
    pub(super) fn chosen(&self, key: char) -> Option<LoginChoice> {
        let mut choices = self.choices().into_iter();
        choices.find(|(known, ..)| *known == key).map(|(_, choice, _)| choice)
    }

    /// Returns the marked choice.
    pub(super) fn marked(&self) -> Option<LoginChoice> {
        self.choices().get(self.selected).map(|(_, choice, _)| *choice)
    }
}
