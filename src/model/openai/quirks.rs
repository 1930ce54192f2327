//! Quirks of servers. Each is found out once, from an error, and remembered.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::endpoint::Endpoint;
use crate::{Message, Part, Prompt};

/// Quirks of the server of the last request. Settings can lead to another server between two requests.
#[derive(Debug)]
pub(super) struct CurrentQuirks<Q>(Mutex<Arc<ServerQuirks<Q>>>);

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
    /// `true` if the server is told a schema of the answer.
    pub(super) answer_schema: bool,
}

/// Place of the images and documents of a prompt. Media in results may be refused where media in messages are not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MediaPlace {
    #[default]
    Nowhere,
    Messages,
    Results,
}

impl<Q> Default for CurrentQuirks<Q> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Q: Copy + Ord + Debug> CurrentQuirks<Q> {
    /// Returns the known quirks of a server. `assume` makes those that are assumed before the first request to it.
    pub(super) fn at(
        &self,
        endpoint: &Endpoint,
        assume: impl FnOnce(&str) -> ServerQuirks<Q>,
    ) -> Arc<ServerQuirks<Q>> {
        let mut known = self.0.lock();
        if known.url != endpoint.url {
            *known = Arc::new(assume(&endpoint.url));
        }
        Arc::clone(&known)
    }

    /// Learns the first suspected quirk that was not tried; returns `false` if there is none. `suspect` names the
    /// suspected quirks.
    pub(super) fn learn(&self, suspect: impl FnOnce(&ServerQuirks<Q>) -> Vec<Q>) -> bool {
        let mut known = self.0.lock();
        let suspected = suspect(&known);
        let learned = Arc::make_mut(&mut known).learn(&suspected);
        if let Some(quirk) = learned {
            tracing::info!(?quirk, url = known.url, "request adapted to the server");
        }
        learned.is_some()
    }
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
    pub(super) fn from_prompt(prompt: &Prompt) -> Self {
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
