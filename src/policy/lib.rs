//! The policy on tool calls: the calls that run without a question, by approval modes, rules and earlier answers of
//! "always"; the questions about other calls, and the answers that these questions offer.
//!
//! A verdict has two halves. First the facts: [`findings`] has them of each command of a line, and `check` of other
//! calls; there is no policy in them. Then the table: [`decide`] has one row for each fact, and from it the action in
//! each mode and sandbox. Rules that people have written (`rules`) come before the table, and an "always" (`always`)
//! answers what the table asks about. `command_line` puts the verdicts on the commands of a line together, in the
//! sandbox mode that `confined` has chosen, and words the question.

mod always;
mod answer;
mod check;
mod choice;
mod command_line;
mod confined;
pub mod consent;
pub mod decide;
pub mod findings;
mod lookalike;
mod mode;
mod network;
mod patch;
mod reads;
pub mod rules;
pub mod sandbox_mark;
mod saved;
mod scope;
mod store;
mod verdict;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::always::Always;
pub use self::answer::{Answer, Decision};
use self::check::Check;
pub use self::choice::{Choice, ChoiceKind, is_same_word, plain_answer};
pub use self::findings::{Environment, SandboxSituation};
pub use self::mode::Mode;
pub use self::network::CONNECT_TOOL;
pub use self::rules::PolicyRequest;
use self::rules::Situation;
pub use self::saved::Saved;
pub use self::scope::Scope;
pub use self::store::{LoadedRules, NoRules, RuleStore};
pub use self::verdict::{BuiltInRule, Checked, Question, QuestionSubject, RuleName, Verdict};
use parking_lot::Mutex;
use tandem_host::Access;
use tandem_host::secrets::Secrets;
use tandem_sandbox::SandboxMode;

/// The parts that a session's policy is made of.
#[derive(Clone)]
pub struct PolicySetup {
    /// Rules and saved answers.
    pub store: Arc<dyn RuleStore>,
    /// `true` if a person can be asked.
    pub interactive: bool,
    /// `true` if questions offer "always".
    pub always: bool,
    /// `true` if "always" can be saved for later sessions.
    pub can_save: bool,
    /// Reason why mode `yolo` is not available; `None` if it is.
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
    /// Directories of the workspace, as real paths.
    roots: Vec<PathBuf>,
    /// Scopes that are always allowed until the session ends.
    allowed: Mutex<Vec<Scope>>,
    /// Rules and saved answers; `None` until they are read, and after a reload.
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

    /// Allows a scope in this session and in later sessions in this folder, in this mode and in those that allow more.
    /// Returns the file that holds the answer; an error says why the scope counts for this session alone.
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

    /// Stops allowing a scope in this session.
    pub fn disallow(&self, scope: &Scope) {
        self.allowed.lock().retain(|allowed| allowed != scope);
    }

    /// Removes a saved answer from the store.
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
        // The lock is not held while the store reads files. So two first calls may both read the files.
        let loaded = Arc::new(self.setup.store.load());
        self.news.lock().extend(loaded.remarks());
        *self.loaded.lock() = Some(Arc::clone(&loaded));
        loaded
    }

    /// Returns whether rules and saved answers have been read.
    pub fn is_loaded(&self) -> bool {
        self.loaded.lock().is_some()
    }

    /// Returns the remarks on rules that people have not seen yet: sentences.
    pub fn unseen_remarks(&self) -> Vec<String> {
        self.loaded();
        std::mem::take(&mut self.news.lock())
    }

    /// Discards rules and saved answers, so that they are read again when they are next needed.
    pub fn reload(&self) {
        *self.loaded.lock() = None;
    }

    /// Applies the policy to a call whose commands would run in `environment`. Blocks on file look-ups for a command
    /// line: thousands of them for a very long line.
    pub fn check(&self, request: &PolicyRequest<'_>, environment: &Environment) -> Checked {
        let loaded = self.loaded();
        let situation = self.situation();
        let check = Check {
            request,
            situation,
            policy: &loaded.policy,
            always: self.always(&loaded),
            roots: &self.roots,
            secrets: &self.setup.secrets,
            environment,
        };
        let mut checked = match request.access {
            Access::Execute { command, directory, sandbox } => {
                command_line::verdict(&check, command, directory, sandbox.as_ref())
            }
            _ => check.call().into(),
        };
        checked.verdict = match check.doubted(checked.verdict) {
            Verdict::Ask(question) => {
                let scopes = self.offered_scopes(question.scopes);
                let can_save = self.setup.always && self.setup.can_save;
                let subject = QuestionSubject::from_access(request.access);
                let remarks = match request.access {
                    Access::Execute { command, .. } => lookalike::remarks(command),
                    _ => Vec::new(),
                };
                let why = [vec![question.why], remarks].concat().join("; ");
                Verdict::Ask(Question { subject, why, scopes, can_save, ..question })
            }
            verdict => verdict,
        };
        // The variables are also given after a question, because a yes to reading is no yes to the hooks of a
        // repository.
        if checked.only_reads {
            checked.variables = environment.of_reading();
        }
        checked
    }

    /// Returns the sandbox mode in which commands run without a question, if there is a sandbox; `named`: the mode that
    /// the user has named.
    pub fn sandbox_mode(&self, named: Option<SandboxMode>) -> SandboxMode {
        let mode = self.mode();
        let edits = mode == Mode::AutoEdit || self.always(&self.loaded()).has(&Scope::Edits);
        confined::mode_unasked(named, mode, edits)
    }

    /// Returns the scopes that are always allowed now, by answers of this session and by saved answers.
    fn always(&self, loaded: &LoadedRules) -> Always {
        let counts = |saved: &&Saved| saved.applies(self.mode(), self.folder());
        let saved = loaded.saved.iter().filter(counts);
        Always(saved.map(|saved| saved.scope.clone()).chain(self.allowed()).collect())
    }

    /// Returns the scopes that a question may offer for an "always": all of them, or none if this session offers no
    /// "always".
    pub fn offered_scopes(&self, scopes: Vec<Scope>) -> Vec<Scope> {
        if self.setup.always { scopes } else { Vec::new() }
    }

    /// Returns whether a rule denies every call of a tool, so that the model need not know of the tool. A rule that
    /// denies a tool that edits files denies patches, too.
    pub fn removes(&self, request: &PolicyRequest<'_>) -> bool {
        let (loaded, situation) = (self.loaded(), self.situation());
        let mut requests = [*request].into_iter().chain(patch::alike(request));
        requests.any(|request| loaded.policy.removes(&request, &situation).is_some())
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
