//! Commands of git that read: no program that a repository names runs without a question.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tandem_approval::{Checked, Environment, Mode, Permissions, PolicyRequest, Verdict};
use tandem_host::Access;
use tandem_policy::findings::variables_of_reading;
use tempfile::TempDir;

use super::questions::{SHELL, commands};
use super::written::no_rules;

/// Settings of a repository that name programs, or lead to such settings. `{canary}` is a program,
/// `{file}` a configuration file with `core.fsmonitor`.
const KEYS: &[(&str, &str)] = &[
    ("alias.diff", "!{canary}"),
    ("alias.log", "!{canary}"),
    ("alias.status", "!{canary}"),
    ("browser.x.cmd", "{canary}"),
    ("core.alternateRefsCommand", "{canary}"),
    ("core.askPass", "{canary}"),
    ("core.editor", "{canary}"),
    ("core.fsmonitor", "{canary}"),
    ("core.gitProxy", "{canary}"),
    ("core.hooksPath", "{hooks}"),
    ("core.pager", "{canary}"),
    ("core.sshCommand", "{canary}"),
    ("core.worktree", "/"),
    ("credential.helper", "!{canary}"),
    ("credential.https://a.test.helper", "!{canary}"),
    ("diff.external", "{canary}"),
    ("diff.x.command", "{canary}"),
    ("diff.x.textconv", "{canary}"),
    ("difftool.x.cmd", "{canary}"),
    ("extensions.partialClone", "origin"),
    ("filter.x.clean", "{canary}"),
    ("filter.x.process", "{canary}"),
    ("filter.x.smudge", "{canary}"),
    ("gc.recentObjectsHook", "{canary}"),
    ("gpg.openpgp.program", "{canary}"),
    ("gpg.program", "{canary}"),
    ("gpg.ssh.defaultKeyCommand", "{canary}"),
    ("gpg.ssh.program", "{canary}"),
    ("gpg.x509.program", "{canary}"),
    ("hook.x.command", "{canary}"),
    ("include.path", "{file}"),
    ("includeIf.gitdir:**.path", "{file}"),
    ("init.templateDir", "{hooks}"),
    ("instaweb.httpd", "{canary}"),
    ("interactive.diffFilter", "{canary}"),
    ("lfs.customtransfer.x.path", "{canary}"),
    ("log.showSignature", "true"),
    ("man.x.cmd", "{canary}"),
    ("merge.x.driver", "{canary}"),
    ("mergetool.x.cmd", "{canary}"),
    ("pager.diff", "{canary}"),
    ("pager.log", "{canary}"),
    ("pager.status", "{canary}"),
    ("receive.procReceiveRefs", "{canary}"),
    ("remote.origin.promisor", "true"),
    ("remote.origin.receivepack", "{canary}"),
    ("remote.origin.uploadpack", "{canary}"),
    ("remote.origin.vcs", "x"),
    ("sendemail.sendmailCmd", "{canary}"),
    ("sequence.editor", "{canary}"),
    ("submodule.x.update", "!{canary}"),
    ("tar.tar.gz.command", "{canary}"),
    ("trailer.x.cmd", "{canary}"),
    ("trailer.x.command", "{canary}"),
    ("uploadpack.packObjectsHook", "{canary}"),
    ("web.browser", "{canary}"),
];

/// Lines that only read, unless the repository's settings make them run programs.
const LINES: &[&str] = &[
    "git status",
    "git diff",
    "git diff HEAD~1 --stat -p",
    "git log -p --remerge-diff -2",
    "git show --format='%H %(trailers)'",
    "git blame a",
    "git describe --always --dirty",
    "git stash show -p",
    "git grep --cached one",
];

/// A repository with a program that records that it was run.
struct Repository {
    dir: TempDir,
    root: PathBuf,
}

