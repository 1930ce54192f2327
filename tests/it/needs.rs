//! Programs and rights that a test needs and a machine may lack. A test checks its needs first, and is skipped
//! without them. At the end of `cargo test`, `tests/needs` lists the skipped tests.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::thread;

use parking_lot::Mutex;
use rustix::process::geteuid;
use tempfile::TempDir;

use crate::places::seen_in_sandbox;
use crate::postgres::server::programs;

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
    Postgres,
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

/// Facts about a need.
struct Row {
    name: &'static str,
    /// Rest of the variable `TANDEM_REQUIRE_...`, with which tests fail instead of being skipped.
    variable: &'static str,
    /// Advice to a person whose machine lacks it.
    remedy: &'static str,
    is_here: fn() -> bool,
}

/// Directory that root's ssh server needs.
const SSHD_DIRECTORY: &str = "/run/sshd";

impl Need {
    fn row(self) -> Row {
        let row = |name, variable, remedy, is_here| Row { name, variable, remedy, is_here };
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
            Self::Postgres => row("Postgres", "POSTGRES", "install the package postgresql", || {
                programs().is_some()
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
            Self::Setpriv => row("setpriv", "SETPRIV", "install the package util-linux", || {
                !geteuid().is_root() || find("setpriv").is_some()
            }),
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

/// Returns `true` if this machine lacks what a test needs. The test is then skipped, which is recorded. Panics if
/// the need is required. With `--test-threads=1` the harness names no thread after its test, and all tests count as
/// one.
pub(crate) fn lacking(need: Need) -> bool {
    static HERE: Mutex<BTreeMap<Need, bool>> = Mutex::new(BTreeMap::new());
    let Row { name, variable, remedy, is_here } = need.row();
    let is_here = *HERE.lock().entry(need).or_insert_with(is_here);
    if !is_here {
        let is_required = |variable| std::env::var_os(format!("TANDEM_REQUIRE_{variable}"));
        let required = is_required(variable).or_else(|| is_required("ALL"));
        assert!(required.is_none(), "{name} is missing: {remedy}");
        record(name, remedy);
    }
    !is_here
}

/// Prints the need in this test's output, and records it for the list at the end of `cargo test`.
#[expect(clippy::print_stdout, reason = "captured; `--show-output` prints it")]
fn record(name: &str, remedy: &str) {
    println!("skipped without {name}: {remedy}");
    let test = thread::current().name().unwrap_or("a test").to_owned();
    // The parent, cargo, is the same for all that one `cargo test` runs.
    let line = [&parent_id().to_string(), name, remedy, &test].join("\t") + "\n";
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("skipped");
    let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
    // The line is written in one call, so that lines of parallel tests do not mix.
    file.write_all(line.as_bytes()).unwrap();
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
