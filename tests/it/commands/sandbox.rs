//! `/sandbox`.

use std::io::{Write as _, stderr};
use std::path::PathBuf;
use std::sync::LazyLock;

use tandem_agent::session::Parts;
use tandem_approval::{Mode, Scope};
use tandem_host::NameList;
use tandem_host::command_sandbox::{SandboxDemand, SandboxSetup};
use tandem_host::network::NetworkSetup;
use tandem_sandbox::{Limits, Mechanism, SandboxMode};

use super::{Stage, contains};

static NO_NAMES: LazyLock<NameList> = LazyLock::new(NameList::default);

/// Returns a session whose commands run in a sandbox of this program.
fn stage(mode: Option<SandboxMode>, mechanism: Option<Mechanism>, helper: &str) -> Stage {
    demanding(None, mode, mechanism, helper)
}

/// Returns a session as [`stage`] does, whose user demands a sandbox.
fn demanding(
    demand: Option<SandboxDemand>,
    mode: Option<SandboxMode>,
    mechanism: Option<Mechanism>,
    helper: &str,
) -> Stage {
    let setup = SandboxSetup {
        mode,
        demand,
        mechanism,
        helper: PathBuf::from(helper),
        home: None,
        tool_chains: Vec::new(),
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
    Stage::with(vec![], |parts| Parts { host: parts.host.sandboxed(Some(setup)), ..parts })
}

#[tokio::test]
async fn without_a_sandbox_it_says_how_to_switch_it_on() {
    let shown = Stage::new(vec![]).output("/sandbox").await;
    contains(&shown, &["without a sandbox", "`--sandbox`", "`tools.sandbox`", "`tandem sandbox`"]);
}

#[tokio::test]
async fn it_shows_the_mode_and_where_that_is_from() {
    let stage = stage(None, None, env!("CARGO_BIN_EXE_tandem"));
    let shown = stage.output("/sandbox").await;
    if shown.starts_with("No sandbox works here.") {
        let _ = writeln!(stderr(), "skipped: {shown}");
        return;
    }
    contains(&shown, &["`read-only`, as the approval mode `default` has it", "    Mechanism: "]);
    contains(&shown, &["    Read-only:\n", "    Network: "]);
    stage.session.permissions().allow(Scope::Edits);
    contains(&stage.output("/sandbox").await, &["`workspace-write`", "    Writable:\n"]);
    stage.session.permissions().disallow(&Scope::Edits);
    stage.session.modes().set(Mode::Yolo).unwrap();
    contains(&stage.output("/sandbox").await, &["`workspace-write`, as the approval mode `yolo`"]);
    let named = self::stage(Some(SandboxMode::ReadOnly), None, env!("CARGO_BIN_EXE_tandem"));
    contains(&named.output("/sandbox").await, &["`read-only`, as the settings have it"]);
}

#[tokio::test]
async fn where_none_works_it_says_why() {
    let shown = stage(None, Some(Mechanism::Namespaces), "/bin/false").output("/sandbox").await;
    contains(&shown, &["No sandbox works here.", "    Mechanism: none", "    Not "]);
}

#[tokio::test]
async fn where_one_is_demanded_and_none_works_it_says_that_commands_are_refused() {
    for is_readable in [true, false] {
        let demand = Some(SandboxDemand { place: "--sandbox".to_owned(), is_readable });
        let shown = demanding(demand, None, Some(Mechanism::Namespaces), "/bin/false");
        let shown = shown.output("/sandbox").await;
        contains(&shown, &["Commands are refused: ", "--sandbox", "none; commands are refused"]);
    }
}
