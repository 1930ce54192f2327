//! `/sandbox`.

use std::io::{Write as _, stderr};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use tandem_agent::session::{Parts, Session};
use tandem_approval::{Mode, Scope};
use tandem_host::NameList;
use tandem_host::command_sandbox::SandboxSetup;
use tandem_host::home::ToolChains;
use tandem_host::network::NetworkSetup;
use tandem_sandbox::{Limits, SandboxMode};
use test_fakes::{Spy, command_output, parts};

use super::contains;

static NO_NAMES: LazyLock<NameList> = LazyLock::new(NameList::default);

/// Returns a session whose commands run in a sandbox of this program.
fn session(mode: Option<SandboxMode>) -> Arc<Session> {
    let setup = SandboxSetup {
        mode,
        demand: None,
        mechanism: None,
        helper: PathBuf::from(env!("CARGO_BIN_EXE_tandem")),
        home: None,
        tool_chains: ToolChains::default(),
        readable: Vec::new(),
        writable: Vec::new(),
        sockets: Vec::new(),
        network: false,
        hosts: NetworkSetup::default(),
        protected: &NO_NAMES,
        taken_back: None,
        temporary: None,
        limits: Limits::default(),
    };
    let (spy, _) = Spy::new(Vec::new());
    let parts = parts(spy);
    Session::new(Parts { host: parts.host.sandboxed(Some(setup)), ..parts })
}

#[tokio::test]
async fn it_shows_the_mode_and_where_that_is_from() {
    let session = session(None);
    let shown = command_output(&session, "/sandbox").await;
    if shown.starts_with("No sandbox works here.") {
        let _ = writeln!(stderr(), "skipped: {shown}");
        return;
    }
    contains(&shown, &["`read-only`, as the approval mode `default` has it", "    Mechanism: "]);
    contains(&shown, &["    Read-only:\n", "    Network: "]);
    session.permissions().allow(Scope::Edits);
    contains(
        &command_output(&session, "/sandbox").await,
        &["`workspace-write`", "    Writable:\n"],
    );
    session.permissions().disallow(&Scope::Edits);
    session.modes().set(Mode::Yolo).unwrap();
    contains(
        &command_output(&session, "/sandbox").await,
        &["`workspace-write`, as the approval mode `yolo`"],
    );
    let named = self::session(Some(SandboxMode::ReadOnly));
    contains(&command_output(&named, "/sandbox").await, &["`read-only`, as the settings have it"]);
}
