//! The environment of commands: names that stand for programs of the workspace, and variables that lead there.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use tandem_approval::Environment;
use tandem_host::secrets::Secrets;
use tandem_policy::findings::assess;

use super::Workspace;

/// Returns a workspace with programs that have the names of well-known ones.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    for dir in ["", "node_modules/.bin", ".venv/bin", "sub"] {
        let dir = workspace.root.join(dir);
        fs::create_dir_all(&dir).unwrap();
        for name in ["ls", "git", "bash", "nice", "rg", "gpg", "node"] {
            let path = dir.join(name);
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    let bin = workspace.root.with_file_name("bin");
    fs::create_dir(&bin).unwrap();
    symlink(workspace.root.join("ls"), bin.join("ls")).unwrap();
    workspace
}

/// Checks whether a line is asked about with these variables. `{root}` is the workspace.
#[track_caller]
fn check(workspace: &Workspace, variables: &[(&str, &str)], line: &str, asks: bool) {
    let root = workspace.root.display().to_string();
    let above = workspace.root.parent().map(Path::display).unwrap().to_string();
    let value = |value: &str| value.replace("{root}", &root).replace("{above}", &above);
    let path = ("PATH", "/usr/bin:/bin");
    let known = variables.iter().any(|(name, _)| *name == "PATH");
    let variables = variables.iter().chain((!known).then_some(&path));
    let environment =
        Environment::new(variables.map(|(name, text)| ((*name).into(), value(text).into())));
    let roots = std::slice::from_ref(&workspace.root);
    let parts = assess(&environment, line, &workspace.root, roots, &Secrets::default());
    let found = parts.unwrap().iter().any(|part| !part.findings.is_empty());
    assert_eq!(found, asks, "{environment:?} {line}");
}

#[test]
fn a_name_that_stands_for_a_program_of_the_workspace_is_asked_about() {
    let workspace = workspace();
    for path in [
        ".:/usr/bin",
        ":/usr/bin",
        "/usr/bin::",
        "/none:.",
        "./node_modules/.bin:/usr/bin",
        "node_modules/.bin:/usr/bin",
        "{root}/node_modules/.bin:/usr/bin",
        "{root}/.venv/bin:/usr/bin",
        "{root}:/usr/bin",
        "{above}/bin:/usr/bin",
        "{above}/work/sub:/usr/bin",
        "{root}/../work/sub:/usr/bin",
    ] {
        let first = !path.starts_with("/usr/bin");
        for line in ["ls", "ls; ls", "x=1; ls -l", "(ls)", "nice ls", "xargs ls", "bash -c ls"] {
            if line != "xargs ls" {
                check(&workspace, &[("PATH", path)], line, first);
            }
        }
        check(&workspace, &[("PATH", path)], "cat README.md", false);
    }
    let path = [("PATH", ".:/usr/bin:/bin")];
    check(&workspace, &path, "bash -c 'cat README.md'", true);
    check(&workspace, &path, "bash -c ''", true);
    check(&workspace, &path, "nice cat README.md", true);
    check(&workspace, &path, "cd src && ls", false);
    check(&workspace, &path, "cd sub && ls", true);
    check(&workspace, &path, "git status", true);
    check(&workspace, &[("PATH", "sub:/usr/bin:/bin")], "cd src; ls", false);
    check(&workspace, &[("PATH", "../sub:/usr/bin:/bin")], "cd src; ls", true);
    check(&workspace, &[], "ls", false);
}

