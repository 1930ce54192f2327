//! `/sandbox`.

use std::path::PathBuf;
use std::sync::LazyLock;

use tandem_agent::session::Parts;
use tandem_host::NameList;
use tandem_host::command_sandbox::{SandboxDemand, SandboxSetup};
use tandem_host::home::ToolChains;
use tandem_host::network::NetworkSetup;
use tandem_sandbox::{Limits, Mechanism};

use super::{Stage, contains};

static NO_NAMES: LazyLock<NameList> = LazyLock::new(NameList::default);

/// Returns a sandbox that does not work, with a demand of the user.
pub(crate) fn broken_sandbox(demand: Option<SandboxDemand>) -> SandboxSetup {
    SandboxSetup {
        mode: None,
        demand,
        mechanism: Some(Mechanism::Namespaces),
        helper: PathBuf::from("/bin/false"),
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
    }
}

/// Returns a session in which no sandbox works, with a demand of the user.
fn without_sandbox(demand: Option<SandboxDemand>) -> Stage {
    let setup = broken_sandbox(demand);
    Stage::with(vec![], |parts| Parts { host: parts.host.sandboxed(Some(setup)), ..parts })
}

#[tokio::test]
async fn without_a_sandbox_it_says_how_to_switch_it_on() {
    let shown = Stage::new(vec![]).output("/sandbox").await;
    contains(&shown, &["without a sandbox", "`--sandbox`", "`tools.sandbox`", "`tandem sandbox`"]);
}

#[tokio::test]
async fn where_none_works_it_says_why() {
    let shown = without_sandbox(None).output("/sandbox").await;
    contains(&shown, &["No sandbox works here.", "    Mechanism: none", "    Not "]);
}

#[tokio::test]
async fn where_one_is_demanded_and_none_works_it_says_that_commands_are_refused() {
    for is_readable in [true, false] {
        let demand = Some(SandboxDemand { place: "--sandbox".to_owned(), is_readable });
        let shown = without_sandbox(demand).output("/sandbox").await;
        contains(&shown, &["Commands are refused: ", "--sandbox", "none; commands are refused"]);
    }
}
