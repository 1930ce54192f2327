//! Whether a tool call may run: the policy, and what the user said always to allow.

mod check;
pub mod consent;
mod line;
pub mod policy;
pub mod rules;
mod saved;
mod scope;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::check::Check;
use self::policy::{Broken, Policy, Situation};
pub use self::policy::{Request, RuleName};
pub use self::rules::Environment;
pub use self::saved::Saved;
use self::scope::Always;
pub use self::scope::Scope;
use crate::sync::Mutex;
use crate::tools::secrets::Secrets;

/// How much is allowed without a question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Reading what is no secret.
    #[default]
    Default,
    /// Also changing files of the workspace that take no effect by themselves, and reading the web.
    AutoEdit,
    /// Everything.
    Yolo,
    /// Reading what is no secret; what would change something is refused.
    Plan,
}

impl Mode {
    /// All of them, with the names that users give them.
    pub const ALL: [(&'static str, Self); 4] = [
        ("default", Self::Default),
        ("auto_edit", Self::AutoEdit),
        ("yolo", Self::Yolo),
        ("plan", Self::Plan),
    ];

    /// Whether all that another allows without a question is allowed in this one, too.
    fn allows_as_much_as(self, other: Self) -> bool {
        let level = |mode| match mode {
            Self::Plan => 0,
            Self::Default => 1,
            Self::AutoEdit => 2,
            Self::Yolo => 3,
        };
        level(self) >= level(other)
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, mode)| *mode).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("must be one of {}", names.join(", "))
        })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, mode)| mode == self).map_or("", |(name, _)| name);
        f.pad(name)
    }
}

/// What the policy says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Run it.
    Allow,
    /// Ask the user.
    Ask(Question),
    /// Do not run it; why, for the model.
    Deny(String),
}

/// What the user is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// What of it is asked about, and of a command line which part.
    pub why: String,
    /// Which rules ask; the first is that of the first reason.
    #[serde(default)]
    pub rules: Vec<RuleName>,
    /// Of a command line: the names of its commands that were not always allowed before.
    pub commands: Vec<String>,
    /// What "always" can mean here: what is usually meant comes first. May be empty: then it is
    /// asked about every time.
    pub scopes: Vec<Scope>,
    /// Whether "always" can be written down, for later sessions too.
    #[serde(default)]
    pub can_save: bool,
}

impl Question {
    /// Whether "always" is no answer to it.
    pub fn every_time(&self) -> bool {
        self.scopes.is_empty()
    }

    /// Why it is asked, and by which rules: all of it, for people.
    pub fn reason(&self) -> String {
        let own = self.rules.iter().filter_map(|rule| match rule {
            RuleName::BuiltIn(name) => Some(name.as_str()),
            RuleName::Written(_) => None,
        });
        let written = self.rules.iter().filter_map(|rule| match rule {
            RuleName::Written(place) => Some(place.clone()),
            RuleName::BuiltIn(_) => None,
        });
        let own: Vec<_> = own.collect();
        let own = match own.len() {
            0 => None,
            1 => Some(format!("built-in rule {}", own[0])),
            _ => Some(format!("built-in rules {}", own.join(", "))),
        };
        let rules: Vec<_> = written.chain(own).collect();
        if rules.is_empty() {
            return self.why.clone();
        }
        format!("{} [{}]", self.why, rules.join("; "))
    }

    /// The "always" that can be written down.
    pub fn to_save(&self) -> Option<&Scope> {
        self.scopes.first().filter(|_| self.can_save)
    }
}

/// What people have written down: rules, and answers that were saved.
pub trait Store: Send + Sync {
    /// Reads all of it. May read files.
    fn load(&self) -> Loaded;

    /// Writes one more answer down; where. An error says why not.
    fn save(&self, saved: &Saved) -> Result<PathBuf, String>;

    /// Takes an answer out again.
    fn remove(&self, saved: &Saved) -> Result<(), String>;
}

/// What was written down.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The rules.
    pub policy: Policy,
    /// The answers.
    pub saved: Vec<Saved>,
    /// What people should know of how it was read: sentences.
    pub remarks: Vec<String>,
}

impl Loaded {
    fn news(&self) -> Vec<String> {
        let broken = self.policy.broken().iter().map(Broken::said);
        broken.chain(self.remarks.iter().cloned()).collect()
    }
}

/// Nothing is written down, and nothing can be.
pub struct Unwritten;

impl Store for Unwritten {
    fn load(&self) -> Loaded {
        Loaded::default()
    }

    fn save(&self, _: &Saved) -> Result<PathBuf, String> {
        Err("there is nowhere to write it".to_owned())
    }

    fn remove(&self, _: &Saved) -> Result<(), String> {
        Ok(())
    }
}

/// What a session's policy begins with.
#[derive(Clone)]
pub struct Setup {
    /// What people have written down.
    pub store: Arc<dyn Store>,
    /// Whether somebody can be asked.
    pub interactive: bool,
    /// Whether "always" is offered.
    pub always: bool,
    /// Whether "always" can be written down.
    pub can_save: bool,
    /// Why there is no mode in which everything is allowed, if there is none.
    pub no_yolo: Option<String>,
    /// Files that are secret.
    pub secrets: Secrets,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            store: Arc::new(Unwritten),
            interactive: true,
            always: true,
            can_save: false,
            no_yolo: None,
            secrets: Secrets::default(),
        }
    }
}

/// The policy of one session.
pub struct Permissions {
    mode: Mutex<Mode>,
    setup: Setup,
    /// The workspace's directories, real paths.
    roots: Vec<PathBuf>,
    /// What the user always allows, until the session ends.
    allowed: Mutex<Vec<Scope>>,
    /// What is written down, once it has been read.
    loaded: Mutex<Option<Arc<Loaded>>>,
    /// What people are to be told of that.
    news: Mutex<Vec<String>>,
}

