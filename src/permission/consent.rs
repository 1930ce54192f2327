//! Whether what a project's own settings would run may be used: asked once for its folder.
//!
//! A project can bring settings that start programs by themselves: MCP servers, commands with a
//! shell in them, hooks. In a folder that nobody has said to trust, none of them may be used before
//! a person has agreed to what they would run. The session asks at the beginning of its first turn,
//! and `/permissions trust` answers at any time; who uses such settings looks at
//! [`Consent::given`], or waits for [`Consent::settled`].

use std::fmt;
use std::sync::Arc;

use tokio::sync::{Mutex as Turnstile, watch};

use crate::sync::Mutex;

/// Something that the project's own settings would run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Executable {
    /// What it is, for people: `MCP server`, `custom command`, `hook`.
    pub kind: &'static str,
    /// What the settings call it.
    pub name: String,
    /// All that decides what runs, for people to read: the command line with its arguments, a URL.
    /// If it changes, people are asked again. No secrets.
    pub runs: String,
}

impl fmt::Display for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`: {}", self.kind, self.name, self.runs)
    }
}

/// What people have said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing yet.
    Open,
    /// It may be used.
    Given,
    /// It may not.
    Refused,
}

/// What there is to agree to, and what was said of it earlier.
#[derive(Debug, Clone)]
pub struct Found {
    /// In a stable order.
    pub executables: Vec<Executable>,
    /// What is known already.
    pub standing: Standing,
}

type Look = Box<dyn Fn() -> Found + Send + Sync>;
type Keep = Box<dyn Fn(&[Executable], bool) -> Result<(), String> + Send + Sync>;

/// Whether what the project's own settings would run may be used.
pub struct Consent {
    look: Look,
    keep: Keep,
    found: Mutex<Option<Vec<Executable>>>,
    standing: watch::Sender<Standing>,
    /// One looks, or asks, at a time.
    turnstile: Turnstile<()>,
}

impl Consent {
    /// `look` reads what there is, and may read files: it is called off the runtime's threads when
    /// this is first asked for. `keep` remembers an answer; an error says why it is not remembered.
    pub fn new(
        look: impl Fn() -> Found + Send + Sync + 'static,
        keep: impl Fn(&[Executable], bool) -> Result<(), String> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            look: Box::new(look),
            keep: Box::new(keep),
            found: Mutex::default(),
            standing: watch::Sender::new(Standing::Open),
            turnstile: Turnstile::default(),
        })
    }

    /// For a project that has no such settings.
    pub fn not_needed() -> Arc<Self> {
        let found = Found { executables: Vec::new(), standing: Standing::Given };
        let consent = Self::new(move || found.clone(), |_, _| Ok(()));
        // Nobody needs to look.
        *consent.found.lock() = Some(Vec::new());
        consent.standing.send_replace(Standing::Given);
        consent
    }

    /// Whether it may be used, as far as is known now.
    pub fn given(&self) -> bool {
        *self.standing.borrow() == Standing::Given
    }

    /// Waits until somebody has answered, now or earlier; whether it may be used.
    pub async fn settled(self: &Arc<Self>) -> bool {
        self.standing().await;
        let mut standing = self.standing.subscribe();
        let settled = standing.wait_for(|standing| *standing != Standing::Open).await;
        settled.is_ok_and(|standing| *standing == Standing::Given)
    }

    /// What has been said, after a look at what there is.
    pub async fn standing(self: &Arc<Self>) -> Standing {
        let _one = self.turnstile.lock().await;
        if self.found.lock().is_none() {
            let consent = Arc::clone(self);
            let look = tokio::task::spawn_blocking(move || (consent.look)()).await;
            // A fault must not start anything.
            let nothing = Found { executables: Vec::new(), standing: Standing::Refused };
            let Found { executables, standing } = look.unwrap_or(nothing);
            let needed = standing != Standing::Open || !executables.is_empty();
            *self.found.lock() = Some(executables);
            self.standing.send_replace(if needed { standing } else { Standing::Given });
        }
        *self.standing.borrow()
    }

    /// Has all of it looked at again: the settings have changed.
    pub fn look_again(&self) {
        *self.found.lock() = None;
    }

    /// What there is to agree to, as far as it has been looked at.
    pub fn executables(&self) -> Vec<Executable> {
        self.found.lock().clone().unwrap_or_default()
    }

    /// Takes an answer, and remembers it. An error says why it counts only for this session.
    pub async fn answer(self: &Arc<Self>, yes: bool) -> Result<(), String> {
        self.standing().await;
        let (consent, executables) = (Arc::clone(self), self.executables());
        let kept = tokio::task::spawn_blocking(move || (consent.keep)(&executables, yes)).await;
        self.settle(yes);
        kept.unwrap_or_else(|_| Err("the agent's log says more".to_owned()))
    }

    /// Takes an answer for this session alone.
    pub fn settle(&self, yes: bool) {
        self.standing.send_replace(if yes { Standing::Given } else { Standing::Refused });
    }
}
