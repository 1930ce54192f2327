//! The checker of a task: a script that looks at what the model has left, and decides if the task is solved.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::time::Duration;

use super::agent::AgentSetup;
use super::attempt::Verdict;
use super::limited;
use super::repository::{Arena, copy_folder};
use super::task::{Task, home};

/// Maximum time of a checker.
const CHECK_TIME: Duration = Duration::from_mins(1);

/// Exit code with which `fail` in `checker.sh` ends. A checker that ends with another one has a fault itself.
const NOT_SOLVED_CODE: i32 = 10;

/// Runs a task's checker after the model has ended with `answer`.
pub(crate) fn check(
    task: &Task,
    setup: &AgentSetup,
    arena: &Arena,
    answer: &str,
) -> anyhow::Result<Verdict> {
    // Everything is put there only now, so that the model cannot have seen or changed it.
    let folder = arena.workplace().join("check");
    fs::create_dir(&folder)?;
    let hidden = task.folder.join("check");
    if hidden.exists() {
        copy_folder(&hidden, &folder)?;
    }
    fs::copy(task.folder.join("check.sh"), folder.join("check.sh"))?;
    fs::copy(home().join("checker.sh"), folder.join("checker.sh"))?;
    fs::write(arena.workplace().join("answer.txt"), answer)?;
    // A checker runs what the model has written, so it is in the sandbox, too.
    let script = ["sh", "-eu", "check/checker.sh"];
    let mut command = if setup.sandboxed {
        let mut command = arena.command(setup.program.path());
        command.args(["sandbox", "-s", "workspace-write", "--"]).args(script);
        command
    } else {
        let mut command = arena.command(script[0]);
        // Processes that the checker leaves behind are killed with it.
        command.args(&script[1..]).process_group(0);
        command
    };
    let (said, errors) = (arena.path().join("check.log"), arena.path().join("check.err"));
    command
        .current_dir(arena.workplace())
        .env("BASE_COMMIT", &arena.base_commit)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdout(File::create(&said)?)
        .stderr(File::create(&errors)?);
    let ended = limited::run(&mut command, CHECK_TIME)?;
    let last_line = |file| -> anyhow::Result<String> {
        let text = fs::read(file)?;
        let text = String::from_utf8_lossy(&text);
        let mut lines = text.lines().map(str::trim);
        Ok(lines.rfind(|line| !line.is_empty()).unwrap_or_default().to_owned())
    };
    Ok(match ended.code {
        Some(0) => Verdict::Solved,
        Some(NOT_SOLVED_CODE) => Verdict::NotSolved { why: last_line(&said)? },
        // What the model has written may run for ever.
        _ if ended.timed_out => {
            let why = format!("the checker took more than {} seconds", CHECK_TIME.as_secs());
            Verdict::NotSolved { why }
        }
        _ => {
            let why = format!("the checker has failed: {}", last_line(&errors)?);
            Verdict::Broken { why, fatal: false }
        }
    })
}
