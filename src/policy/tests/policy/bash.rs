//! Comparison with bash: which programs bash runs of a line. The programs only record that they were run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use proptest::prelude::*;
use tandem_policy::findings::AssessedCommand;

use super::lines::{gravest, pieces, sensible};
use super::{Workspace, repository_file};

/// Programs that run others, and are the real ones here. The policy judges the programs that they run.
const WRAPPERS: &[&str] =
    &["env", "ionice", "nice", "nohup", "setsid", "stdbuf", "timeout", "xargs"];

/// A workspace whose programs only record that they were run.
struct Stage {
    workspace: Workspace,
    /// Directory of the programs.
    bin: PathBuf,
    /// File with the names of the programs that were run.
    ran: PathBuf,
    before: BTreeMap<PathBuf, Vec<u8>>,
}

impl Stage {
    fn new<'a>(programs: impl IntoIterator<Item = &'a str>) -> Self {
        let workspace = Workspace::new();
        let (bin, ran) =
            (workspace.root.with_file_name("bin"), workspace.root.with_file_name("ran"));
        fs::create_dir(&bin).unwrap();
        for name in programs {
            let says = format!("#!/bin/sh\necho {name} >> {}\n", ran.display());
            Self::program(&bin, name, &says);
        }
        for name in WRAPPERS {
            Self::program(&bin, name, &format!("#!/bin/sh\nexec /usr/bin/{name} \"$@\"\n"));
        }
        for name in ["bash", "sh"] {
            Self::program(&bin, name, "#!/bin/sh\nexec /bin/bash $RESTRICTED \"$@\"\n");
        }
        let before = files(workspace.root.parent().unwrap());
        Self { workspace, bin, ran, before }
    }

    fn program(bin: &Path, name: &str, text: &str) {
        let path = bin.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs a line with bash; returns the programs that were run. `restricted`: bash changes no directory and writes
    /// no file.
    fn run(&self, line: &str, restricted: bool) -> BTreeSet<String> {
        let mut bash = Command::new("/usr/bin/timeout");
        bash.args(["-s", "KILL", "2", "/bin/bash"]).env_clear();
        if restricted {
            bash.arg("-r").env("RESTRICTED", "-r");
        }
        bash.args(["-c", &format!("enable -n kill\n{line}")]);
        bash.current_dir(&self.workspace.root).stdin(Stdio::null());
        bash.env("PATH", &self.bin).env("HOME", &self.workspace.root).output().unwrap();
        let names = fs::read_to_string(&self.ran).unwrap_or_default();
        let _ = fs::remove_file(&self.ran);
        names.lines().map(str::to_owned).collect()
    }

    /// Returns `true` if all files are unchanged.
    fn is_untouched(&self) -> bool {
        files(self.workspace.root.parent().unwrap()) == self.before
    }
}

/// Returns all files below a directory with their contents. Links are not followed.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.append(&mut files(&path));
        }
        let content = if path.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        found.insert(path, content);
    }
    found
}

/// Returns the programs that were run and that the verdict does not name.
fn not_named(ran: &BTreeSet<String>, parts: &[AssessedCommand]) -> Vec<String> {
    let named =
        |name: &&String| parts.iter().any(|part| part.name.rsplit('/').next() == Some(name));
    ran.iter().filter(|name| !named(name)).cloned().collect()
}

#[test]
fn bash_runs_of_each_line_in_the_table_what_the_table_names() {
    let table = repository_file("fixtures/policy/commands.txt");
    let table = fs::read_to_string(table).unwrap();
    let lines = table.lines().filter(|line| !line.starts_with("    ") && !line.starts_with("--"));
    let lines: Vec<_> = lines.map(|line| line.replace('⏎', "\n").replace('⇥', "\t")).collect();
    let is_name = |word: &&str| {
        word.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) && !word.is_empty()
    };
    let words = lines.iter().flat_map(|line| {
        line.split(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c)).filter(is_name)
    });
    let builtin = ["bash", "sh"].iter().chain(WRAPPERS);
    let builtin: BTreeSet<_> = builtin.copied().collect();
    let names: BTreeSet<_> = words.filter(|word| !builtin.contains(word)).collect();
    let names = &names;
    // Most of the time is spent in waiting for bash, so four threads share the lines.
    let judged: usize = thread::scope(|scope| {
        let shares = lines.chunks(lines.len().div_ceil(4)).map(|lines| {
            scope.spawn(move || {
                let stage = Stage::new(names.iter().copied());
                lines.iter().filter(|line| runs_what_is_named(&stage, line)).count()
            })
        });
        shares.collect::<Vec<_>>().into_iter().map(|share| share.join().unwrap()).sum()
    });
    assert!(judged > 500, "{judged}");
}

/// Runs a line of the table with bash and asserts that bash runs only programs that the verdict names. Returns `false`
/// for a line that is not run.
fn runs_what_is_named(stage: &Stage, line: &str) -> bool {
    let line = line.replace("{root}", &stage.workspace.root.display().to_string());
    let verdict = stage.workspace.judge(&line);
    let gravity = gravest(&verdict);
    let Ok(parts) = verdict else { return false };
    // A login shell first runs what this machine and its user have told it to.
    if gravity == 3 || line.contains("bash -l") {
        return false;
    }
    let ran = stage.run(&line, gravity > 0);
    let more = not_named(&ran, &parts);
    assert!(more.is_empty(), "{line:?} runs {more:?}");
    assert!(gravity > 0 || stage.is_untouched(), "{line:?} is allowed and changes files");
    true
}

/// Number of lines that are tried unless `POLICY_CASES` is set, small enough for a test after each edit. `.ci/run`
/// tries more.
const CASES: u32 = 4_000;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("POLICY_CASES").map_or(CASES, |cases| cases.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn bash_runs_nothing_else_in_a_line_that_is_allowed(
        line in prop_oneof![3 => pieces(), 1 => (sensible(), pieces()).prop_map(|(a, b)| a + &b)],
    ) {
        thread_local!(static STAGE: Stage = Stage::new([
            "canary", "ls", "cat", "rm", "sleep", "git", "x", "a", "b", "hi", "ee", "sed",
            "n", "y",
        ]));
        STAGE.with(|stage| {
            let verdict = stage.workspace.judge(&line);
            if gravest(&verdict) > 0 {
                return Ok(());
            }
            let ran = stage.run(&line, false);
            let more = not_named(&ran, &verdict.unwrap());
            prop_assert!(more.is_empty(), "{line:?} runs {more:?}");
            prop_assert!(stage.is_untouched(), "{line:?}");
            Ok(())
        })?;
    }
}
