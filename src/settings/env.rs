//! The environment, overlaid on the one `.env` that counts.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::dotenv;
use super::endpoint::api;
use super::owned_file;
use super::trust::{Trust, trust};
use tandem_model::provider::Provider;

/// Says `true` where the workspace is trusted.
pub(super) const TRUST: &str = "GEMINI_CLI_TRUST_WORKSPACE";

/// The variables that may hold paths relative to the working directory.
const PATHS: [&str; 4] = [
    "GEMINI_CLI_SYSTEM_DEFAULTS_PATH",
    "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
    "TANDEM_CONFIG_DIR",
    "TANDEM_STATE_DIR",
];

/// What the process was given: its environment, and the directory it works in.
#[derive(Clone)]
pub struct Env {
    vars: HashMap<String, String>,
    directory: PathBuf,
    /// Whether a folder is trusted of which nobody has said anything.
    trusts_unjudged: bool,
}

impl Env {
    /// This process's own environment.
    pub fn of_process(directory: &Path) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let mut env = Self::new(std::env::vars_os().filter_map(text), directory);
        // An editor may start programs with hardly an environment at all.
        if let (None, Some(home)) = (env.var("HOME"), std::env::home_dir()) {
            env.vars.insert("HOME".to_owned(), home.display().to_string());
        }
        env
    }

    /// An environment of these variables.
    pub fn new(vars: impl IntoIterator<Item = (String, String)>, directory: &Path) -> Self {
        let (vars, directory) = (vars.into_iter().collect(), directory.to_owned());
        Self { vars, directory, trusts_unjudged: false }
    }

    /// Returns the same for work in another directory. Paths in it lead where they did. Folders of
    /// which nobody has said anything are not trusted: the settings there say anew.
    #[must_use]
    pub fn in_directory(&self, directory: &Path) -> Self {
        let directory = directory.to_owned();
        let mut env = Self { directory, trusts_unjudged: false, ..self.clone() };
        for name in PATHS {
            if let Some(path) = env.vars.get_mut(name).filter(|path| !path.is_empty()) {
                *path = self.directory.join(&*path).display().to_string();
            }
        }
        env
    }

    /// From now on the workspace is trusted, as if the variable for that were set.
    pub fn trust_workspace(&mut self) {
        self.vars.insert(TRUST.to_owned(), "true".to_owned());
    }

    /// From now on every folder is trusted that the user has not said not to trust.
    pub fn trust_unjudged(&mut self) {
        self.trusts_unjudged = true;
    }

    /// What counts for a folder of which nobody has said anything.
    pub(super) fn unjudged(&self) -> Trust {
        if self.trusts_unjudged { Trust::Trusted } else { Trust::Unjudged }
    }

    /// A variable of the process, if there is anything in it.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The directory that it works in.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where this program keeps what is the user's own.
    pub fn config_dir(&self) -> Option<PathBuf> {
        let own = self.var("TANDEM_CONFIG_DIR").map(|dir| self.directory.join(dir));
        let xdg = || Some(self.absolute("XDG_CONFIG_HOME")?.join("tandem"));
        own.or_else(xdg).or_else(|| Some(self.home()?.join(".config/tandem")))
    }

    /// Where it keeps what is of use only as long as it runs.
    pub fn state_dir(&self) -> Option<PathBuf> {
        let own = self.var("TANDEM_STATE_DIR").map(|dir| self.directory.join(dir));
        let xdg = || Some(self.absolute("XDG_STATE_HOME")?.join("tandem"));
        own.or_else(xdg).or_else(|| Some(self.home()?.join(".local/state/tandem")))
    }

    /// The user's `.gemini`.
    pub fn gemini_dir(&self) -> Option<PathBuf> {
        let home = self.absolute("GEMINI_CLI_HOME").or_else(|| self.home());
        home.map(|home| home.join(".gemini"))
    }

    /// All of its variables.
    pub(super) fn vars(&self) -> &HashMap<String, String> {
        &self.vars
    }

    /// The user's home directory.
    pub fn home(&self) -> Option<PathBuf> {
        self.absolute("HOME")
    }

    fn absolute(&self, name: &str) -> Option<PathBuf> {
        self.var(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }
}

/// What the one `.env` that counts says.
#[derive(Default)]
pub(super) struct DotEnv {
    values: HashMap<String, String>,
    /// Everything it says, if it is the user's own or that of a folder that they trust.
    all: HashMap<String, String>,
    /// Which one it is.
    pub file: Option<PathBuf>,
    /// What was not used, and why: sentences.
    pub remarks: Vec<String>,
}

impl DotEnv {
    /// Reads the first that there is and that may be read: of the working directory and those
    /// above it in the project, then of the user.
    pub(super) fn read(env: &Env) -> Self {
        let mut found = Self::default();
        for (file, project) in files(env) {
            match read_file(env, &file, project.as_deref()) {
                Ok(Some((text, trust))) => {
                    found.take(&text, &file, trust);
                    return found;
                }
                Ok(None) => {}
                Err(why) => found.remark(&file, &format!("was not read: {why}")),
            }
        }
        found
    }

