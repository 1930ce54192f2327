//! Conversion of settings into the setups of a session's parts: tools, sandbox, network, commands, memory.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use tandem_agent::commands::{CommandDirectory, CommandOwner, Custom, CustomLimits};
use tandem_agent::session::{Memory, Places};
use tandem_host::command_sandbox::{SandboxDemand, SandboxSetup};
use tandem_host::home::ToolChains;
use tandem_host::network::{HostLists, NetworkSetup, UpstreamProxies};
use tandem_host::workspace::IgnoreSettings;
use tandem_host::{Host, NameList, Tool, ToolLimits};
use tandem_net::{self as net, Reach};
use tandem_sandbox::{Limits, OWN_PROGRAM};
use tandem_settings::{
    self as config, Credentials, Env, SandboxChoice, SandboxNetwork, Settings, Trust, TrustRules,
};
use tandem_shell::protected_files;
use tandem_tools::{self as tools, WebSearch, WebSetup};

/// Name of the setting that chooses the sandbox.
const SANDBOX_KEY: &str = "tools.sandbox";

/// Names of files that commands in a sandbox cannot write. The list is large, so it is parsed only once, when the
/// first command needs it.
static PROTECTED_NAMES: LazyLock<NameList> =
    LazyLock::new(|| NameList::new(protected_files()).unwrap_or_default());

/// Returns the tools that the model may call, without those of MCP servers.
pub(super) fn tools(
    settings: &Settings,
    memory: &Memory,
    search: impl WebSearch + 'static,
    sandboxed: bool,
) -> Vec<Arc<dyn Tool>> {
    let mut tools = if sandboxed { tools::all_with_sandbox() } else { tools::all() };
    tools.push(tools::web_fetch(web(settings)));
    tools.push(tools::google_web_search(Arc::new(search)));
    tools.extend(memory.user_file().map(tools::save_memory));
    tools
}

/// Configures a host so that commands run where the settings say: in a sandbox, or in the terminals of a client.
pub(super) fn configure_command_execution(
    host: Host,
    settings: &Settings,
    home: Option<PathBuf>,
    sandbox: Option<SandboxSetup>,
) -> Host {
    let readable = settings.tools.sandbox_readable_paths.clone();
    let host = host.of_user(home, readable).sandboxed(sandbox);
    if !settings.acp.client_terminals {
        return host;
    }
    // The user wants commands in the editor's terminals, where they have no sandbox. A sandbox that is only the
    // default, and that the user did not ask for, must not prevent this.
    let is_default = settings.origin(SANDBOX_KEY).is_empty();
    let host = if is_default { host.with_sandbox_that_gives_way() } else { host };
    host.with_client_terminals()
}

/// Returns the setup of the sandbox for the agent's commands; `None` if the settings turn the sandbox off.
pub(super) fn sandbox(settings: &Settings, env: &Env, limits: &ToolLimits) -> Option<SandboxSetup> {
    let mode = match settings.tools.sandbox {
        SandboxChoice::Off => return None,
        SandboxChoice::Automatic | SandboxChoice::Unreadable => None,
        SandboxChoice::Mode(mode) => Some(mode),
    };
    let is_readable = settings.tools.sandbox != SandboxChoice::Unreadable;
    let place = settings.origin(SANDBOX_KEY).last();
    let demand = place.map(|place| SandboxDemand { place: place.to_string(), is_readable });
    Some(SandboxSetup { mode, demand, ..sandbox_setup(settings, env, limits) })
}

