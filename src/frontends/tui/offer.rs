//! The offer to log in: there is no key, or it is not accepted.

use super::Login;
use super::input::Input;
use crate::session::Millis;

/// For so long after it has come up, keys still go where they went before.
const GRACE: Millis = 600;

/// The offer, and how far the user has got with it.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    /// Why it is made.
    pub(super) cause: Cause,
    /// Whose key is wanted, and where such keys are made.
    pub(super) whose: &'static str,
    pub(super) made_at: &'static str,
    /// When it came up; none if the user asked for it.
    opened: Option<Millis>,
    pub(super) stage: Stage,
    /// Which choice is marked.
    pub(super) selected: usize,
    /// Why the last attempt failed.
    pub(super) failure: Option<String>,
    pub(super) then: Then,
}

/// Why it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// There is no key.
    Missing,
    /// The key is not accepted.
    Refused,
    /// The user wants it.
    Wanted,
}

/// How far the user has got.
#[derive(Debug, Clone)]
pub(super) enum Stage {
    Choosing,
    /// The key is being typed.
    Typing(Input),
    /// It is being checked.
    Checking,
    /// A page in the browser asks for it; its address, once it is known.
    Browser(Option<String>),
}

/// What follows when there is a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Then {
    Nothing,
    /// This is said, which has waited for it.
    Say(String),
    /// The turn that the refusal ended goes on.
    GoOn,
}

/// What can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    Browser,
    Paste,
    Demo,
}

/// The choices: a key, and what that is, for people.
pub(super) const CHOICES: [(char, Choice, &str); 3] = [
    ('b', Choice::Browser, "log in: a page in your browser asks for the key"),
    ('k', Choice::Paste, "log in: paste the key here; it is not shown"),
    ('d', Choice::Demo, "try the demonstration first: no key, no network"),
];

impl Offer {
    pub(super) fn new(cause: Cause, login: &Login, opened: Option<Millis>, then: Then) -> Self {
        let (whose, made_at, stage) = (login.whose, login.made_at, Stage::Choosing);
        Self { cause, whose, made_at, opened, stage, selected: 0, failure: None, then }
    }

    /// Whether keys are for it.
    pub(super) fn ready(&self, now: Millis) -> bool {
        self.opened.is_none_or(|opened| now - opened >= GRACE)
    }

    /// It comes up now, not before, if it came by itself.
    pub(super) fn shown_at(&mut self, now: Millis) {
        self.opened = self.opened.map(|_| now);
    }

    /// Whether something goes on that may take long.
    pub(super) fn busy(&self) -> bool {
        matches!(self.stage, Stage::Checking | Stage::Browser(_))
    }

    /// What is typed of the key.
    pub(super) fn typing(&mut self) -> Option<&mut Input> {
        match &mut self.stage {
            Stage::Typing(input) => Some(input),
            _ => None,
        }
    }

    /// Marks the next choice, or the one before.
    pub(super) fn select(&mut self, down: bool) {
        let count = CHOICES.len();
        self.selected = (self.selected + if down { 1 } else { count - 1 }) % count;
    }

    /// What a key chooses.
    pub(super) fn chosen(key: char) -> Option<Choice> {
        CHOICES.iter().find(|(known, ..)| *known == key).map(|(_, choice, _)| *choice)
    }

    /// What is marked.
    pub(super) fn marked(&self) -> Choice {
        CHOICES[self.selected].1
    }
}
