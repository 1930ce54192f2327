//! The permissions of one session: the approval mode, and the scopes of answers that count. The policy decides on a call
//! with them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::environment::Environment;
use super::mode::Mode;
use super::policy::PolicyCall;
use super::request::{PolicyRequest, Situation};
use super::saved::Saved;
use super::scope::Scope;
use super::store::{LoadedRules, RuleStore};
use super::verdict::{Checked, Question, QuestionSubject, Verdict};
use parking_lot::Mutex;
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

impl PolicySetup {
    /// Returns the setup of a session in which a person can be asked, and "always" counts until the session ends.
    pub fn new(store: Arc<dyn RuleStore>) -> Self {
        Self {
            store,
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
        // The lock is not held while the store reads files, so that two first calls may both read them.
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
        let checked = loaded.policy.check(&PolicyCall {
            request,
            situation: self.situation(),
            always: &self.always(&loaded),
            roots: &self.roots,
            secrets: &self.setup.secrets,
            environment,
        });
        let verdict = match checked.verdict {
            Verdict::Ask(question) => {
                let scopes = self.offered_scopes(question.scopes);
                let can_save = self.setup.always && self.setup.can_save;
                let subject = QuestionSubject::from_access(request.access);
                Verdict::Ask(Question { subject, scopes, can_save, ..question })
            }
            verdict => verdict,
        };
        Checked { verdict, ..checked }
    }

    /// Returns the sandbox mode in which commands run without a question, if there is a sandbox; `named`: the mode that
    /// the user has named.
    pub fn sandbox_mode(&self, named: Option<SandboxMode>) -> SandboxMode {
        let mode = self.mode();
        let edits = mode == Mode::AutoEdit || self.always(&self.loaded()).contains(&Scope::Edits);
        sandbox_mode_unasked(named, mode, edits)
    }

    /// Returns the scopes that are always allowed now, by answers of this session and by saved answers.
    fn always(&self, loaded: &LoadedRules) -> Vec<Scope> {
        let counts = |saved: &&Saved| saved.applies(self.mode(), self.folder());
        let saved = loaded.saved.iter().filter(counts);
        saved.map(|saved| saved.scope.clone()).chain(self.allowed()).collect()
    }

    /// Returns the scopes that a question may offer for an "always": all of them, or none if this session offers no
    /// "always".
    pub fn offered_scopes(&self, scopes: Vec<Scope>) -> Vec<Scope> {
        if self.setup.always { scopes } else { Vec::new() }
    }

    /// Returns whether a rule denies every call of a tool, so that the model need not know of the tool. A rule that
    /// denies a tool that edits files denies patches, too.
    pub fn removes(&self, request: &PolicyRequest<'_>) -> bool {
        self.loaded().policy.removes(request, &self.situation())
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

/// Returns the sandbox mode in which commands run without a question; `named`: the mode that the user has named;
/// `edits`: files of the workspace are changed without a question.
pub fn sandbox_mode_unasked(named: Option<SandboxMode>, mode: Mode, edits: bool) -> SandboxMode {
    named.unwrap_or(match mode {
        Mode::Default if !edits => SandboxMode::ReadOnly,
        Mode::Plan => SandboxMode::ReadOnly,
        Mode::Default | Mode::AutoEdit | Mode::Yolo => SandboxMode::WorkspaceWrite,
    })
}
