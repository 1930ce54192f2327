//! Files that hold secrets: files with well-known names, and the agent's own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};

use super::name_list::NameList;

/// Table of names of files that hold secrets, and of names that only look like them.
const SECRET_TABLE: &str = include_str!("secrets.toml");

static SECRET_NAMES: LazyLock<SecretNames> = LazyLock::new(|| {
    // A test parses the table, so this cannot fail here.
    SecretNames::parse(SECRET_TABLE).unwrap_or_default()
});

#[derive(Default)]
struct SecretNames {
    secret: NameList,
    public: NameList,
}

impl SecretNames {
    fn parse(text: &str) -> Result<Self, String> {
        let mut tables: BTreeMap<String, BTreeMap<String, String>> =
            toml::from_str(text).map_err(|err| err.to_string())?;
        let mut list = |name: &str| NameList::new(tables.remove(name).unwrap_or_default());
        Ok(Self { secret: list("secret")?, public: list("public")? })
    }
}

/// Rules that say which files hold secrets.
#[derive(Debug, Clone, Default)]
pub struct Secrets(Arc<AgentDirectories>);

/// Directories in which the agent keeps its keys and its state.
#[derive(Debug, Default)]
struct AgentDirectories {
    named: Vec<PathBuf>,
    /// Real paths of the directories, resolved when first needed.
    real: OnceLock<Vec<PathBuf>>,
    /// Real path of a directory inside them that counts like any other directory.
    except: OnceLock<PathBuf>,
}

impl Secrets {
    /// Returns the rules with these directories added as the agent's own, in which every file is secret.
    pub fn with(directories: Vec<PathBuf>) -> Self {
        Self(Arc::new(AgentDirectories { named: directories, ..AgentDirectories::default() }))
    }

    /// Excludes a directory, given by its real path, from the agent's own directories: files in it are judged like
    /// other files.
    pub(super) fn except(&self, directory: &Path) {
        let _ = self.0.except.set(directory.to_owned());
    }

    /// Returns the reason why a file, given by its real path, is secret. A directory is secret with all files below it.
    pub fn why(&self, path: &Path) -> Option<&'static str> {
        let is_except = self.0.except.get().is_some_and(|dir| path.starts_with(dir));
        if !is_except && self.own_paths().iter().any(|dir| path.starts_with(dir)) {
            return Some("tandem keeps its keys and its state there");
        }
        let lists = &*SECRET_NAMES;
        lists.secret.why(path).filter(|_| !lists.public.names(path, false))
    }

    /// Returns whether a file or directory that a walk meets is secret, judged without the directories above it. A
    /// directory is secret with all files below it.
    pub fn hides(&self, path: &Path, is_directory: bool) -> bool {
        let own = || is_directory && self.own_paths().iter().any(|dir| path == dir);
        let lists = &*SECRET_NAMES;
        let named = lists.secret.names(path, is_directory);
        named && !lists.public.names(path, is_directory) || own()
    }

    /// Returns the real paths, sorted, of existing secret files and directories: those whose rows begin at the root or
    /// at this home, and the agent's own. Blocks.
    pub(super) fn existing_paths(&self, home: Option<&Path>) -> Vec<PathBuf> {
        let mut known = self.existing_in(Path::new("/"));
        known.extend(home.into_iter().flat_map(|home| self.existing_in(home)));
        let mut known: Vec<_> = known.iter().filter_map(|it| it.canonicalize().ok()).collect();
        known.sort();
        known.dedup();
        known
    }

    /// Returns the existing secret files and directories whose rows begin at a directory, such as the user's home, and
    /// the agent's own.
    fn existing_in(&self, directory: &Path) -> Vec<PathBuf> {
        let lists = &*SECRET_NAMES;
        let mut existing = lists.secret.existing_in(directory);
        existing.retain(|path| !lists.public.names(path, path.is_dir()));
        existing.extend(self.own_paths().iter().cloned());
        existing
    }

    fn own_paths(&self) -> &[PathBuf] {
        let real = |dir: &PathBuf| fs::canonicalize(dir).unwrap_or_else(|_| dir.clone());
        self.0.real.get_or_init(|| self.0.named.iter().map(real).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_can_be_read_and_every_row_counts() {
        let tables: BTreeMap<String, BTreeMap<String, String>> =
            toml::from_str(SECRET_TABLE).unwrap();
        assert_eq!(tables.keys().collect::<Vec<_>>(), ["public", "secret"]);
        SecretNames::parse(SECRET_TABLE).unwrap();
        for row in tables["secret"].keys() {
            let path = Path::new("/home/me").join(row.replace('*', "x"));
            assert!(Secrets::default().why(&path).is_some(), "{row}");
            // Such a row would make the search visit each directory of the root and of the home.
            let begins_anywhere = row.starts_with('*') && row.trim_end_matches('/').contains('/');
            assert!(!begins_anywhere, "{row}");
            if row.ends_with('/') {
                assert!(Secrets::default().why(&path.join("a/b")).is_some(), "{row}");
            }
        }
        for row in tables["public"].keys() {
            let path = Path::new("/home/me").join(row.replace('*', "id_x"));
            assert_eq!(Secrets::default().why(&path), None, "{row}");
        }
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        for path in [
            "/w/.env",
            "/w/deep/.env.production",
            "/home/me/.ssh/config",
            "/home/me/.SSH/id_rsa",
            "/w/server.key",
            "/home/me/.aws/credentials",
            "/home/me/.config/google-chrome/Default/Login Data",
            "/home/me/.gemini/oauth_creds.json",
            "/proc/12/environ",
        ] {
            assert!(Secrets::default().why(Path::new(path)).is_some(), "{path}");
        }
    }

    #[test]
    fn ordinary_files_are_no_secrets() {
        for path in [
            "/w/src/main.rs",
            "/w/.env.example",
            "/w/.environment",
            "/w/env",
            "/w/keys.rs",
            "/w/id_rsa.pub",
            "/w/secrets.rs",
            "/w/package.json",
            "/w/.gemini/settings.json",
            "/w/GEMINI.md",
            "/w/.github/workflows/ci.yml",
            "/w/config.json",
            "/home/me",
            "/",
        ] {
            assert_eq!(Secrets::default().why(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn what_the_agent_keeps_is_secret() {
        let dir = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(dir.path()).unwrap();
        let secrets = Secrets::with(vec![real.clone()]);
        assert!(secrets.why(&real.join("credentials")).is_some());
        assert!(secrets.hides(&real, true) && !secrets.hides(&real.join("x"), true));
    }
}
