//! The one `.env` file that counts, and how far it is followed.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::dotenv_syntax;
use super::env::Env;
use super::owned_file;
use super::provider_variables::provider_variables;
use super::trust::{Trust, trust};
use tandem_model::provider::Provider;

/// Values of the one `.env` file that counts.
#[derive(Default)]
pub(super) struct DotEnv {
    pub(super) values: HashMap<String, String>,
    /// All values, if the file is the user's own or in a trusted folder.
    all: HashMap<String, String>,
    /// Path of the file.
    pub file: Option<PathBuf>,
    /// Sentences on values that were not used, and why.
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

    /// Returns a value under any name, if the file is trusted: for variables in settings.
    pub(super) fn trusted(&self, name: &str) -> Option<&str> {
        self.all.get(name).map(String::as_str)
    }

    /// Keys count anywhere but in a folder that is not to be trusted; what decides where keys and
    /// prompts go, in a trusted one.
    fn take(&mut self, text: &str, file: &Path, trust: Trust) {
        let apis = Provider::ALL.map(provider_variables);
        for (name, value) in dotenv_syntax::parse(text) {
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

/// Returns the places of a `.env`, the first to read first; in a project, with the directory to be
/// trusted.
fn files(env: &Env) -> impl Iterator<Item = (PathBuf, Option<PathBuf>)> {
    let project = project_directories(env).into_iter().flat_map(|dir| {
        let files = [dir.join(".gemini/.env"), dir.join(".env")];
        files.map(|file| (file, Some(dir.clone())))
    });
    let user = [env.gemini_dir(), env.home()].into_iter().flatten();
    project.chain(user.map(|dir| (dir.join(".env"), None)))
}

/// Reads a `.env` and the trust in it; `None` if there is none.
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
    let start = real(env.directory().to_owned());
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
