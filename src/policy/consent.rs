//! Consent to the programs that a project's own settings would run, asked for once for its folder.
//!
//! A project can bring settings that start programs by themselves: MCP servers, commands with a
//! shell in them, hooks. In a folder that is not trusted, none of them may be used before a person
//! has agreed to these programs. The session asks at the beginning of its first turn, and
//! `/permissions trust` answers at any time. Code that uses such settings checks
//! [`Consent::given`], or waits for [`Consent::settled`].

use std::fmt;
use std::sync::Arc;

use tokio::sync::{Mutex as Turnstile, watch};

use parking_lot::Mutex;

/// Kind of the programs that are MCP servers.
pub const MCP_SERVER: &str = "MCP server";

/// A program that the project's own settings would run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Executable {
    /// Kind of setting, for people: `MCP server`, `custom command`, `hook`.
    pub kind: &'static str,
    /// Name in the settings.
    pub name: String,
    /// Everything that decides which program runs: the command line with its arguments, a URL. If it
    /// changes, people are asked again. May have secrets in it, and is not shown.
    pub runs: String,
    /// The same for people, without secrets.
    pub shown: String,
}

impl fmt::Display for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`: {}", self.kind, self.name, self.shown)
    }
}

/// Answer of a person, so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsentStatus {
    /// Nobody has answered.
    Pending,
    /// The settings may be used.
    Given,
    /// The settings may not be used.
    Refused,
}

/// The programs to agree to, and the earlier answer.
#[derive(Debug, Clone)]
pub struct Review {
    /// In a stable order.
    pub executables: Vec<Executable>,
    /// The earlier answer.
    pub status: ConsentStatus,
}

/// Reason for which an answer about the programs of a folder does not count as it was meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConsentError {
    /// The answer counts for this session only; the reason.
    NotSaved(String),
    /// The programs have changed since they were shown. A yes to them starts nothing.
    Changed,
}

impl fmt::Display for ConsentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSaved(why) => write!(f, "The answer counts for this session only: {why}."),
            Self::Changed => f.write_str(
                "The answer does not count: what this folder's own settings would run has changed since it was \
                 shown. You are asked again with your next prompt; `/permissions` shows what would run now.",
            ),
        }
    }
}

type Look = Box<dyn Fn() -> Review + Send + Sync>;
type Keep = Box<dyn Fn(&[Executable], bool) -> Result<(), String> + Send + Sync>;

/// Consent to the programs of a project's own settings.
pub struct Consent {
    look: Look,
    keep: Keep,
    found: Mutex<Option<Vec<Executable>>>,
    status: watch::Sender<ConsentStatus>,
    /// Held while the settings are read: one reader at a time.
    turnstile: Turnstile<()>,
}

impl Consent {
    /// Returns a consent that nobody has been asked for. `look` reads the settings, and may read
    /// files: it is called off the runtime's threads, when first needed. `keep` saves an answer; an
    /// error says why the answer is not saved.
    pub fn new(
        look: impl Fn() -> Review + Send + Sync + 'static,
        keep: impl Fn(&[Executable], bool) -> Result<(), String> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            look: Box::new(look),
            keep: Box::new(keep),
            found: Mutex::default(),
            status: watch::Sender::new(ConsentStatus::Pending),
            turnstile: Turnstile::default(),
        })
    }

    /// Returns the consent for a project without such settings.
    pub fn not_needed() -> Arc<Self> {
        let found = Review { executables: Vec::new(), status: ConsentStatus::Given };
        let consent = Self::new(move || found.clone(), |_, _| Ok(()));
        // There are no settings to read.
        *consent.found.lock() = Some(Vec::new());
        consent.status.send_replace(ConsentStatus::Given);
        consent
    }

    /// Returns whether the settings may be used, as far as is known now.
    pub fn given(&self) -> bool {
        *self.status.borrow() == ConsentStatus::Given
    }

    /// Waits until somebody has answered, now or earlier. Returns whether the settings may be used.
    pub async fn settled(self: &Arc<Self>) -> bool {
        self.status().await;
        let mut status = self.status.subscribe();
        let settled = status.wait_for(|status| *status != ConsentStatus::Pending).await;
        settled.is_ok_and(|status| *status == ConsentStatus::Given)
    }

    /// Returns the answer so far, after reading the settings.
    pub async fn status(self: &Arc<Self>) -> ConsentStatus {
        self.review().await.status
    }

    /// Returns the programs to agree to and the answer so far, after reading the settings. A person is shown these
    /// programs, and [`Consent::answer`] takes the same list.
    pub async fn review(self: &Arc<Self>) -> Review {
        let _one = self.turnstile.lock().await;
        let known = self.found.lock().clone();
        if let Some(executables) = known {
            return Review { executables, status: *self.status.borrow() };
        }
        let Review { executables, status } = self.looked().await;
        let needed = status != ConsentStatus::Pending || !executables.is_empty();
        let status = if needed { status } else { ConsentStatus::Given };
        // Before the list: an earlier yes must not be taken for one to this list.
        self.status.send_replace(status);
        *self.found.lock() = Some(executables.clone());
        Review { executables, status }
    }

    /// Reads the settings.
    async fn looked(self: &Arc<Self>) -> Review {
        let consent = Arc::clone(self);
        let look = tokio::task::spawn_blocking(move || (consent.look)()).await;
        // A fault must not start anything.
        look.unwrap_or(Review { executables: Vec::new(), status: ConsentStatus::Refused })
    }

    /// Returns whether the settings name a program of this kind and name that is the one that was agreed to. If not, the
    /// settings are read again, and people are asked again. Reads the files that the program is made of.
    pub async fn still_covers(self: &Arc<Self>, kind: &str, name: &str) -> bool {
        let agreed = self.review().await.executables;
        let now = self.looked().await.executables;
        let of_it = |list: &[Executable]| -> Vec<Executable> {
            list.iter().filter(|it| it.kind == kind && it.name == name).cloned().collect()
        };
        let agreed = of_it(&agreed);
        let is_same = !agreed.is_empty() && of_it(&now) == agreed;
        if !is_same {
            self.look_again();
        }
        is_same && self.given()
    }

    /// Has the settings read again: they have changed.
    pub fn look_again(&self) {
        *self.found.lock() = None;
    }

    /// Returns the programs to agree to, as far as the settings have been read.
    pub fn executables(&self) -> Vec<Executable> {
        self.found.lock().clone().unwrap_or_default()
    }

    /// Takes an answer about the programs that a person was shown, and saves it. A yes counts only if the settings still
    /// run exactly these programs; otherwise nobody has answered yet.
    pub async fn answer(
        self: &Arc<Self>,
        shown: &[Executable],
        yes: bool,
    ) -> Result<(), ConsentError> {
        let _one = self.turnstile.lock().await;
        let is_current = self.looked().await.executables == shown;
        if yes && !is_current {
            self.status.send_replace(ConsentStatus::Pending);
            self.look_again();
            return Err(ConsentError::Changed);
        }
        let (consent, shown) = (Arc::clone(self), shown.to_vec());
        *self.found.lock() = is_current.then(|| shown.clone());
        let kept = tokio::task::spawn_blocking(move || (consent.keep)(&shown, yes)).await;
        self.settle(yes);
        let kept = kept.unwrap_or_else(|_| Err("the agent's log says more".to_owned()));
        kept.map_err(ConsentError::NotSaved)
    }

    /// Takes an answer for this session alone.
    pub fn settle(&self, yes: bool) {
        self.status.send_replace(if yes { ConsentStatus::Given } else { ConsentStatus::Refused });
    }
}