impl Repository {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap().join("work");
        fs::create_dir_all(root.join("hooks")).unwrap();
        let repository = Self { dir, root };
        let ran = repository.ran().display().to_string();
        for name in ["canary", "hooks/post-index-change", "hooks/fsmonitor-watchman"] {
            repository.program(name, &format!("#!/bin/sh\necho {name} \"$@\" >> {ran}\n"));
        }
        let canary = repository.root.join("canary").display().to_string();
        repository.file("evil", &format!("[core]\nfsmonitor = {canary}\n"));
        repository.file(".gitattributes", "* diff=x filter=x merge=x\n");
        repository.git(&["init", "-q", "-b", "main"]);
        for (file, text) in [("a", "one\n"), ("a", "two\n")] {
            repository.file(file, text);
            repository.git(&["add", "."]);
            repository.git(&["commit", "-q", "-m", "change"]);
        }
        repository.file("a", "three\n");
        repository.git(&["stash", "-q"]);
        repository.file("a", "four\n");
        repository
    }

    fn ran(&self) -> PathBuf {
        self.dir.path().join("ran")
    }

    fn file(&self, name: &str, text: &str) {
        fs::write(self.root.join(name), text).unwrap();
    }

    fn program(&self, name: &str, text: &str) {
        self.file(name, text);
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.root.join(name), mode).unwrap();
    }

    /// Returns the environment of a user without settings of git.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        let home = self.dir.path().join("home");
        [
            ("PATH", "/usr/bin:/bin"),
            ("HOME", home.to_str().unwrap()),
            ("GIT_AUTHOR_NAME", "x"),
            ("GIT_AUTHOR_EMAIL", "x@a.test"),
            ("GIT_COMMITTER_NAME", "x"),
            ("GIT_COMMITTER_EMAIL", "x@a.test"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec()
    }

    fn git(&self, args: &[&str]) {
        self.git_in(&self.root, args);
    }

    fn git_in(&self, directory: &Path, args: &[&str]) {
        let mut git = Command::new("git");
        git.args(args).current_dir(directory).env_clear().envs(self.environment());
        let done = git.stdin(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "git {args:?}: {done:?}");
    }

    fn set(&self, key: &str, value: &str) {
        let path = |name: &str| self.root.join(name).display().to_string();
        let value = value
            .replace("{canary}", &path("canary"))
            .replace("{hooks}", &path("hooks"))
            .replace("{file}", &path("evil"));
        self.git(&["config", key, &value]);
    }

    fn verdict(&self, directory: &Path, line: &str) -> Verdict {
        self.checked(Mode::Default, directory, line).verdict
    }

    fn permissions(&self, mode: Mode) -> Permissions {
        Permissions::new(mode, no_rules(), std::slice::from_ref(&self.root))
    }

    fn checked(&self, mode: Mode, directory: &Path, line: &str) -> Checked {
        self.checked_with(&self.permissions(mode), directory, line)
    }

    fn checked_with(&self, permissions: &Permissions, directory: &Path, line: &str) -> Checked {
        let access = Access::Execute {
            command: line.to_owned(),
            directory: directory.to_owned(),
            sandbox: None,
        };
        let args = serde_json::json!({ "command": line });
        let request = PolicyRequest { tool: SHELL, aliases: &[], args: &args, access: &access };
        permissions.check(&request, &Environment::new(self.environment()))
    }

    /// Runs a line with additional variables. Returns the names of the repository's programs that were run.
    fn run(&self, directory: &Path, line: &str, variables: Vec<(String, String)>) -> String {
        // Git runs filters and hooks only for a changed file, so the file changes before each run.
        self.file("a", &format!("{}four\n", fs::read_to_string(self.root.join("a")).unwrap()));
        // Git writes the index, and runs the hook for it, only if a file is newer than the index.
        self.file("evil", &fs::read_to_string(self.root.join("evil")).unwrap());
        let mut bash = Command::new("/bin/bash");
        bash.args(["-c", line]).current_dir(directory).env_clear().envs(self.environment());
        bash.envs([("PAGER", "cat"), ("GIT_PAGER", "cat")]).envs(variables);
        bash.stdin(Stdio::null()).output().unwrap();
        let ran = fs::read_to_string(self.ran()).unwrap_or_default();
        let _ = fs::remove_file(self.ran());
        ran
    }

    /// Checks that a line that is not asked about runs no program of the repository.
    #[track_caller]
    fn check(&self, directory: &Path, line: &str, what: &str) -> Verdict {
        let verdict = self.verdict(directory, line);
        if verdict == Verdict::Allow {
            let reading = variables_of_reading(&Environment::new(self.environment()));
            assert_eq!(self.run(directory, line, reading), "", "{what}: {line}");
        }
        verdict
    }
}

