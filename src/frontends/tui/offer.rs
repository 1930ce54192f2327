//! The offer to log in: there is no key, or it is not accepted.

use super::input::TextInput;
use super::setup::{KeyProvider, Login};
use tandem_agent::session::Millis;

/// For so long after it has come up, keys still go where they went before.
const GRACE: Millis = 600;

/// The offer, and how far the user has got with it.
#[derive(Debug, Clone)]
pub(super) struct LoginOffer {
    /// Reason for which it is made.
    pub(super) cause: Cause,
    /// Provider whose key is wanted, and address where such keys are made.
    pub(super) whose: &'static str,
    pub(super) made_at: &'static str,
    /// Providers whose keys the user may give instead.
    pub(super) providers: Vec<KeyProvider>,
    /// The id of the model that the wanted key is for, if the user has chosen its provider.
    pub(super) model: Option<String>,
    /// The models of the Ollama that runs on this machine.
    pub(super) ollama: Vec<String>,
    /// Time at which it came up; none if the user asked for it.
    opened: Option<Millis>,
    pub(super) stage: LoginStage,
    /// Index of the marked choice.
    pub(super) selected: usize,
    /// Reason for which the last attempt failed.
    pub(super) failure: Option<String>,
    pub(super) then: Then,
}

/// Reason for which a login is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// There is no key.
    Missing,
    /// The key is not accepted.
    Refused,
    /// The user wants it.
    Wanted,
}

/// Stage of the login.
#[derive(Debug, Clone)]
pub(super) enum LoginStage {
    /// The provider is being chosen.
    Providers,
    /// The user is choosing how to give the key.
    Choosing,
    /// The key is being typed.
    Typing(TextInput),
    /// The key is being checked.
    Checking,
    /// A page in the browser asks for it; its address, once it is known.
    Browser(Option<String>),
}

/// Continuation once there is a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Then {
    Nothing,
    /// This is said, which has waited for it.
    Say(String),
    /// The turn that the refusal ended goes on.
    GoOn,
}

/// A choice of the offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoginChoice {
    /// A provider, by its place among those that there are.
    Provider(usize),
    Ollama,
    Browser,
    Paste,
    Demo,
}

/// A choice: a key, and what that is, for people.
pub(super) type LoginRow = (char, LoginChoice, String);

const DEMO: (char, LoginChoice, &str) =
    ('d', LoginChoice::Demo, "try the demonstration first: no key, no network");

impl LoginOffer {
    /// Made for a provider's key, or for any of several.
    pub(super) fn new(
        cause: Cause,
        login: &Login,
        providers: &[KeyProvider],
        opened: Option<Millis>,
        then: Then,
    ) -> Self {
        let any = cause != Cause::Refused && !providers.is_empty();
        Self {
            cause,
            whose: login.whose,
            made_at: login.made_at,
            providers: if any { providers.to_vec() } else { Vec::new() },
            model: None,
            ollama: Vec::new(),
            opened,
            stage: if any { LoginStage::Providers } else { LoginStage::Choosing },
            selected: 0,
            failure: None,
            then,
        }
    }

    /// Returns the rows that can be chosen now.
    pub(super) fn choices(&self) -> Vec<LoginRow> {
        let (key, demo, what) = DEMO;
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
            (key(provider.title), LoginChoice::Provider(at), what)
        };
        let mut choices: Vec<_> = self.providers.iter().enumerate().map(provider).collect();
        let ollama = match self.ollama.first() {
            Some(model) => format!("Ollama, which runs on this machine: {model}"),
            None => "Ollama, when it runs on this machine: no key".to_owned(),
        };
        choices.push(('l', LoginChoice::Ollama, ollama));
        choices.push(demo);
        choices
    }

    /// Takes in what Ollama has. It is marked if nothing else has been; keys that were meant for what
    /// was marked before do not take it.
    pub(super) fn found_ollama(&mut self, models: Vec<String>, now: Millis) {
        if models.is_empty() {
            return;
        }
        self.ollama = models;
        if self.selected == 0 && matches!(self.stage, LoginStage::Providers) {
            let choices = self.choices();
            let ollama = choices.iter().position(|(_, choice, _)| *choice == LoginChoice::Ollama);
            self.selected = ollama.unwrap_or(0);
            self.opened = Some(now);
        }
    }

    /// Goes on to how the key of a provider is given.
    pub(super) fn choose_provider(&mut self, at: usize) {
        let Some(chosen) = self.providers.get(at) else { return };
        (self.whose, self.made_at) = (chosen.title, chosen.made_at);
        self.model = Some(chosen.model.clone());
        (self.stage, self.selected) = (LoginStage::Choosing, 0);
    }

    /// Goes one step back; false if this is the first.
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

    /// Returns whether keys are for it.
    pub(super) fn ready(&self, now: Millis) -> bool {
        self.opened.is_none_or(|opened| now - opened >= GRACE)
    }

    /// Restarts the grace time of an offer that came by itself: it comes up now.
    pub(super) fn shown_at(&mut self, now: Millis) {
        self.opened = self.opened.map(|_| now);
    }

    /// Returns whether something goes on that may take long.
    pub(super) fn busy(&self) -> bool {
        matches!(self.stage, LoginStage::Checking | LoginStage::Browser(_))
    }

    /// Returns `true` if the choices are so new that a key may have been meant for the earlier ones.
    pub(super) fn has_just_changed(&self, now: Millis) -> bool {
        !self.ollama.is_empty() && !self.ready(now)
    }

    /// Returns the keys of all choices.
    pub(super) fn keys(&self) -> String {
        self.choices().iter().map(|(key, ..)| *key).collect()
    }

    /// Returns the key as far as it is typed, if it is being typed.
    pub(super) fn typed(&self) -> Option<&TextInput> {
        match &self.stage {
            LoginStage::Typing(input) => Some(input),
            _ => None,
        }
    }

    /// Returns the line in which the key is typed.
    pub(super) fn typing(&mut self) -> Option<&mut TextInput> {
        match &mut self.stage {
            LoginStage::Typing(input) => Some(input),
            _ => None,
        }
    }

    /// Marks the next choice, or the one before.
    pub(super) fn select(&mut self, down: bool) {
        let count = self.choices().len();
        self.selected = (self.selected + if down { 1 } else { count - 1 }) % count;
    }

    /// Returns the choice of a key.
    pub(super) fn chosen(&self, key: char) -> Option<LoginChoice> {
        let mut choices = self.choices().into_iter();
        choices.find(|(known, ..)| *known == key).map(|(_, choice, _)| choice)
    }

    /// Returns the marked choice.
    pub(super) fn marked(&self) -> Option<LoginChoice> {
        self.choices().get(self.selected).map(|(_, choice, _)| *choice)
    }
}
