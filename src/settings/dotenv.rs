//! The one `.env` file that counts, and the values in it that are followed.

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
    /// All values of the file, if it is the user's own or in a trusted folder; otherwise empty.
    all: HashMap<String, String>,
    /// Path of the file; `None` if there is no `.env` file that may be read.
    pub file: Option<PathBuf>,
    /// Sentences on files and values that were not used, with the reasons.
    pub remarks: Vec<String>,
}

impl DotEnv {
    /// Reads the first `.env` file that exists and may be read. The working directory and the directories above it in
    /// the project come first, then the user's own directories.
    pub(super) fn read(env: &Env) -> Self {
        let mut found = Self::default();
        for (file, project) in files(env) {
            match read_file(env, &file, project.as_deref()) {
                Ok(Some((text, trust))) => {
                    found.read_values(&text, &file, trust);
                    return found;
                }
                Ok(None) => {}
                Err(why) => found.remark(&file, &format!("was not read: {why}")),
            }
        }
        found
    }

    /// Returns a variable of any name, if the file is trusted. Used for variables in settings.
    pub(super) fn trusted(&self, name: &str) -> Option<&str> {
        self.all.get(name).map(String::as_str)
    }

    /// Takes the values of a file that count. Keys count unless the user has distrusted the folder. Variables that
    /// decide where keys and prompts are sent count only in a trusted folder.
    fn read_values(&mut self, text: &str, file: &Path, trust: Trust) {
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
                let why = format!("sets {name}, which counts only in a folder that you trust");
                self.remark(file, &why);
            }
        }
        self.file = Some(file.to_owned());
    }

    fn remark(&mut self, file: &Path, why: &str) {
        self.remarks.push(format!("{} {why}.", file.display()));
    }
}

/// Returns the paths where a `.env` file may be, in the order of reading. A path in a project comes with the directory
/// whose trust decides.
fn files(env: &Env) -> impl Iterator<Item = (PathBuf, Option<PathBuf>)> {
    let project = project_directories(env).into_iter().flat_map(|dir| {
        let files = [dir.join(".gemini/.env"), dir.join(".env")];
        files.map(|file| (file, Some(dir.clone())))
    });
    let user = [env.gemini_dir(), env.home()].into_iter().flatten();
    project.chain(user.map(|dir| (dir.join(".env"), None)))
}

/// Reads a `.env` file. Returns its text and the trust in it; `None` if there is no such file.
fn read_file(
    env: &Env,
    file: &Path,
    project: Option<&Path>,
) -> Result<Option<(String, Trust)>, String> {
    // A directory of this name is often a virtual environment of Python.
    if fs::symlink_metadata(file).is_err() || file.is_dir() {
        return Ok(None);
    }
    let trust = project.map_or(Trust::Trusted, |dir| trust(env, dir));
    if trust == Trust::Never {
        return Err("you have distrusted its folder".to_owned());
    }
    match owned_file::read(file, owned_file::MAX_SMALL_FILE_KIB) {
        Ok(Some(read)) if read.others_may_write() => {
            Err(format!("other users can write it (run `chmod go-w {}`)", file.display()))
        }
        Ok(read) => Ok(read.map(|read| (read.text, trust))),
        Err(why) => Err(format!("it {why}")),
    }
}

/// Returns the directories of the project: the working directory and the directories above it, up to the root of the
/// git repository, or else up to the user's home directory, which is not included. If the working directory is in
/// neither, only itself, since the directories above may belong to anyone. None if the working directory is the home
/// directory or above it.
pub(super) fn project_directories(env: &Env) -> Vec<PathBuf> {
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
