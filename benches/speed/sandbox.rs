//! Cost of a command in the sandbox of a session.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Map, Value, json};
use tandem_sandbox::{KnownPath, Limits, Mechanism, Profile, Sandbox, Temporary};
use tempfile::TempDir;

use crate::{median, round};

const TIMES: usize = 200;

/// Hidden and protected directories: about as many as there are in a home and a workspace.
const DIRECTORIES: usize = 20;

/// Milliseconds of `bash -c true` by each mechanism that works here, against none.
pub(crate) fn command() -> Value {
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().canonicalize().unwrap();
    let make = |name: String| {
        fs::create_dir_all(path.join(&name)).unwrap();
        path.join(name)
    };
    let place = |name: &str| KnownPath::at(&make(name.to_owned())).unwrap();
    let profile = Profile {
        roots: vec![place("workspace")],
        writes_roots: true,
        temporary: Some(Temporary::Directory(place("temporary"))),
        protected: (0..DIRECTORIES).map(|n| make(format!("workspace/protected-{n}"))).collect(),
        hidden: (0..DIRECTORIES).map(|n| make(format!("hidden-{n}"))).collect(),
        ..Profile::default()
    };
    let helper = Path::new(env!("CARGO_BIN_EXE_tandem"));
    let sandboxes: Vec<_> = Mechanism::ALL
        .iter()
        .filter_map(|it| Sandbox::with_mechanism(*it, helper, Limits::default()).ok())
        .collect();
    let mut none = Vec::new();
    let mut times = vec![Vec::new(); sandboxes.len()];
    for _ in 0..TIMES {
        none.push(milliseconds(Command::new("/bin/bash").args(["-c", "true"])));
        for (sandbox, times) in sandboxes.iter().zip(&mut times) {
            let words = ["-c", "true"].map(OsString::from);
            let command = sandbox.command(&profile, OsStr::new("/bin/bash"), &words);
            let (mut command, _) = command.unwrap();
            times.push(milliseconds(&mut command));
        }
    }
    let none = median(none);
    let mut result = Map::new();
    result.insert("no sandbox, ms".to_owned(), json!(round(none)));
    for (sandbox, times) in sandboxes.iter().zip(times) {
        let time = median(times);
        let mechanism = sandbox.mechanism();
        result.insert(format!("{mechanism}, ms"), json!(round(time)));
        result.insert(format!("{mechanism}, ms added"), json!(round(time - none)));
    }
    Value::Object(result)
}

fn milliseconds(command: &mut Command) -> f64 {
    command.current_dir("/").stdin(Stdio::null());
    let before = Instant::now();
    assert!(command.status().unwrap().success());
    before.elapsed().as_secs_f64() * 1e3
}
