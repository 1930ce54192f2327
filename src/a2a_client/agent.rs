//! One agent of a session: its client, its card once the card is read, and its tasks that wait for an answer.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::Url;
use tokio::sync::Mutex as Turnstile;

use super::card::{CARD_PATHS, CheckedCard};
use super::config::{AgentConfig, AgentLimits};
use super::http::AgentClient;

/// Maximum number of waiting tasks that are stored; the oldest are dropped.
const MAX_WAITING_TASKS: usize = 100;

/// An agent of a session.
pub(super) struct Agent {
    pub(super) config: AgentConfig,
    pub(super) limits: AgentLimits,
    client: OnceLock<Result<AgentClient, String>>,
    card: Mutex<CardStatus>,
    /// Lock that is held while the card is read, so that only one caller reads it and the others wait.
    turnstile: Turnstile<()>,
    /// Context and task of each task that waits for an answer in words.
    waiting: Mutex<VecDeque<(String, String)>>,
}

/// Outcome of the last attempt to read the card.
#[derive(Debug, Clone)]
pub(super) enum CardStatus {
    Unread,
    Read(Arc<CheckedCard>),
    /// The card was not read, for this reason.
    Failed(String),
}

impl Agent {
    pub(super) fn new(config: AgentConfig, limits: AgentLimits) -> Arc<Self> {
        Arc::new(Self {
            config,
            limits,
            client: OnceLock::new(),
            card: Mutex::new(CardStatus::Unread),
            turnstile: Turnstile::default(),
            waiting: Mutex::default(),
        })
    }

    /// Returns the client for requests, which is made at the first call.
    pub(super) fn client(&self) -> Result<&AgentClient, String> {
        let client = self.client.get_or_init(|| AgentClient::new(&self.config, &self.limits));
        client.as_ref().map_err(Clone::clone)
    }

    /// Returns the maximum silence during a call.
    pub(super) fn idle(&self) -> Duration {
        self.config.timeout.unwrap_or(self.limits.idle)
    }

    /// Returns the server's address, for people.
    pub(super) fn address(&self) -> String {
        let url = Url::parse(&self.config.url);
        url.map_or_else(|_| "no address".to_owned(), |url| url.origin().ascii_serialization())
    }

    /// Returns the state of the card.
    pub(super) fn card_status(&self) -> CardStatus {
        self.card.lock().clone()
    }

    /// Returns the card, and reads it if it has not been read. The error is worded as the end of a sentence.
    pub(super) async fn card(&self) -> Result<Arc<CheckedCard>, String> {
        let _one = self.turnstile.lock().await;
        if let CardStatus::Read(card) = self.card_status() {
            return Ok(card);
        }
        let read = self.read_card().await.map_err(|why| self.config.concealed(&why));
        *self.card.lock() = match &read {
            Ok(card) => CardStatus::Read(Arc::clone(card)),
            Err(why) => CardStatus::Failed(why.clone()),
        };
        read
    }

    async fn read_card(&self) -> Result<Arc<CheckedCard>, String> {
        if let Some(why) = &self.config.wrong {
            return Err(why.clone());
        }
        let client = self.client()?;
        for url in card_addresses(&self.config.url)? {
            if let Some(card) = client.card(url.clone()).await.map_err(|why| why.to_string())? {
                return CheckedCard::read(card, &url).map(Arc::new);
            }
        }
        Err(format!("there is no card at {}", self.address()))
    }

    /// Records that a task waits for an answer. A context has at most one such task.
    pub(super) fn wait_for_answer(&self, context: &str, task: &str) {
        let mut waiting = self.waiting.lock();
        waiting.retain(|(known, _)| known != context);
        if waiting.len() == MAX_WAITING_TASKS {
            waiting.pop_front();
        }
        waiting.push_back((context.to_owned(), task.to_owned()));
    }

    /// Removes and returns the task in a context that waits for an answer; the caller sends the answer.
    pub(super) fn take_waiting(&self, context: &str) -> Option<String> {
        let mut waiting = self.waiting.lock();
        let at = waiting.iter().position(|(known, _)| known == context)?;
        waiting.remove(at).map(|(_, task)| task)
    }
}

/// Returns the addresses at which the card may be.
fn card_addresses(url: &str) -> Result<Vec<Url>, String> {
    let url = Url::parse(url).map_err(|err| format!("its `url` is not a URL: {err}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("its `url` begins with {}:, not http: or https:", url.scheme()));
    }
    if Path::new(url.path()).extension().is_some_and(|it| it.eq_ignore_ascii_case("json")) {
        return Ok(vec![url]);
    }
    let mut base = url;
    base.set_query(None);
    base.set_fragment(None);
    let path = format!("{}/", base.path().trim_end_matches('/'));
    base.set_path(&path);
    Ok(CARD_PATHS.iter().filter_map(|path| base.join(path).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expected: Result<&[&str], &str>) {
        let found =
            card_addresses(url).map(|all| all.iter().map(Url::to_string).collect::<Vec<_>>());
        let expected = expected.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn a_card_is_at_its_address_or_below_the_agents() {
        check("http://h/x/card.json?a=1", Ok(&["http://h/x/card.json?a=1"]));
        let below = |base: &str| CARD_PATHS.map(|path| format!("{base}{path}"));
        let of = |base: &str| below(base).iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        for (url, base) in [
            ("http://h", "http://h/"),
            ("http://h/a?b", "http://h/a/"),
            ("http://h/a//", "http://h/a/"),
        ] {
            let expected = of(base);
            check(url, Ok(&expected.split(' ').collect::<Vec<_>>()));
        }
    }

    #[test]
    fn other_addresses_are_refused() {
        check("file:///etc/passwd", Err("its `url` begins with file:, not http: or https:"));
        check("", Err("its `url` is not a URL: relative URL without a base"));
    }

    #[test]
    fn a_task_waits_for_one_answer() {
        let agent = Agent::new(AgentConfig::new("a", "http://h/", ""), AgentLimits::default());
        for n in 0..=MAX_WAITING_TASKS {
            agent.wait_for_answer(&n.to_string(), "t");
        }
        assert_eq!(agent.take_waiting("0"), None);
        assert_eq!(agent.take_waiting("5").as_deref(), Some("t"));
        assert_eq!(agent.take_waiting("5"), None);
    }
}
