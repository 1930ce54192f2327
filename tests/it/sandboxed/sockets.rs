//! Sockets in the workspace: sockets of the session's own commands, and sockets of programs outside.

use std::os::unix::net::UnixListener;

use serde_json::json;
use tandem_agent::session::Answer;
use tandem_approval::Mode;
use tandem_sandbox::Mechanism;

use super::{SandboxSetup, Stage, run, with};
use crate::needs::{Need, lacking, python};
use crate::places::{listen, seen_in_sandbox};

/// Returns a line that connects to a socket of the workspace.
fn connect(python: &str, name: &str) -> String {
    format!("{python} -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{name}\")'")
}

#[tokio::test]
async fn a_socket_of_an_earlier_command_is_reached_and_one_from_outside_is_not() {
    let Some(python) = python().filter(|_| !lacking(Need::Python)) else { return };
    let mechanisms =
        [(Mechanism::Namespaces, Need::Namespaces), (Mechanism::Bubblewrap, Need::Bubblewrap)];
    for (mechanism, _) in mechanisms.into_iter().filter(|(_, need)| !lacking(*need)) {
        let serve = format!(
            "{python} -c 'import socket, time; s = socket.socket(socket.AF_UNIX); s.bind(\"own\"); \
             s.listen(9); open(\"ready\", \"w\"); time.sleep(60)'"
        );
        let serve = with(&serve, json!({ "is_background": true, "delay_ms": 1 }));
        let wait = run("until test -e ready; do sleep 0.01; done");
        let own = run(&connect(python, "own"));
        let foreign = run(&connect(python, "foreign"));
        let calls = [serve, wait, own.clone(), foreign, own];
        let mut stage = Stage::changed(Mode::AutoEdit, &calls, |setup| SandboxSetup {
            mechanism: Some(mechanism),
            ..setup
        });
        let _foreign = UnixListener::bind(stage.path("foreign")).unwrap();
        // A session may connect to this socket only if the line names it, as each line does.
        let elsewhere = seen_in_sandbox();
        let _socket = UnixListener::bind(elsewhere.path().join("socket")).unwrap();
        let made = stage.go(Answer::Reject).await;
        let told: Vec<_> = made.iter().map(super::Made::told).collect();
        let done: Vec<_> = made.iter().map(super::Made::is_done).collect();
        assert_eq!(done, [true, true, true, false, true], "{mechanism}: {told:?}");
        assert!(told[3].contains("project/foreign. If the command must"), "{mechanism}: {told:?}");
        assert!(told[3].contains("`tools.sandboxSockets`"), "{mechanism}: {told:?}");
    }
}

#[tokio::test]
async fn a_socket_in_a_folder_of_the_home_that_is_shown_is_masked_though_no_list_says_where_it_is()
{
    let Some(python) = python().filter(|_| !lacking(Need::Python)) else { return };
    if lacking(Need::Namespaces) {
        return;
    }
    let home = seen_in_sandbox();
    let notes = home.path().join("notes");
    std::fs::create_dir(&notes).unwrap();
    std::fs::write(notes.join("a.md"), "needle\n").unwrap();
    let line = format!(
        "cat '{}'; cd '{}' && {}",
        notes.join("a.md").display(),
        notes.display(),
        connect(python, "moved")
    );
    let mut stage = Stage::in_home(home, Mode::AutoEdit, &[run(&line)], |setup| SandboxSetup {
        mechanism: Some(Mechanism::Namespaces),
        ..setup
    });
    // The kernel's list still has the path at which the socket was bound, before it was moved.
    let _foreign = listen(&notes.join("deep"), "bound");
    std::fs::rename(notes.join("deep/bound"), notes.join("moved")).unwrap();
    let made = stage.go(Answer::Once { edited: None }).await.remove(0);
    assert!(made.told().contains("needle"), "{}", made.told());
    assert!(
        !made.is_done() && made.told().contains("notes/moved. If the command must"),
        "{}",
        made.told()
    );
}
