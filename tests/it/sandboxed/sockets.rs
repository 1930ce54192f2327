//! Sockets in the workspace: those of the session's own commands, and those of programs outside.

use std::os::unix::net::UnixListener;

use serde_json::json;
use tandem_agent::session::Answer;
use tandem_policy::Mode;
use tandem_sandbox::Mechanism;

use super::{SandboxSetup, Stage, run, with};
use crate::needs::{Need, lacking, python};
use crate::places::seen_in_sandbox;

/// A line that connects to a socket of the workspace.
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
        // Its name is a word of every line.
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
