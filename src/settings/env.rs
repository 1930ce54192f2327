//! The environment and working directory of the process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tandem_model::provider::Provider;

/// Variable that is `true` if the workspace is trusted.
pub(super) const TRUST_VARIABLE: &str = "GEMINI_CLI_TRUST_WORKSPACE";

/// Variable with the names of the model servers on this machine, such as Ollama, that are asked for their models.
const LOCAL_SERVERS_VARIABLE: &str = "TANDEM_LOCAL_SERVERS";

/// Variables that may hold paths relative to the working directory.
const PATH_VARIABLES: [&str; 5] = [
    "GEMINI_CLI_SYSTEM_DEFAULTS_PATH",
    "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
    "TANDEM_CONFIG_DIR",
    "TANDEM_SESSIONS",
    "TANDEM_STATE_DIR",
];

/// Environment and working directory of the process.
#[derive(Clone)]
pub struct Env {
    /// Variables of the process, shared by the environments of a server's sessions.
    vars: Arc<HashMap<String, String>>,
    directory: PathBuf,
    /// `true` if folders that the user has not judged are trusted.
    trusts_unjudged: bool,
}

impl Env {
    /// Returns this process's own environment.
    pub fn of_process(directory: &Path) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let mut env = Self::new(std::env::vars_os().filter_map(text), directory);
        // An editor may start programs with an almost empty environment.
        if let (None, Some(home)) = (env.var("HOME"), std::env::home_dir()) {
            env.set("HOME", home.display().to_string());
        }
        env
    }

    /// Returns an environment with the given variables.
    pub fn new(vars: impl IntoIterator<Item = (String, String)>, directory: &Path) -> Self {
        let (vars, directory) = (Arc::new(vars.into_iter().collect()), directory.to_owned());
        Self { vars, directory, trusts_unjudged: false }
    }

    /// Returns the environment for work in another directory. Relative paths in its variables are made absolute, so
    /// that they still lead to the same places. Unjudged folders are not trusted: the settings there decide anew.
    #[must_use]
    pub fn in_directory(&self, directory: &Path) -> Self {
        let directory = directory.to_owned();
        let mut env = Self { directory, trusts_unjudged: false, ..self.clone() };
        for name in PATH_VARIABLES {
            if let Some(path) = self.var(name).map(Path::new).filter(|path| path.is_relative()) {
                env.set(name, self.directory.join(path).display().to_string());
            }
        }
        env
    }

    /// Makes the workspace trusted from now on, as if `GEMINI_CLI_TRUST_WORKSPACE` were `true`.
    pub fn trust_workspace(&mut self) {
        self.set(TRUST_VARIABLE, "true".to_owned());
    }

    fn set(&mut self, name: &str, value: String) {
        Arc::make_mut(&mut self.vars).insert(name.to_owned(), value);
    }

    /// Makes folders that the user has not judged trusted from now on.
    pub fn trust_unjudged(&mut self) {
        self.trusts_unjudged = true;
    }

    /// Returns `true` if folders that the user has not judged are trusted.
    pub(super) fn trusts_unjudged(&self) -> bool {
        self.trusts_unjudged
    }

    /// Returns a variable of the process, if it is not empty.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the working directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the directory of the user's own configuration.
    pub fn config_dir(&self) -> Option<PathBuf> {
        let own = self.var("TANDEM_CONFIG_DIR").map(|dir| self.directory.join(dir));
        let xdg = || Some(self.absolute("XDG_CONFIG_HOME")?.join("tandem"));
        own.or_else(xdg).or_else(|| Some(self.home()?.join(".config/tandem")))
    }

    /// Returns the directory for logs, temporary files and other state of the program.
    pub fn state_dir(&self) -> Option<PathBuf> {
        let own = self.var("TANDEM_STATE_DIR").map(|dir| self.directory.join(dir));
        let xdg = || Some(self.absolute("XDG_STATE_HOME")?.join("tandem"));
        own.or_else(xdg).or_else(|| Some(self.home()?.join(".local/state/tandem")))
    }

    /// Returns the directory of the stored sessions; `None` if sessions are not to be stored, because
    /// `TANDEM_SESSIONS` is set and empty, or because there is no home directory.
    pub fn sessions_dir(&self) -> Option<PathBuf> {
        // `var` cannot be used, since an empty value has a meaning here.
        match self.vars.get("TANDEM_SESSIONS").map(String::as_str) {
            Some("") => None,
            Some(dir) => Some(self.directory.join(dir)),
            None => {
                let data = self.absolute("XDG_DATA_HOME");
                let data = data.or_else(|| Some(self.home()?.join(".local/share")));
                Some(data?.join("tandem/sessions"))
            }
        }
    }

    /// Returns the programs on this machine that are asked for their models: those that `TANDEM_LOCAL_SERVERS` names,
    /// none if it is set and empty, else all known ones.
    pub fn local_servers(&self) -> Vec<Provider> {
        let Some(wanted) = self.vars.get(LOCAL_SERVERS_VARIABLE) else {
            return Provider::LOCAL_PROGRAMS.to_vec();
        };
        let wanted: Vec<_> = wanted.split(',').map(str::trim).collect();
        Provider::LOCAL_PROGRAMS.into_iter().filter(|it| wanted.contains(&it.name())).collect()
    }

    /// Returns the user's `.gemini` directory.
    pub fn gemini_dir(&self) -> Option<PathBuf> {
        let home = self.absolute("GEMINI_CLI_HOME").or_else(|| self.home());
        home.map(|home| home.join(".gemini"))
    }

    /// Returns all variables of the process.
    pub(super) fn vars(&self) -> &HashMap<String, String> {
        &self.vars
    }

    /// Returns the user's home directory.
    pub fn home(&self) -> Option<PathBuf> {
        self.absolute("HOME")
    }

    fn absolute(&self, name: &str) -> Option<PathBuf> {
        self.var(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }
}