#[test]
fn nothing_that_the_configuration_names_runs_without_a_question() {
    let mut live = Vec::new();
    let repository = Repository::new();
    let (config, attributes) = (repository.root.join(".git/config"), repository.root.join("a"));
    let (before, content) = (fs::read(&config).unwrap(), fs::read(&attributes).unwrap());
    for (key, value) in KEYS {
        repository.set(key, value);
        for line in LINES {
            repository.check(&repository.root, line, key);
        }
        // Without the variables that the policy sets, some of these lines run programs of the repository.
        if LINES.iter().any(|line| !repository.run(&repository.root, line, Vec::new()).is_empty()) {
            live.push(*key);
        }
        fs::write(&config, &before).unwrap();
        fs::write(&attributes, &content).unwrap();
    }
    for key in ["core.fsmonitor", "core.hooksPath", "diff.external", "diff.x.textconv"] {
        assert!(live.contains(&key), "{key} of {live:?}");
    }
    for key in ["filter.x.clean", "filter.x.process", "include.path"] {
        assert!(live.contains(&key), "{key} of {live:?}");
    }
}

#[test]
fn an_ordinary_repository_is_read_without_a_question() {
    let repository = Repository::new();
    for (key, value) in [
        ("core.hooksPath", ".husky"),
        ("remote.origin.url", "https://a.test/x"),
        ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        ("branch.main.remote", "origin"),
        ("branch.main.vscode-merge-base", "origin/main"),
        ("user.email", "x@a.test"),
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("blame.ignoreRevsFile", "a"),
        ("submodule.x.url", "../x"),
    ] {
        repository.set(key, value);
    }
    let directory = repository.root.join("hooks");
    for line in LINES.iter().chain(&["git config --get user.email", "git config --list"]) {
        assert_eq!(repository.check(&repository.root, line, line), Verdict::Allow, "{line}");
        assert_eq!(repository.check(&directory, line, line), Verdict::Allow, "{line}");
    }
}

/// Checks that a line is asked about, and that git would have run a program of the repository.
#[track_caller]
fn check_asked(repository: &Repository, directory: &Path, line: &str, what: &str) {
    assert!(matches!(repository.verdict(directory, line), Verdict::Ask(_)), "{what}: {line}");
    assert_ne!(repository.run(directory, line, Vec::new()), "", "{what}: {line}");
}

#[test]
fn the_configuration_of_a_worktree_counts() {
    let repository = Repository::new();
    repository.set("extensions.worktreeConfig", "true");
    let canary = repository.root.join("canary").display().to_string();
    repository.git(&["config", "--worktree", "core.fsmonitor", &canary]);
    check_asked(&repository, &repository.root, "git status", "config.worktree");
}

#[test]
fn the_configuration_of_what_a_file_points_to_counts() {
    let repository = Repository::new();
    repository.git(&["worktree", "add", "-q", "../other"]);
    repository.set("core.fsmonitor", "{canary}");
    let other = repository.root.with_file_name("other");
    let at_other = Repository { root: other.clone(), dir: tempfile::tempdir().unwrap() };
    assert!(matches!(at_other.verdict(&other, "git status"), Verdict::Ask(_)));
    repository.git(&["config", "--unset", "core.fsmonitor"]);
    assert_eq!(at_other.verdict(&other, "git status"), Verdict::Allow);
}

#[test]
fn the_configuration_above_the_workspace_counts() {
    let repository = Repository::new();
    repository.set("core.fsmonitor", "{canary}");
    let below =
        Repository { root: repository.root.join("hooks"), dir: tempfile::tempdir().unwrap() };
    assert!(matches!(below.verdict(&below.root, "git status"), Verdict::Ask(_)));
}

#[test]
fn the_configuration_of_each_submodule_counts_with_every_kind_of_index() {
    for version in ["2", "3", "4"] {
        let repository = Repository::new();
        let sub = repository.root.join("long/name/of/sub");
        fs::create_dir_all(&sub).unwrap();
        repository.git_in(&sub, &["init", "-q", "-b", "main"]);
        repository.git_in(&sub, &["commit", "-q", "--allow-empty", "-m", "x"]);
        repository.git(&["update-index", "--index-version", version]);
        repository.git(&["add", "-f", "long/name/of/sub"]);
        for line in LINES {
            assert_eq!(repository.verdict(&repository.root, line), Verdict::Allow, "{line}");
        }
        let canary = repository.root.join("canary").display().to_string();
        repository.git_in(&sub, &["config", "core.fsmonitor", &canary]);
        check_asked(&repository, &repository.root, "git status", version);
        check_asked(&repository, &repository.root, "git diff", version);
    }
}

