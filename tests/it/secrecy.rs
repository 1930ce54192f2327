//! What programs that the agent starts can learn of its keys.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;
use tokio::time::timeout;

use crate::agent::{HANG, Setup};
use crate::family::run;

/// A user who has no rights. Root may read every process.
const NOBODY: u32 = 65534;

/// Gives a directory, and what is in it, to a user.
fn give(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
    for entry in fs::read_dir(path).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { give(&path, user) } else { chown(path, Some(user), Some(user)).unwrap() }
    }
}

/// What a command of the agent's writes into `out`; the agent has the key, and no special rights.
async fn out(command: &str, key: &str) -> String {
    let setup = Setup::answers(json!([[run(command)], [{ "text": "done" }]])).arg("-y");
    let setup = setup.var("GEMINI_API_KEY", key).var("MY_COPY", key);
    let home = TempDir::new().unwrap();
    let mut command = setup.command(home.path());
    if rustix::process::geteuid().is_root() {
        let program = home.path().join("tandem");
        fs::copy(env!("CARGO_BIN_EXE_tandem"), &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        give(home.path(), NOBODY);
        let own = command.as_std();
        let mut other = tokio::process::Command::new(program);
        other.args(own.get_args()).env_clear().current_dir(own.get_current_dir().unwrap());
        other.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        other.uid(NOBODY).gid(NOBODY);
        command = other;
    }
    command.args(["-p", "go"]).stdin(std::process::Stdio::null());
    let ran = timeout(HANG, command.output()).await.expect("it does not end").unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let out = fs::read(home.path().join("workspace/out")).unwrap();
    String::from_utf8_lossy(&out).replace('\0', "\n")
}

#[tokio::test]
async fn a_command_finds_no_key_in_its_own_environment() {
    let key = "AIza-its-own-environment-0001";
    let found = out("env > out", key).await;
    assert!(found.contains("HOME=") && !found.contains(key), "{found}");
}

/// Nor in that of the guard and of whatever else the agent runs.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_finds_no_key_in_the_environment_of_any_process() {
    let key = "AIza-any-environment-0002";
    let found = out("cat /proc/[0-9]*/environ > out 2>/dev/null; true", key).await;
    assert!(found.contains("TANDEM_COMMAND=") && !found.contains(key), "{found}");
}