/// Returns the setup of a sandbox without a mode. It does not depend on the setting that chooses a sandbox for the
/// agent's commands.
pub(super) fn sandbox_setup(settings: &Settings, env: &Env, limits: &ToolLimits) -> SandboxSetup {
    SandboxSetup {
        mode: None,
        demand: None,
        mechanism: None,
        helper: PathBuf::from(OWN_PROGRAM),
        tool_chains: env
            .home()
            .map(|home| ToolChains::new(home, |name| env.var(name)))
            .unwrap_or_default(),
        home: env.home(),
        readable: settings.tools.sandbox_readable_paths.clone(),
        writable: settings.tools.sandbox_allowed_paths.clone(),
        sockets: settings.tools.sandbox_sockets.clone(),
        network: settings.tools.sandbox_network_access,
        hosts: hosts(&settings.sandbox.network),
        protected: &PROTECTED_NAMES,
        taken_back: env.state_dir().map(|dir| dir.join("taken-back")),
        temporary: env.state_dir(),
        limits: Limits {
            processes: Some(limits.sandbox_processes),
            memory_bytes: Some(limits.sandbox_memory_bytes).filter(|bytes| *bytes < u64::MAX),
            temporary_bytes: Some(limits.sandbox_temporary_bytes),
        },
    }
}

/// Returns the network setup of the sandbox: the hosts and ports that commands can connect to.
fn hosts(network: &SandboxNetwork) -> NetworkSetup {
    NetworkSetup {
        lists: lists(network),
        ports: network.allowed_ports.clone(),
        reach_of_allowed: if network.allow_private { Reach::Private } else { Reach::Public },
        proxies: UpstreamProxies::from_env(),
        ..NetworkSetup::default()
    }
}

/// Returns the hosts that the settings allow and deny.
fn lists(network: &SandboxNetwork) -> HostLists {
    HostLists {
        allowed: network.allowed_domains.clone(),
        denied: network.denied_domains.clone(),
        denied_unknown: network.denies_unreadable,
    }
}

/// Returns the setup of the tools that read the web: the addresses and hosts that they may reach.
fn web(settings: &Settings) -> WebSetup {
    let private = settings.tools.web_fetch.allow_private;
    let reach = if private { Reach::Private } else { Reach::Public };
    WebSetup { reach, lookup: net::system_lookup(), hosts: lists(&settings.sandbox.network) }
}

/// Returns the custom commands of the user, and those of the project unless the user has refused to trust its folder.
pub(super) fn custom(env: Env, root: &Path, limits: CustomLimits) -> Custom {
    let root = root.to_owned();
    let places = move || {
        let users = [env.gemini_dir(), env.config_dir()].into_iter().flatten();
        let of_user = |dir: PathBuf| CommandDirectory {
            dir: dir.join("commands"),
            owner: CommandOwner::User,
        };
        let mut places: Vec<_> = users.map(of_user).collect();
        let owner = match config::trust(&env, &root) {
            Trust::Trusted => CommandOwner::Project,
            Trust::Unjudged => CommandOwner::Unjudged,
            Trust::Never => return places,
        };
        let dir = root.join(".gemini/commands");
        // If the project is the home directory, its commands are the user's own commands, already listed.
        if !places.iter().any(|place| place.dir == dir) {
            places.push(CommandDirectory { dir, owner });
        }
        places
    };
    Custom::new(places, limits)
}

/// Returns the choice of ignore files that hide files from the tools.
pub(super) fn filtering(settings: &Settings) -> IgnoreSettings {
    let filtering = &settings.context.file_filtering;
    IgnoreSettings {
        git: filtering.respect_git_ignore,
        own: filtering.respect_gemini_ignore,
        more: filtering.custom_ignore_file_paths.iter().map(PathBuf::from).collect(),
    }
}

/// Returns the memory: the instruction files that people have written for the model, except in folders that the user
/// has refused to trust.
pub(super) fn memory(settings: &Settings, credentials: &Arc<Credentials>) -> Memory {
    let (context, env) = (&settings.context, credentials.env());
    let places = Places {
        names: context.file_name.clone(),
        own_names: context.own_file_name.clone(),
        user: [env.gemini_dir(), env.config_dir()].into_iter().flatten().collect(),
        home: env.home(),
        markers: context.memory_boundary_markers.clone(),
        all_roots: context.load_memory_from_include_directories,
        ..Places::default()
    };
    let credentials = Arc::clone(credentials);
    Memory::new(places, move || {
        let rules = TrustRules::read(credentials.env());
        Box::new(move |folder| rules.trust(folder) > Trust::Never)
    })
}
