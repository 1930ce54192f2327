//! The policy on tool calls: modes, rules, and the answers that were "always".

mod check;
mod command_line;
pub mod consent;
pub mod policy;
pub mod risk;
mod saved;
mod scope;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::check::Check;
use self::policy::{Broken, Policy, Situation};
pub use self::policy::{PolicyRequest, RuleName};
pub use self::risk::Environment;
pub use self::saved::Saved;
use self::scope::Always;
pub use self::scope::Scope;
use parking_lot::Mutex;
use tandem_tools::Access;
use tandem_tools::secrets::Secrets;

/// Approval mode: the calls that run without a question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Reading, but for secrets.
    #[default]
    Default,
    /// Also changing files of the workspace that take no effect by themselves, and reading the web.
    AutoEdit,
    /// Everything.
    Yolo,
    /// Reading, but for secrets; calls that would change something are denied.
    Plan,
}

impl Mode {
    /// All modes, with the names that users give them.
    pub const ALL: [(&'static str, Self); 4] = [
        ("default", Self::Default),
        ("auto_edit", Self::AutoEdit),
        ("yolo", Self::Yolo),
        ("plan", Self::Plan),
    ];

    /// Returns whether the mode allows every call without a question that another allows.
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

/// Verdict of the policy on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Run it.
    Allow,
    /// Ask the user.
    Ask(Question),
    /// Do not run it; why, for the model.
    Deny(String),
}

/// Verdict on a call, and the environment variables that go with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The verdict.
    pub verdict: Verdict,
    /// Variables that the command line is given besides its own: it only reads, and with them its
    /// programs start no others.
    pub variables: Vec<(String, String)>,
}

impl From<Verdict> for Checked {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, variables: Vec::new() }
    }
}

/// A question for the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Reason for the question: of a command line, the part that is asked about.
    pub why: String,
    /// The rules that ask; the first is that of the first reason.
    #[serde(default)]
    pub rules: Vec<RuleName>,
    /// Of a command line: the names of its commands that were not always allowed before.
    pub commands: Vec<String>,
    /// Scopes that "always" can have, the usual one first. Empty if the call is asked about every
    /// time.
    pub scopes: Vec<Scope>,
    /// `true` if "always" can be saved, for later sessions, too.
    #[serde(default)]
    pub can_save: bool,
}

impl Question {
    /// Returns whether "always" is no answer to it.
    pub fn every_time(&self) -> bool {
        self.scopes.is_empty()
    }

    /// Returns the reason with the names of the rules that ask, for people.
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

    /// Returns the scope that can be saved.
    pub fn to_save(&self) -> Option<&Scope> {
        self.scopes.first().filter(|_| self.can_save)
    }
}

/// Storage of rules and saved answers.
pub trait RuleStore: Send + Sync {
    /// Reads everything. May read files.
    fn load(&self) -> LoadedRules;

    /// Saves one more answer. Returns the file; an error says why the answer is not saved.
    fn save(&self, saved: &Saved) -> Result<PathBuf, String>;

    /// Removes a saved answer.
    fn remove(&self, saved: &Saved) -> Result<(), String>;
}

/// Rules and saved answers.
#[derive(Debug, Clone, Default)]
pub struct LoadedRules {
    /// The rules.
    pub policy: Policy,
    /// The answers.
    pub saved: Vec<Saved>,
    /// Remarks for people on how they were read: sentences.
    pub remarks: Vec<String>,
}

impl LoadedRules {
    fn news(&self) -> Vec<String> {
        let broken = self.policy.broken().iter().map(Broken::message);
        broken.chain(self.remarks.iter().cloned()).collect()
    }
}

/// Storage without rules and answers, in which nothing can be saved.
pub struct NoRules;

impl RuleStore for NoRules {
    fn load(&self) -> LoadedRules {
        LoadedRules::default()
    }

    fn save(&self, _: &Saved) -> Result<PathBuf, String> {
        Err("there is no file to save it in".to_owned())
    }

    fn remove(&self, _: &Saved) -> Result<(), String> {
        Ok(())
    }
}

/// Parts of a session's policy.
#[derive(Clone)]
pub struct PolicySetup {
    /// Rules and saved answers.
    pub store: Arc<dyn RuleStore>,
    /// `true` if somebody can be asked.
    pub interactive: bool,
    /// `true` if "always" is offered.
    pub always: bool,
    /// `true` if "always" can be saved.
    pub can_save: bool,
    /// Reason why the mode is not available in which everything is allowed.
    pub no_yolo: Option<String>,
    /// Files that are secret.
    pub secrets: Secrets,
}

