//! Output that is too long for the model.

use std::fs;
use std::path::{Path, PathBuf};

use tandem_agent::session::ToolOutcome;
use tandem_approval::Mode;
use tandem_host::scratch::Scratch;
use tandem_host::workspace::Workspace;
use tandem_host::{Host, ToolLimits};
use tempfile::TempDir;

use super::*;
use test_fakes::terminals;

/// Returns the path of the file that has the whole result, as the result names it.
fn kept_in(result: &str) -> PathBuf {
    let (_, rest) = result.split_once("all of it is in ").unwrap_or_else(|| panic!("{result}"));
    rest.split_once(", which").unwrap().0.into()
}

fn last_result(prompt: &Prompt) -> String {
    match prompt.messages.last().map(|last| &**last) {
        Some(Message::Results(results)) => results[0].text.clone(),
        other => panic!("{other:?}"),
    }
}

/// Returns a session that saves long outputs in `state`, and its workspace.
fn in_yolo_mode(model: &Arc<Says>, state: &Path) -> (Arc<Session>, TempDir) {
    let workspace = tempfile::tempdir().unwrap();
    let parts = Parts {
        tools: tools::all(),
        mode: Mode::Yolo,
        host: Host::new(
            Workspace::new(workspace.path(), &[]).unwrap(),
            terminals(),
            Scratch::new(Some(state.to_owned())),
            ToolLimits::default(),
        ),
        ..parts(Arc::clone(model) as _)
    };
    (Session::new(parts), workspace)
}

#[tokio::test]
async fn the_model_is_given_both_ends_and_can_read_the_rest() {
    let state = tempfile::tempdir().unwrap();
    let kept = Arc::new(Mutex::new(PathBuf::new()));
    let found = Arc::clone(&kept);
    let model = Says::new(None, move |prompt| match prompt.messages.len() {
        1 => calls("run_shell_command", json!({ "command": "seq 1 20000; exit 3" })),
        3 => {
            let path = kept_in(&last_result(prompt));
            found.lock().unwrap().clone_from(&path);
            calls(
                "read_file",
                json!({ "file_path": path, "start_line": 12_345, "end_line": 12_346 }),
            )
        }
        5 => {
            let path = found.lock().unwrap().clone();
            calls("grep_search", json!({ "pattern": "^1777[0-9]$", "dir_path": path }))
        }
        _ => says("Done."),
    });
    let (session, _workspace) = in_yolo_mode(&model, state.path());
    turn(&session, "count").await;
    let prompts = model.told.lock().unwrap().clone();
    let given = last_result(&prompts[1]);
    assert!(given.chars().count() < 41_000 && given.starts_with("Output: 1\n2\n3\n"), "{given}");
    assert!(given.ends_with("\n20000\nExit Code: 3"), "{given}");
    let read = last_result(&prompts[2]);
    assert!(read.contains(" 12345\t12345\n 12346\t12346\n"), "{read}");
    assert!(last_result(&prompts[3]).contains("17775"), "{}", last_result(&prompts[3]));
    let path = kept.lock().unwrap().clone();
    assert!(path.starts_with(state.path()) && path.exists());
    let whole = fs::read_to_string(&path).unwrap();
    assert!(whole.contains("\n10000\n") && !given.contains("\n10000\n"));
    drop(session);
    assert!(!path.exists() && sessions(state.path()) == 0);
}

fn sessions(state: &Path) -> usize {
    fs::read_dir(state).unwrap().count()
}

#[tokio::test]
async fn only_what_was_kept_can_be_read_outside_the_workspace() {
    let state = tempfile::tempdir().unwrap();
    let secret = state.path().join("secret.pem");
    fs::write(&secret, "secret").unwrap();
    let model = Says::new(None, move |prompt| match prompt.messages.len() {
        1 => calls("run_shell_command", json!({ "command": "seq 1 20000" })),
        3 => {
            let beside = kept_in(&last_result(prompt)).parent().unwrap().join("../../secret.pem");
            calls("read_file", json!({ "file_path": beside }))
        }
        5 => {
            calls("write_file", json!({ "file_path": kept_in(&all_text(prompt)), "content": "x" }))
        }
        _ => says("Done."),
    });
    let (session, _workspace) = in_yolo_mode(&model, state.path());
    let events = turn(&session, "count").await;
    let kinds: Vec<_> = events
        .iter()
        .filter_map(|event| match &**event {
            Event::CallFinished { outcome: ToolOutcome::Failed(error), .. } => Some(&*error.kind),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, ["path_not_in_workspace"; 2]);
}

#[tokio::test]
async fn calls_say_no_more_than_a_small_window_has_room_for() {
    let state = tempfile::tempdir().unwrap();
    let model = Says::new(Some(16_000), |prompt| match prompt.messages.len() {
        1 => {
            let read = |n| calls("read_file", json!({ "file_path": format!("{n}.txt") }));
            (0..3).flat_map(read).collect()
        }
        _ => says("Done."),
    });
    let (session, workspace) = in_yolo_mode(&model, state.path());
    for n in 0..3 {
        fs::write(
            workspace.path().join(format!("{n}.txt")),
            format!("a line of {n}\n").repeat(1900),
        )
        .unwrap();
    }
    let events = turn(&session, "read").await;
    assert!(compressions(&events).is_empty());
    let prompts = model.told.lock().unwrap().clone();
    let Some(Message::Results(results)) = prompts[1].messages.last().map(|last| &**last) else {
        panic!("{:?}", prompts[1]);
    };
    for result in results {
        // The results of one answer may fill half of the window's free part. Three results share this half.
        assert!(result.text.len() < 11_000, "{}", result.text.len());
        assert_eq!(fs::read_to_string(kept_in(&result.text)).unwrap().lines().count(), 1900);
    }
}