impl Permissions {
    /// The policy of a session on these directories (real paths).
    pub fn new(mode: Mode, setup: Setup, roots: &[PathBuf]) -> Self {
        let forbidden = setup.no_yolo.clone().filter(|_| mode == Mode::Yolo);
        Self {
            mode: Mutex::new(if forbidden.is_some() { Mode::Default } else { mode }),
            setup,
            roots: roots.to_owned(),
            allowed: Mutex::default(),
            loaded: Mutex::default(),
            news: Mutex::new(forbidden.into_iter().collect()),
        }
    }

    /// How much is allowed without a question.
    pub fn mode(&self) -> Mode {
        *self.mode.lock()
    }

    /// Which modes there can be.
    pub fn modes(&self) -> impl Iterator<Item = Mode> {
        let yolo = self.setup.no_yolo.is_none();
        Mode::ALL.into_iter().map(|(_, mode)| mode).filter(move |mode| yolo || *mode != Mode::Yolo)
    }

    /// Changes how much is allowed without a question. An error says why that cannot be.
    pub fn set_mode(&self, mode: Mode) -> Result<(), String> {
        if let (Mode::Yolo, Some(why)) = (mode, &self.setup.no_yolo) {
            return Err(why.clone());
        }
        *self.mode.lock() = mode;
        Ok(())
    }

    /// From now on, allows what the user said always to allow.
    pub fn allow(&self, scope: Scope) {
        let mut allowed = self.allowed.lock();
        if !allowed.contains(&scope) {
            allowed.push(scope);
        }
    }

    /// The same, and in later sessions in this folder, too: in this mode, and in those that allow
    /// more. Where it was written; an error says why it counts for this session alone.
    pub fn save(&self, scope: Scope) -> Result<PathBuf, String> {
        self.allow(scope.clone());
        let saved = Saved { scope, folder: self.folder().to_owned(), mode: self.mode() };
        let file = self.setup.store.save(&saved)?;
        *self.loaded.lock() = Some(Arc::new(self.setup.store.load()));
        Ok(file)
    }

    /// What the user always allows until the session ends.
    pub fn allowed(&self) -> Vec<Scope> {
        self.allowed.lock().clone()
    }

    /// Does not allow it any more.
    pub fn disallow(&self, scope: &Scope) {
        self.allowed.lock().retain(|allowed| allowed != scope);
    }

    /// Takes an answer out that was written down.
    pub fn unsave(&self, saved: &Saved) -> Result<(), String> {
        self.setup.store.remove(saved)?;
        *self.loaded.lock() = Some(Arc::new(self.setup.store.load()));
        Ok(())
    }

    /// What is written down; read when this is first called.
    pub fn loaded(&self) -> Arc<Loaded> {
        if let Some(loaded) = &*self.loaded.lock() {
            return Arc::clone(loaded);
        }
        let loaded = Arc::new(self.setup.store.load());
        self.news.lock().extend(loaded.news());
        *self.loaded.lock() = Some(Arc::clone(&loaded));
        loaded
    }

    /// Whether it has been read.
    pub fn is_loaded(&self) -> bool {
        self.loaded.lock().is_some()
    }

    /// What people should know of what is written down, and have not been told: sentences.
    pub fn news(&self) -> Vec<String> {
        self.loaded();
        std::mem::take(&mut self.news.lock())
    }

    /// Has it read again.
    pub fn reload(&self) {
        *self.loaded.lock() = None;
    }

    /// Applies the policy, to commands with this process's own environment. Of a command line this
    /// looks files up: of a very long one, thousands.
    pub fn check(&self, request: &Request<'_>) -> Verdict {
        self.check_in(request, &Environment::own()).0
    }

    /// Applies the policy, to commands with this environment; and says whether the call is a command
    /// line that does no more than read the workspace.
    pub fn check_in(&self, request: &Request<'_>, environment: &Environment) -> (Verdict, bool) {
        let loaded = self.loaded();
        let situation = self.situation();
        let saved = loaded.saved.iter().filter(|it| it.counts(situation.mode, situation.folder));
        let check = Check {
            request,
            situation,
            policy: &loaded.policy,
            always: Always(saved.map(|it| it.scope.clone()).chain(self.allowed()).collect()),
            roots: &self.roots,
            secrets: &self.setup.secrets,
            environment,
        };
        match check.verdict() {
            Verdict::Ask(question) => {
                let scopes = self.offered(question.scopes);
                let can_save = self.setup.always && self.setup.can_save;
                (Verdict::Ask(Question { scopes, can_save, ..question }), false)
            }
            Verdict::Allow => (Verdict::Allow, check.only_reads()),
            verdict @ Verdict::Deny(_) => (verdict, false),
        }
    }

    /// Those of the scopes in which "always" is offered.
    pub fn offered(&self, scopes: Vec<Scope>) -> Vec<Scope> {
        if self.setup.always { scopes } else { Vec::new() }
    }

    /// Whether the model need not know of a tool, because a rule denies every call of it.
    pub fn removes(&self, request: &Request<'_>) -> bool {
        self.loaded().policy.removes(request, &self.situation()).is_some()
    }

    fn situation(&self) -> Situation<'_> {
        let (mode, interactive) = (self.mode(), self.setup.interactive);
        Situation { mode, interactive, folder: self.folder() }
    }

    /// The first of the workspace's directories.
    pub fn folder(&self) -> &Path {
        self.roots.first().map_or(Path::new("/"), PathBuf::as_path)
    }
}