    /// What it has under any name at all, if it is trusted: for the values of settings.
    pub(super) fn trusted(&self, name: &str) -> Option<&str> {
        self.all.get(name).map(String::as_str)
    }

    /// Keys count anywhere but in a folder that is not to be trusted; what decides where keys and
    /// prompts go, in a trusted one.
    fn take(&mut self, text: &str, file: &Path, trust: Trust) {
        let apis = Provider::ALL.map(api);
        for (name, value) in dotenv::parse(text) {
            if trust == Trust::Trusted {
                self.all.insert(name.clone(), value.clone());
            }
            let is_setting = apis.iter().any(|api| api.settings.contains(&&*name));
            let is_key = apis.iter().any(|api| api.keys.contains(&&*name));
            if is_key || is_setting && trust == Trust::Trusted {
                self.values.insert(name, value);
            } else if is_setting {
                let why = format!("says {name}, which counts only in a folder that you trust");
                self.remark(file, &why);
            }
        }
        self.file = Some(file.to_owned());
    }

    fn remark(&mut self, file: &Path, why: &str) {
        self.remarks.push(format!("{} {why}.", file.display()));
    }
}

/// Where a `.env` may be, the first place first; in a project, with the directory to be trusted.
fn files(env: &Env) -> impl Iterator<Item = (PathBuf, Option<PathBuf>)> {
    let project = project_directories(env).into_iter().flat_map(|dir| {
        let files = [dir.join(".gemini/.env"), dir.join(".env")];
        files.map(|file| (file, Some(dir.clone())))
    });
    let user = [env.gemini_dir(), env.home()].into_iter().flatten();
    project.chain(user.map(|dir| (dir.join(".env"), None)))
}

/// What a `.env` says and how far to follow it; `None` if there is none.
fn read_file(
    env: &Env,
    file: &Path,
    project: Option<&Path>,
) -> Result<Option<(String, Trust)>, String> {
    // A Python environment may have that name too.
    if fs::symlink_metadata(file).is_err() || file.is_dir() {
        return Ok(None);
    }
    let trust = project.map_or(Trust::Trusted, |dir| trust(env, dir));
    if trust == Trust::Never {
        return Err("you have said not to trust its folder".to_owned());
    }
    match owned_file::read(file, owned_file::SMALL) {
        Ok(Some(read)) if read.others_may_write() => {
            Err(format!("it may be written by others (`chmod go-w {}`)", file.display()))
        }
        Ok(read) => Ok(read.map(|read| (read.text, trust))),
        Err(why) => Err(format!("it {why}")),
    }
}

/// The working directory and those above it, up to the repository's root, or else up to but not
/// including the user's home. If it is in neither, only itself: nobody knows whose the rest is.
/// None if it is the home itself or above it.
fn project_directories(env: &Env) -> Vec<PathBuf> {
    let real = |path: PathBuf| fs::canonicalize(&path).unwrap_or(path);
    let home = env.home().map(real);
    let start = real(env.directory.clone());
    let mut directories = Vec::new();
    if home.as_ref().is_some_and(|home| home.starts_with(&start)) {
        return directories;
    }
    for dir in start.ancestors() {
        if home.as_deref() == Some(dir) {
            return directories;
        }
        directories.push(dir.to_owned());
        if fs::symlink_metadata(dir.join(".git")).is_ok() {
            return directories;
        }
    }
    directories.truncate(1);
    directories
}

/// Both together: a `.env` never overrides the environment.
#[derive(Clone, Copy)]
pub(super) struct Vars<'a> {
    pub env: &'a Env,
    pub dotenv: &'a DotEnv,
}

/// A variable with a value in it, and where that was set.
#[derive(Clone, Copy)]
pub(super) struct Var<'a> {
    pub name: &'a str,
    pub value: &'a str,
    file: Option<&'a Path>,
}

impl<'a> Vars<'a> {
    /// A variable of the process, or else of the `.env`. What the process has empty is not set.
    pub(super) fn get(self, name: &'a str) -> Option<Var<'a>> {
        if self.env.vars.contains_key(name) { self.real(name) } else { self.dotenv(name) }
    }

    /// The first of these that the process has; or else the first that the `.env` has and the
    /// process has not, not even empty.
    pub(super) fn first(self, names: &[&'a str]) -> Option<Var<'a>> {
        let real = names.iter().find_map(|name| self.real(name));
        real.or_else(|| names.iter().find_map(|name| self.get(name)))
    }

    fn real(self, name: &'a str) -> Option<Var<'a>> {
        Var { name, value: self.env.vars.get(name)?, file: None }.filled()
    }

    fn dotenv(self, name: &'a str) -> Option<Var<'a>> {
        let file = self.dotenv.file.as_deref();
        Var { name, value: self.dotenv.values.get(name)?, file }.filled()
    }
}

impl Var<'_> {
    fn filled(self) -> Option<Self> {
        let value = self.value.trim();
        (!value.is_empty()).then_some(Self { value, ..self })
    }
}

impl fmt::Display for Var<'_> {
    /// Where it is set, never what to.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.file {
            Some(file) => write!(f, "{} in {}", self.name, file.display()),
            None => write!(f, "{} in the environment", self.name),
        }
    }
}
