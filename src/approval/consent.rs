//! Consent to the programs that a project's own settings would run; a person is asked once for each folder.
//!
//! A project can bring settings that start programs by themselves: MCP servers, commands with a shell in them, hooks.
//! In a folder that is not trusted, none of these settings may be used before a person has agreed to the programs. The
//! session asks at the beginning of its first turn, and `/permissions trust` answers at any time. Code that uses such
//! settings checks [`Consent::is_given`], or waits for [`Consent::settled`].

use std::fmt;
use std::sync::Arc;

use tokio::sync::{Mutex as Turnstile, watch};

use parking_lot::Mutex;
use tandem_content::blocking::blocking;

/// Kind of the programs that are MCP servers.
pub const MCP_SERVER: &str = "MCP server";

/// A program that the project's own settings would run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Executable {
    /// Kind of setting, for people: `MCP server`, `custom command`, `hook`.
    pub kind: &'static str,
    /// Name of the program in the settings.
    pub name: String,
    /// Everything that decides which program runs: the command line with its arguments, a URL. If this text changes,
    /// people are asked again. It may have secrets in it, and is not shown.
    pub runs: String,
    /// Command line or URL for people, without secrets.
    pub shown: String,
}

impl fmt::Display for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`: {}", self.kind, self.name, self.shown)
    }
}

/// Answer of a person so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsentStatus {
    /// No person has answered yet.
    Pending,
    /// The settings may be used.
    Given,
    /// The settings may not be used.
    Refused,
}

/// Programs to agree to, and the answer so far.
#[derive(Debug, Clone)]
pub struct Review {
    /// Programs that the settings would run, in a stable order.
    pub executables: Vec<Executable>,
    /// Answer so far.
    pub status: ConsentStatus,
}

/// Reason why an answer about the programs of a folder does not count as it was meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConsentError {
    /// The answer counts for this session only, for this reason.
    NotSaved(String),
    /// The settings name other programs than those that the person was shown. The person's yes starts no program.
    Changed,
}

impl fmt::Display for ConsentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSaved(why) => write!(f, "The answer counts for this session only: {why}."),
            Self::Changed => f.write_str(
                "The answer does not count: the programs that this folder's settings name have changed since \
                 they were shown. You are asked again with your next prompt; `/permissions` shows the programs.",
            ),
        }
    }
}

type ReviewSettings = Box<dyn Fn() -> Review + Send + Sync>;
type SaveDecision = Box<dyn Fn(&[Executable], bool) -> Result<(), String> + Send + Sync>;

/// Consent to the programs of a project's own settings.
pub struct Consent {
    look: ReviewSettings,
    keep: SaveDecision,
    /// Programs that the settings would run; `None` if the settings are to be read when this is next needed.
    found: Mutex<Option<Vec<Executable>>>,
    status: watch::Sender<ConsentStatus>,
    /// Lock held while the settings are read or an answer is taken, so that only one caller does this at a time.
    turnstile: Turnstile<()>,
}

impl Consent {
    /// Returns a consent that no person has been asked for yet. `look` reads the settings, and may block on files: it
    /// is called on a blocking thread, when first needed. `keep` saves an answer; an error says why the answer is not
    /// saved.
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

    /// Returns whether the settings may be used, as far as is known now.
    pub fn is_given(&self) -> bool {
        *self.status.borrow() == ConsentStatus::Given
    }

    /// Waits until a person has answered, now or earlier. Returns whether the settings may be used.
    pub async fn settled(self: &Arc<Self>) -> bool {
        self.status().await;
        let mut status = self.status.subscribe();
        let settled = status.wait_for(|status| *status != ConsentStatus::Pending).await;
        settled.is_ok_and(|status| *status == ConsentStatus::Given)
    }

    /// Reads the settings if necessary, and returns the answer so far.
    pub async fn status(self: &Arc<Self>) -> ConsentStatus {
        self.review().await.status
    }

    /// Reads the settings if necessary, and returns the programs to agree to and the answer so far. A person is shown
    /// these programs, and [`Consent::answer`] takes the same list.
    pub async fn review(self: &Arc<Self>) -> Review {
        let _one = self.turnstile.lock().await;
        let known = self.found.lock().clone();
        if let Some(executables) = known {
            return Review { executables, status: *self.status.borrow() };
        }
        let Review { executables, status } = self.reviewed().await;
        let needed = status != ConsentStatus::Pending || !executables.is_empty();
        let status = if needed { status } else { ConsentStatus::Given };
        // The status is set before the list, so that an earlier yes is never taken for a yes to this list.
        self.status.send_replace(status);
        *self.found.lock() = Some(executables.clone());
        Review { executables, status }
    }

    /// Reads the settings.
    async fn reviewed(self: &Arc<Self>) -> Review {
        let consent = Arc::clone(self);
        let look = blocking(move || (consent.look)()).await;
        // A panic in `look` counts as a refusal, so that no program is started.
        look.unwrap_or(Review { executables: Vec::new(), status: ConsentStatus::Refused })
    }

    /// Returns `true` if the program of this kind and name in the settings is still the program that a person agreed
    /// to. If it is another program, the settings are read again, and people are asked again. Reads the files that
    /// the program is made of.
    pub async fn still_covers(self: &Arc<Self>, kind: &str, name: &str) -> bool {
        let agreed = self.review().await.executables;
        let now = self.reviewed().await.executables;
        let of_it = |list: &[Executable]| -> Vec<Executable> {
            list.iter().filter(|it| it.kind == kind && it.name == name).cloned().collect()
        };
        let agreed = of_it(&agreed);
        let is_same = !agreed.is_empty() && of_it(&now) == agreed;
        if !is_same {
            self.review_again();
        }
        is_same && self.is_given()
    }

    /// Discards the list of programs, so that the changed settings are read again when the list is next needed.
    pub fn review_again(&self) {
        *self.found.lock() = None;
    }

    /// Returns the programs to agree to; empty if the settings have not been read.
    pub fn executables(&self) -> Vec<Executable> {
        self.found.lock().clone().unwrap_or_default()
    }

    /// Takes an answer about the programs that a person was shown, and saves it. A yes counts only if the settings
    /// still run exactly these programs; otherwise the answer is pending again.
    pub async fn answer(
        self: &Arc<Self>,
        shown: &[Executable],
        yes: bool,
    ) -> Result<(), ConsentError> {
        // No other task may read the list anew while the answer to it is taken.
        let _one = self.turnstile.lock().await;
        let is_current = self.reviewed().await.executables == shown;
        if yes && !is_current {
            self.status.send_replace(ConsentStatus::Pending);
            self.review_again();
            return Err(ConsentError::Changed);
        }
        let (consent, shown) = (Arc::clone(self), shown.to_vec());
        *self.found.lock() = is_current.then(|| shown.clone());
        let kept = blocking(move || (consent.keep)(&shown, yes)).await;
        self.settle(yes);
        let kept = kept.unwrap_or_else(|_| Err("the log (`--log-file`) says more".to_owned()));
        kept.map_err(ConsentError::NotSaved)
    }

    /// Takes an answer for this session alone, and does not save it.
    pub fn settle(&self, yes: bool) {
        self.status.send_replace(if yes { ConsentStatus::Given } else { ConsentStatus::Refused });
    }
}
