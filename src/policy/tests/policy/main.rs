//! Tests of the policy, through the public functions of its crate. No test starts the program.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
#![expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
#![expect(clippy::format_collect, reason = "speed does not matter here")]
#![expect(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod bash;
mod connections;
mod environment;
mod file;
mod git;
mod lines;
mod manual;
mod narrow;
mod patch;
mod program_input;
mod questions;
mod remembered;
mod sandbox;
mod secrets;
mod tables;
mod written;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tandem_approval::Environment;
use tandem_host::secrets::Secrets;
use tandem_policy::findings::{AssessedCommand, assess};
use tempfile::TempDir;

/// Returns the path of a file of the repository.
fn repository_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// Returns the environment of this process.
fn own_environment() -> Environment {
    Environment::new(std::env::vars_os())
}

/// Returns the environment of this process, with another home.
fn environment_at_home(home: &Path) -> Environment {
    let others = std::env::vars_os().filter(|(name, _)| name != "HOME");
    Environment::new(others.chain([("HOME".into(), home.into())]))
}

/// A workspace with all kinds of files.
struct Workspace {
    root: PathBuf,
    _dir: TempDir,
}

impl Workspace {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap().join("work");
        let dirs = ["src", "sub/deep", ".git", "bare/objects", "bare/refs", "dashes", "two"];
        for dir in
            dirs.into_iter().chain(["nested/.git", "nested/sub", "filed", "headless/objects"])
        {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        let files = ["README.md", "src/main.rs", "bare/HEAD", "dashes/-x", "package.json"];
        for file in files.into_iter().chain(["two/a.txt", "two/b.txt", "filed/.git"]) {
            fs::write(root.join(file), "").unwrap();
        }
        fs::create_dir(root.join("headless/refs")).unwrap();
        symlink("refs/heads/none", root.join("headless/HEAD")).unwrap();
        fs::create_dir(root.join("elsewhere")).unwrap();
        for file in ["elsewhere/HEAD", "elsewhere/commondir"] {
            fs::write(root.join(file), "").unwrap();
        }
        fs::write(root.with_file_name("secret"), "").unwrap();
        let home = root.with_file_name("home");
        fs::create_dir_all(home.join(".ssh")).unwrap();
        for file in [".netrc", ".ssh/id_rsa"] {
            fs::write(home.join(file), "").unwrap();
        }
        symlink("../secret", root.join("lnk")).unwrap();
        symlink("/etc", root.join("link-out")).unwrap();
        symlink("src", root.join("link-in")).unwrap();
        symlink("sub/deep", root.join("link-deep")).unwrap();
        symlink("/nowhere/at/all", root.join("dangling")).unwrap();
        Self { root, _dir: dir }
    }

    fn judge(&self, line: &str) -> Result<Vec<AssessedCommand>, String> {
        let home = self.root.with_file_name("home");
        assess(
            &environment_at_home(&home),
            line,
            &self.root,
            std::slice::from_ref(&self.root),
            &Secrets::default(),
        )
    }
}
