//! Servers that should run in a sandbox, where none works.

use std::path::PathBuf;
use std::sync::LazyLock;

use tandem_host::NameList;
use tandem_host::command_sandbox::SandboxSetup;
use tandem_host::home::ToolChains;
use tandem_host::network::NetworkSetup;
use tandem_mcp::{ServerConfig, ServerSandbox};
use tandem_sandbox::{Limits, Mechanism};

use super::{Stage, limits, notices, says, server};

static NO_NAMES: LazyLock<NameList> = LazyLock::new(NameList::default);

/// Returns a sandbox that does not work.
pub(super) fn broken() -> SandboxSetup {
    SandboxSetup {
        mode: None,
        demand: None,
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

#[tokio::test]
async fn where_no_sandbox_works_it_runs_without_and_that_is_said() {
    let stage = Stage::with(vec![says("hi")], limits(), |home| {
        let names = ["a", "b"].into_iter();
        let config = |name| ServerConfig {
            sandbox: ServerSandbox::Preferred,
            ..server(home, name, "plain")
        };
        names.map(config).collect()
    });
    let events = stage.turn().await;
    assert_eq!(stage.standing(), ["a: ready", "b: ready"]);
    let told = notices(&events);
    let told: Vec<_> = told.iter().filter(|it| it.contains("without a sandbox")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
}

#[tokio::test]
async fn one_whose_settings_ask_for_a_sandbox_does_not_start_where_none_works() {
    let stage = Stage::with(vec![says("hi")], limits(), |home| {
        let config = server(home, "s", "plain");
        vec![ServerConfig { sandbox: ServerSandbox::Required, ..config }]
    });
    let told = notices(&stage.turn().await);
    let [told] = &told[..] else { panic!("{told:?}") };
    assert!(
        told.starts_with("The MCP server `s` is down: not started: its settings ask"),
        "{told}"
    );
    for words in ["and no sandbox works here (namespaces: ", "`tools.sandboxExcludedServers`"] {
        assert!(told.contains(words), "{told}");
    }
    assert_eq!(stage.notes(), [""; 0], "it was started");
    assert!(stage.tools().is_empty());
}