#[test]
fn an_index_in_several_files_is_asked_about() {
    let repository = Repository::new();
    repository.git(&["update-index", "--split-index"]);
    assert!(matches!(repository.verdict(&repository.root, "git status"), Verdict::Ask(_)));
}

#[test]
fn no_hook_runs_where_a_wrapper_takes_variables_away() {
    let repository = Repository::new();
    repository.set("core.hooksPath", "{hooks}");
    for line in [
        "env -i git status",
        "env - git status",
        "env --ignore-environment git status",
        "env -u GIT_CONFIG_COUNT -u GIT_OPTIONAL_LOCKS git status",
        "env -uGIT_CONFIG_COUNT -uGIT_OPTIONAL_LOCKS git status",
        "exec -c git status",
    ] {
        check_asked(&repository, &repository.root, line, "hooks");
    }
    assert_eq!(repository.check(&repository.root, "env -u LANG git status", ""), Verdict::Allow);
}

#[test]
fn no_hook_runs_where_a_line_also_writes_a_file() {
    let repository = Repository::new();
    repository.set("core.hooksPath", "{hooks}");
    let line = "echo x > b; git status";
    let Checked { verdict, variables, .. } =
        repository.checked(Mode::AutoEdit, &repository.root, line);
    assert_eq!(verdict, Verdict::Allow);
    assert_ne!(repository.run(&repository.root, line, Vec::new()), "");
    assert_eq!(repository.run(&repository.root, line, variables), "");
}

#[test]
fn no_hook_runs_after_a_yes_to_a_line_that_only_reads() {
    let repository = Repository::new();
    repository.set("core.hooksPath", "{hooks}");
    let line = "echo x > b; git status";
    let Checked { verdict, variables, .. } =
        repository.checked(Mode::Default, &repository.root, line);
    assert!(matches!(verdict, Verdict::Ask(_)), "{verdict:?}");
    assert_ne!(repository.run(&repository.root, line, Vec::new()), "");
    assert_eq!(repository.run(&repository.root, line, variables), "");
}

/// Checks whether `git status` is asked about in a line whose other command is always allowed.
#[track_caller]
fn check_beside_more(repository: &Repository, asked: bool) {
    for line in [
        "touch x && git status",
        "git status; touch x",
        "touch x; for f in a b; do git status; done",
        "touch x; timeout 9 git status",
        "touch x; bash -c 'git status'",
    ] {
        let permissions = repository.permissions(Mode::Default);
        permissions.allow(commands(&["touch"]));
        let Checked { verdict, variables, .. } =
            repository.checked_with(&permissions, &repository.root, line);
        assert_eq!(matches!(verdict, Verdict::Ask(_)), asked, "{line}: {verdict:?}");
        // The variables that disable hooks are not set: they would disable the hooks of the line's other commands as
        // well.
        assert_eq!(variables, [], "{line}");
        if !asked {
            assert_eq!(repository.run(&repository.root, line, Vec::new()), "", "{line}");
        }
    }
}

#[test]
fn no_hook_runs_without_a_question_in_a_line_that_does_more_than_read() {
    let repository = Repository::new();
    check_beside_more(&repository, false);
    repository.set("core.hooksPath", "{hooks}");
    check_beside_more(&repository, true);
    repository.set("core.hooksPath", "hooks");
    check_beside_more(&repository, true);
    // A directory with hooks that only changing commands run, such as `pre-commit`: `git status` runs none of these.
    fs::create_dir(repository.root.join("others")).unwrap();
    repository.program("others/pre-commit", "#!/bin/sh\n");
    repository.program("others/post-index-change.sample", "#!/bin/sh\n");
    repository.set("core.hooksPath", "others");
    check_beside_more(&repository, false);
    repository.set("core.hooksPath", "~/hooks");
    check_beside_more(&repository, true);
    repository.git(&["config", "--unset", "core.hooksPath"]);
    fs::create_dir_all(repository.root.join(".git/hooks")).unwrap();
    repository.program(".git/hooks/post-index-change", "#!/bin/sh\n");
    check_beside_more(&repository, true);
}