impl Default for PolicySetup {
    fn default() -> Self {
        Self {
            store: Arc::new(NoRules),
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
    setup: PolicySetup,
    /// The workspace's directories, real paths.
    roots: Vec<PathBuf>,
    /// Scopes that are always allowed until the session ends.
    allowed: Mutex<Vec<Scope>>,
    /// Rules and saved answers, once read.
    loaded: Mutex<Option<Arc<LoadedRules>>>,
    /// Remarks that people have not seen yet.
    news: Mutex<Vec<String>>,
}

impl Permissions {
    /// Returns the policy of a session on these directories (real paths).
    pub fn new(mode: Mode, setup: PolicySetup, roots: &[PathBuf]) -> Self {
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

    /// Returns the approval mode.
    pub fn mode(&self) -> Mode {
        *self.mode.lock()
    }

    /// Returns the modes that are available.
    pub fn modes(&self) -> impl Iterator<Item = Mode> {
        let yolo = self.setup.no_yolo.is_none();
        Mode::ALL.into_iter().map(|(_, mode)| mode).filter(move |mode| yolo || *mode != Mode::Yolo)
    }

    /// Changes the approval mode. An error says why the mode is not available.
    pub fn set_mode(&self, mode: Mode) -> Result<(), String> {
        if let (Mode::Yolo, Some(why)) = (mode, &self.setup.no_yolo) {
            return Err(why.clone());
        }
        *self.mode.lock() = mode;
        Ok(())
    }

    /// Allows a scope until the session ends.
    pub fn allow(&self, scope: Scope) {
        let mut allowed = self.allowed.lock();
        if !allowed.contains(&scope) {
            allowed.push(scope);
        }
    }

    /// Allows a scope in this and in later sessions in this folder: in this mode, and in those that
    /// allow more. Returns the file; an error says why the scope counts for this session alone.
    pub fn save(&self, scope: Scope) -> Result<PathBuf, String> {
        self.allow(scope.clone());
        let saved = Saved { scope, folder: self.folder().to_owned(), mode: self.mode() };
        let file = self.setup.store.save(&saved)?;
        *self.loaded.lock() = Some(Arc::new(self.setup.store.load()));
        Ok(file)
    }

    /// Returns the scopes that are always allowed until the session ends.
    pub fn allowed(&self) -> Vec<Scope> {
        self.allowed.lock().clone()
    }

    /// Allows a scope no longer.
    pub fn disallow(&self, scope: &Scope) {
        self.allowed.lock().retain(|allowed| allowed != scope);
    }

    /// Removes a saved answer.
    pub fn unsave(&self, saved: &Saved) -> Result<(), String> {
        self.setup.store.remove(saved)?;
        *self.loaded.lock() = Some(Arc::new(self.setup.store.load()));
        Ok(())
    }

    /// Returns rules and saved answers; the first call reads them.
    pub fn loaded(&self) -> Arc<LoadedRules> {
        if let Some(loaded) = &*self.loaded.lock() {
            return Arc::clone(loaded);
        }
        let loaded = Arc::new(self.setup.store.load());
        self.news.lock().extend(loaded.news());
        *self.loaded.lock() = Some(Arc::clone(&loaded));
        loaded
    }

    /// Returns whether rules and saved answers have been read.
    pub fn is_loaded(&self) -> bool {
        self.loaded.lock().is_some()
    }

    /// Returns the remarks on rules that people have not seen yet: sentences.
    pub fn news(&self) -> Vec<String> {
        self.loaded();
        std::mem::take(&mut self.news.lock())
    }

    /// Has rules and saved answers read again when they are next needed.
    pub fn reload(&self) {
        *self.loaded.lock() = None;
    }

    /// Applies the policy to a call; commands are given this environment. Of a command line this looks
    /// files up: of a very long one, thousands.
    pub fn check(&self, request: &PolicyRequest<'_>, environment: &Environment) -> Checked {
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
        let (verdict, only_reads) = match request.access {
            Access::Execute { command, directory } => {
                command_line::verdict(&check, command, directory)
            }
            _ => (check.call(), false),
        };
        match check.doubted(verdict) {
            Verdict::Ask(question) => {
                let scopes = self.offered(question.scopes);
                let can_save = self.setup.always && self.setup.can_save;
                Checked::from(Verdict::Ask(Question { scopes, can_save, ..question }))
            }
            Verdict::Allow if only_reads => {
                Checked { verdict: Verdict::Allow, variables: environment.of_reading() }
            }
            verdict => Checked::from(verdict),
        }
    }

    /// Returns those of the scopes in which "always" is offered.
    pub fn offered(&self, scopes: Vec<Scope>) -> Vec<Scope> {
        if self.setup.always { scopes } else { Vec::new() }
    }

    /// Returns whether the model need not know of a tool, because a rule denies every call of it.
    pub fn removes(&self, request: &PolicyRequest<'_>) -> bool {
        self.loaded().policy.removes(request, &self.situation()).is_some()
    }

    fn situation(&self) -> Situation<'_> {
        let (mode, interactive) = (self.mode(), self.setup.interactive);
        Situation { mode, interactive, folder: self.folder() }
    }

    /// Returns the first of the workspace's directories.
    pub fn folder(&self) -> &Path {
        self.roots.first().map_or(Path::new("/"), PathBuf::as_path)
    }
}
