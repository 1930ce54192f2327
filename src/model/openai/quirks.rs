//! Quirks of servers. Each is found out once, from an error, and remembered.

use std::collections::BTreeSet;

use crate::{Message, Part, Prompt};

/// A server's known quirks of one API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerQuirks<Q> {
    /// Base URL of the server.
    url: String,
    quirks: BTreeSet<Q>,
    /// Quirks that have been toggled. Each is toggled at most once, so that requests do not alternate between two
    /// forms.
    tried: BTreeSet<Q>,
}

/// Features of a prompt that a server may refuse.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Features {
    pub(super) media: MediaPlace,
    pub(super) silent_calls: bool,
    pub(super) answers: bool,
}

/// Place of the images and documents of a prompt. Media in results may be refused where media in messages are not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MediaPlace {
    #[default]
    Nowhere,
    Messages,
    Results,
}

impl<Q> Default for ServerQuirks<Q> {
    fn default() -> Self {
        Self { url: String::new(), quirks: BTreeSet::new(), tried: BTreeSet::new() }
    }
}

impl<Q: Copy + Ord> ServerQuirks<Q> {
    /// Returns the quirks that are assumed before the first request to a server.
    pub(super) fn new(url: &str, quirks: BTreeSet<Q>) -> Self {
        Self { url: url.to_owned(), quirks, tried: BTreeSet::new() }
    }

    /// Returns the base URL of the server.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn has(&self, quirk: Q) -> bool {
        self.quirks.contains(&quirk)
    }

    /// Toggles the first of the suspected quirks that has not been tried, and returns it; `None` if none is left to
    /// try.
    pub(super) fn learn(&mut self, suspected: &[Q]) -> Option<Q> {
        let quirk = *suspected.iter().find(|quirk| !self.tried.contains(quirk))?;
        self.tried.insert(quirk);
        if !self.quirks.remove(&quirk) {
            self.quirks.insert(quirk);
        }
        Some(quirk)
    }
}

impl Features {
    pub(super) fn of(prompt: &Prompt) -> Self {
        let mut features = Self::default();
        for message in &prompt.messages {
            match &**message {
                Message::User(parts) => {
                    if parts.iter().any(|part| matches!(part, Part::Media(_))) {
                        features.media = features.media.max(MediaPlace::Messages);
                    }
                }
                Message::Assistant(answer) => {
                    features.answers = true;
                    features.silent_calls |=
                        !answer.calls.is_empty() && answer.text.trim().is_empty();
                }
                Message::Results(results) => {
                    if results.iter().any(|result| !result.media.is_empty()) {
                        features.media = MediaPlace::Results;
                    }
                }
            }
        }
        features
    }
}
