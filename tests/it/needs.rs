//! Programs and rights that tests of the program need and a machine may lack.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use rustix::process::geteuid;
use tempfile::TempDir;
use test_support::needs::Requirement;

use crate::places::seen_in_sandbox;

/// A program or right that a machine has or lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    Bubblewrap,
    Caddy,
    Compiler,
    Curl,
    Landlock,
    Make,
    Namespaces,
    Nginx,
    Node,
    Npm,
    Pip,
    Procps,
    /// A sandbox that protects files of the workspace.
    ProtectingSandbox,
    Python,
    /// Any sandbox.
    Sandbox,
    Script,
    Setpriv,
    Sshd,
    Strace,
    Tmux,
    Wget,
}

/// Directory that root's ssh server needs.
const SSHD_DIRECTORY: &str = "/run/sshd";

impl Need {
    fn requirement(self) -> Requirement {
        let row = |name, variable, remedy, is_here| Requirement { name, variable, remedy, is_here };
        let namespaces = "let users make namespaces: docs/sandbox-details.md";
        match self {
            Self::Bubblewrap => row(
                "bubblewrap",
                "BUBBLEWRAP",
                "install the package bubblewrap, and let users make namespaces: docs/sandbox-details.md",
                || mechanism_works("bubblewrap"),
            ),
            Self::Caddy => {
                row("Caddy", "PROXIES", "install the package caddy", || find("caddy").is_some())
            }
            Self::Compiler => {
                row("a C compiler", "COMPILER", "install the package gcc", || find("cc").is_some())
            }
            Self::Curl => {
                row("curl", "CURL", "install the package curl", || find("curl").is_some())
            }
            Self::Landlock => row(
                "Landlock",
                "LANDLOCK",
                "run a Linux kernel that has it (5.13 or later): docs/sandbox-details.md",
                || mechanism_works("landlock"),
            ),
            Self::Make => {
                row("make", "MAKE", "install the package make", || find("make").is_some())
            }
            Self::Namespaces => {
                row("user namespaces", "NAMESPACES", namespaces, || mechanism_works("namespaces"))
            }
            Self::Nginx => {
                row("nginx", "PROXIES", "install the package nginx", || find("nginx").is_some())
            }
            Self::Node => {
                row("node", "NODE", "install the package nodejs", || find("node").is_some())
            }
            Self::Npm => row("npm", "NPM", "install the package npm", || runs("npm", &["-v"])),
            Self::Pip => row("pip", "PIP", "install the package python3-pip", || {
                runs("python3", &["-m", "pip", "--version"])
            }),
            Self::Procps => {
                row("ps", "PROCPS", "install the package procps", || find("ps").is_some())
            }
            Self::ProtectingSandbox => {
                row("a sandbox that protects files", "SANDBOX", namespaces, || {
                    best_mechanism().is_some_and(|name| name != "landlock")
                })
            }
            Self::Python => {
                row("Python", "PYTHON", "install the package python3", || python().is_some())
            }
            Self::Sandbox => row("a sandbox", "SANDBOX", namespaces, || best_mechanism().is_some()),
            Self::Script => {
                row("script", "SCRIPT", "install the package bsdutils", || find("script").is_some())
            }
            // Root of a container without other users cannot become another user.
            Self::Setpriv => row(
                "setpriv",
                "SETPRIV",
                "install the package util-linux, and run the tests where root can become another user",
                || {
                    !geteuid().is_root()
                        || runs("setpriv", &["--reuid=65534", "--clear-groups", "true"])
                },
            ),
            Self::Sshd => row(
                "sshd",
                "SSHD",
                "install the package openssh-server; for root, make the directory /run/sshd as well",
                || {
                    find("sshd").is_some()
                        && (!geteuid().is_root() || Path::new(SSHD_DIRECTORY).is_dir())
                },
            ),
            Self::Strace => row(
                "strace",
                "STRACE",
                "install the package strace, and run the tests as root where it may trace",
                // Arguments of system calls lie in the agent's memory, which ordinary users cannot read.
                || geteuid().is_root() && runs("strace", &["-f", "-o", "/dev/null", "true"]),
            ),
            Self::Tmux => row("tmux", "TMUX", "install the package tmux", || runs("tmux", &["-V"])),
            Self::Wget => {
                row("wget", "WGET", "install the package wget", || find("wget").is_some())
            }
        }
    }
}

/// Returns `true` if this machine lacks what a test needs. The test is then skipped.
pub(crate) fn lacking(need: Need) -> bool {
    need.requirement().is_lacking()
}

/// Returns where a program is installed. Servers of Debian are looked for as well, which few users have in their path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    directories.map(|directory| directory.join(program)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Returns whether a program, run like this, succeeds.
fn runs(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|ran| ran.status.success())
}

/// Returns the path of an interpreter that runs in any home.
pub(crate) fn python() -> Option<&'static str> {
    let installed = ["/usr/bin/python3", "/usr/local/bin/python3"];
    installed.into_iter().find(|path| is_program(Path::new(path)))
}

/// Returns the mechanism that `tandem --sandbox` has here.
pub(crate) fn best_mechanism() -> Option<&'static str> {
    static BEST: LazyLock<String> = LazyLock::new(|| {
        let home = TempDir::new().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
        command.arg("sandbox").env("HOME", home.path()).current_dir(home.path());
        let shown = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let name = shown.strip_prefix("Mechanism: ").and_then(|it| it.lines().next());
        name.unwrap().to_owned()
    });
    Some(BEST.as_str()).filter(|name| !name.starts_with("none"))
}

/// Returns whether a mechanism of the sandbox works here.
fn mechanism_works(mechanism: &str) -> bool {
    let home = seen_in_sandbox();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
    command.args(["sandbox", "--mechanism", mechanism, "-s", "read-only", "--", "true"]);
    command.env("HOME", home.path()).env("TANDEM_LOG", "off").current_dir(home.path());
    command.output().unwrap().status.success()
}