/// Variables, and a line that obeys them and is allowed without them.
const OBEYED: &[(&str, &str, &str)] = &[
    ("BASH_ENV", "x.sh", "pwd"),
    ("BASH_ENV", "{root}/x.sh", "ls"),
    ("BASH_ENV", "./x.sh", "ls"),
    ("ENV", "./x.sh", "ls"),
    ("LD_PRELOAD", "./x.so", "ls"),
    ("LD_PRELOAD", "/usr/lib/a.so {root}/x.so", "ls"),
    ("LD_LIBRARY_PATH", "lib", "ls"),
    ("LD_LIBRARY_PATH", "/usr/lib:{root}/lib", "cat README.md"),
    ("LD_LIBRARY_PATH", "/usr/lib;{root}/lib", "cat README.md"),
    ("LD_AUDIT", "{root}/x.so", "ls"),
    ("DYLD_INSERT_LIBRARIES", "{root}/x.so", "ls"),
    ("GCONV_PATH", "{root}", "ls"),
    ("RIPGREP_CONFIG_PATH", ".ripgreprc", "rg x"),
    ("RIPGREP_CONFIG_PATH", "{root}/.ripgreprc", "rg x"),
    ("GREP_OPTIONS", "-f ../x", "grep x README.md"),
    ("MAGIC", "magic", "file README.md"),
    ("GIT_EXTERNAL_DIFF", "./x", "git diff"),
    ("GIT_EXTERNAL_DIFF", "sh {root}/x", "git diff"),
    ("GIT_PAGER", "./less", "git log"),
    ("GIT_SSH", "./ssh", "git log"),
    ("GIT_SSH_COMMAND", "ssh -F ./config", "git log"),
    ("GIT_ASKPASS", "{root}/x", "git log"),
    ("GIT_EDITOR", "./x", "git log"),
    ("GIT_CONFIG_GLOBAL", "gitconfig", "git status"),
    ("GIT_CONFIG_GLOBAL", "{root}/gitconfig", "git status"),
    ("GIT_CONFIG_SYSTEM", "{root}/gitconfig", "git status"),
    ("GIT_CONFIG_PARAMETERS", "'core.fsmonitor'='./x'", "git status"),
    ("GIT_CONFIG_VALUE_0", "{root}/x", "git status"),
    ("GIT_EXEC_PATH", "{root}", "git status"),
    ("GIT_DIR", ".git", "git status"),
    ("GIT_DIR", "/srv/x.git", "git status"),
    ("GIT_WORK_TREE", "/", "git status"),
    ("GIT_INDEX_FILE", "/tmp/index", "git status"),
    ("GIT_OBJECT_DIRECTORY", "/tmp/objects", "git status"),
    ("GIT_TRACE", "{root}/trace", "git status"),
    ("HOME", "{root}/home", "git status"),
    ("HOME", "home", "git status"),
    ("XDG_CONFIG_HOME", "{root}/x", "git status"),
    ("NODE_OPTIONS", "--require ./x.js", "node --version"),
    ("NODE_OPTIONS", "--require ./x.js", "npm --version"),
    ("PYTHONPATH", "src", "pip --version"),
    ("PYTHONPATH", "{root}", "python3 --version"),
    ("PYTHONSTARTUP", "x.py", "python3 --version"),
    ("PERL5OPT", "-I./lib", "perl --version"),
    ("RUBYOPT", "-r./x", "ruby --version"),
    ("JAVA_TOOL_OPTIONS", "-javaagent:./x.jar", "java --version"),
    ("RUSTC_WRAPPER", "./x", "cargo --version"),
    ("RUSTUP_TOOLCHAIN", "{root}/toolchain", "cargo --version"),
    ("GOROOT", "{root}/go", "go version"),
    ("BASH_FUNC_ls%%", "() { ./x; }", "ls"),
    ("BASH_FUNC_git()", "() { ./x; }", "git status"),
];

#[test]
fn a_variable_that_leads_into_the_workspace_is_asked_about() {
    let workspace = Workspace::new();
    for (name, value, line) in OBEYED {
        check(&workspace, &[], line, false);
        check(&workspace, &[(name, value)], line, true);
    }
}

#[test]
fn a_variable_that_leads_elsewhere_is_the_users_own() {
    let workspace = Workspace::new();
    for (name, value, line) in [
        ("BASH_ENV", "/home/me/.bash_env", "ls"),
        ("BASH_ENV", "", "ls"),
        ("LD_LIBRARY_PATH", "/opt/lib", "ls"),
        ("LD_LIBRARY_PATH", "{root}-other/lib", "ls"),
        ("LD_LIBRARY_PATH", "/opt/two words/lib:/opt/a clone/lib", "ls"),
        ("GIT_CONFIG_GLOBAL", "/home/two words/gitconfig", "git log"),
        ("RIPGREP_CONFIG_PATH", "/home/me/.ripgreprc", "rg x"),
        ("RIPGREP_CONFIG_PATH", "x", "ls"),
        ("GIT_PAGER", "less -R", "git log"),
        ("EDITOR", "vim", "git log"),
        ("EDITOR", "code --wait", "git log"),
        ("GIT_TRACE", "1", "git log"),
        ("GIT_TRACE", "true", "git log"),
        ("GIT_CONFIG_GLOBAL", "/dev/null", "git log"),
        ("HOME", "/home/me", "git log"),
        ("HOME", "{root}", "git log"),
        ("PATH", "{root}/none:/usr/bin:/bin", "git log"),
        ("NODE_OPTIONS", "--max-old-space-size=4096", "node --version"),
        ("BASH_FUNC_other%%", "() { ./x; }", "ls"),
    ] {
        check(&workspace, &[(name, value)], line, false);
    }
}
