//! The sandbox of one session's commands: it decides which files a command sees and writes, and looks for new protected
//! files when a command has ended.
//!
//! A file is protected if other programs (git, editors, shells) run it or read it by themselves, such as `.git`.

mod moving;
mod scans;
mod search;
mod secret_files;
mod sockets;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::mem::take;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use parking_lot::Mutex;
use rustix::fs::{Access, access};
use tandem_sandbox::{
    Home, KnownPath, Limits, Mechanism, PROXY_PORT, Probe, Profile, Report, Sandbox, SandboxMode,
    TEMPORARY_DIRECTORIES, Temporary, UnusableMechanism, probe, steers_loader,
};
use tokio::sync::OnceCell;

pub use self::scans::RunsOn;
use self::scans::{Identity, ProtectedFiles, Scans};
use self::search::{HeldFiles, SearchResult, with_targets};
use self::secret_files::{SecretFiles, hidden_but};
use self::sockets::{ForeignSockets, SocketScope};
use self::walk::{NameRules, WalkResult, WorkspaceWalk};
use super::home::{HomeFiles, ToolChains, follow};
use super::name_list::NameList;
use super::network::{HostLists, HostPattern, NetworkAccess, NetworkProxy, NetworkSetup};
use super::off_thread::off_thread;
use super::output::ToolError;
use super::root::{Root, RootedPath};
use super::scratch::Scratch;
use super::workspace::{FilesOutside, Workspace};

/// Name of the directory for temporary files, inside the session's scratch directory.
const TEMPORARY_DIRECTORY: &str = "tmp";

/// Name of the place of temporary files in memory, in messages for people.
const IN_MEMORY: &str = "/tmp (in memory)";

/// Maximum number of files that a message names.
const MAX_LISTED: usize = 20;

/// Environment variables that lead to programs outside the sandbox. Commands do not get them.
const LEADING_OUT: [&str; 11] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "DOCKER_HOST",
    "GPG_AGENT_INFO",
    "SSH_AGENT_PID",
    "SSH_AUTH_SOCK",
    "STY",
    "TMUX",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
];

/// Environment variables in which programs look for their proxy, and variables with the hosts to reach without a
/// proxy.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
const NO_PROXY_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Settings of a session's sandbox.
pub struct SandboxSetup {
    /// Mode of commands whose call names no mode. `None`: the approval mode decides.
    pub mode: Option<SandboxMode>,
    /// The user's demand for a sandbox. `None`: if no mechanism works, each command is asked about and runs without a
    /// sandbox.
    pub demand: Option<SandboxDemand>,
    /// Mechanism to use. `None`: the best that works.
    pub mechanism: Option<Mechanism>,
    /// The program that is started as the sandbox's helper.
    pub helper: PathBuf,
    /// The user's home directory, which is hidden but for the [tool chains](crate::home::ToolChains) and the
    /// `readable` paths.
    pub home: Option<PathBuf>,
    /// Files and directories of the home that build tools need. They need not exist.
    pub tool_chains: ToolChains,
    /// Files and directories of the home that the user lets commands read.
    pub readable: Vec<PathBuf>,
    /// Directories outside the workspace that commands can write if they may write the workspace.
    pub writable: Vec<PathBuf>,
    /// Sockets of programs outside the sandbox to which commands may connect. They need not exist.
    pub sockets: Vec<PathBuf>,
    /// `true` if commands can use the machine's network.
    pub network: bool,
    /// Hosts to which commands can connect through the proxy when they cannot use the machine's network.
    pub hosts: NetworkSetup,
    /// Names of protected files: commands cannot write them in the workspace, as other programs run or read them
    /// without a person asking for it.
    pub protected: &'static LazyLock<NameList>,
    /// Directory to which protected files are moved that a command has made in the workspace. `None`: a directory that
    /// is removed with the session.
    pub taken_back: Option<PathBuf>,
    /// Parent of the session's directory for temporary files, where these are not in memory. The session's directory is
    /// removed with the session; if the session was killed, the next session removes it. `None`: the system's directory
    /// for temporary files.
    pub temporary: Option<PathBuf>,
    /// Limits of the resources that commands use.
    pub limits: Limits,
}

/// The user's demand for a sandbox: commands run in one, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxDemand {
    /// Place where the user made the demand, for messages: a flag, a variable, or a line of a file.
    pub place: String,
    /// `true` if the demand's value was understood; `false` if it names no known sandbox.
    pub is_readable: bool,
}

/// The sandbox of one session's commands, made when the first command needs it.
pub struct CommandSandbox {
    setup: SandboxSetup,
    workspace: Arc<Workspace>,
    scratch: Scratch,
    probe: OnceCell<Arc<Probe>>,
    /// The proxy of the commands, started for the first of them; `None` if the mechanism cannot have one.
    proxy: OnceLock<Option<NetworkProxy>>,
    /// Roots of the workspace, looked up when the session began. Commands cannot write another directory that takes a
    /// root's path later.
    roots: Vec<KnownPath>,
    /// Writable paths outside the roots, looked up when the session began for the same reason.
    writable: Vec<KnownPath>,
    /// Real paths, resolved when the session began, of sockets to which commands may connect.
    reachable_sockets: Vec<PathBuf>,
    /// The directory for temporary files, once it has been made.
    temporary: Mutex<Option<KnownPath>>,
    /// The walk through the workspace with its cache. Locked for the whole walk, which takes long: not to be locked on
    /// a thread of the async runtime.
    walk: Mutex<WorkspaceWalk>,
    /// Result of the last search for protected files.
    protected: Mutex<Arc<SearchResult>>,
    /// Directories that could not be searched for the last command, and directories of which people were told so.
    unclear: Mutex<BTreeSet<PathBuf>>,
    told_unclear: Mutex<BTreeSet<PathBuf>>,
    /// Protected files at the last comparison, and the programs that could have changed them since.
    scans: Arc<Scans>,
    /// Files of the workspace with secrets, which are hidden from commands.
    secret_files: SecretFiles,
    /// Sockets of programs outside the sandbox, which commands cannot reach.
    foreign_sockets: ForeignSockets,
    /// The home, if the user has one.
    home: Option<HomeFiles>,
    /// The walk through the directories of the hidden home that commands are shown. Locked for the whole walk, like
    /// `walk`.
    shown_walk: Mutex<WorkspaceWalk>,
    /// Callback that sends a message to the people and the model of the session.
    news: OnceLock<Box<Tell>>,
    /// `true` once people have been told that there is no sandbox.
    complained: AtomicBool,
}

/// Real paths of hidden files that one command may see after all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShownFiles {
    /// Files with secrets.
    pub secrets: Vec<PathBuf>,
    /// Files and directories of the hidden home.
    pub of_home: Vec<PathBuf>,
}

type Tell = dyn Fn(String) + Send + Sync;

/// The sandbox as prepared for one command, from which the command is started.
#[derive(Clone)]
pub struct Confinement {
    probe: Arc<Probe>,
    profile: Arc<Profile>,
    before: Arc<ProtectedBefore>,
    /// The command's registration at the proxy, if the command has no other network.
    network: Option<Arc<NetworkAccess>>,
    /// The sandbox's report on the last command that was made.
    report: Arc<Mutex<Report>>,
}

/// The protected files of the workspace before a command.
struct ProtectedBefore {
    files: ProtectedFiles,
    found: Arc<SearchResult>,
}

impl ProtectedBefore {
    /// Returns whether the same protected file existed before the command, or may have existed in a directory that
    /// could not be searched.
    fn has(&self, path: &Path, identity: &Identity) -> bool {
        self.files.get(path) == Some(identity) || self.found.is_unclear(path)
    }

    /// Returns whether other programs are likely to find a new file by themselves: its directory existed before the
    /// command, or is directly below a root and has a name that begins with a dot.
    fn is_looked_at(&self, path: &Path, roots: &[PathBuf]) -> bool {
        let Some(directory) = path.parent() else { return true };
        let is_at_root = || roots.iter().any(|root| directory.parent() == Some(root));
        let is_hidden = |name: &OsStr| name.as_encoded_bytes().starts_with(b".");
        self.found.directories.contains(directory)
            || (directory.file_name().is_some_and(is_hidden) && is_at_root())
    }
}

impl Confinement {
    fn sandbox(&self) -> Option<&Sandbox> {
        self.probe.sandbox.as_ref()
    }

    /// Returns a command that runs the first of the words as a program, with the other words as its arguments. The
    /// caller sets the working directory and the standard streams.
    pub fn command(&self, words: &[OsString]) -> io::Result<Command> {
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let sandbox = self.sandbox().ok_or(io::ErrorKind::NotFound)?;
        let (mut command, report) = sandbox.command(&self.profile, program, arguments)?;
        *self.report.lock() = report;
        for name in LEADING_OUT {
            command.env_remove(name);
        }
        command.env("TANDEM_SANDBOX", sandbox.mechanism().name());
        if let Some(temporary) = self.temporary() {
            command.env("TMPDIR", temporary);
        }
        // Without this, `git status` would warn that it cannot write the index that it has refreshed.
        command.env("GIT_OPTIONAL_LOCKS", "0");
        command.envs(self.network_variables());
        Ok(command)
    }

    /// Returns the reason why the sandbox has failed. To be called if a command has exited by itself with a nonzero
    /// code. `None` means that the command itself has failed.
    pub fn failure(&self) -> Option<String> {
        self.report.lock().failure()
    }

    /// Returns the mode in which the command could write a path, if it is the sandbox that prevents the write; else
    /// `None`. Blocks.
    pub fn needs(&self, path: &Path) -> Option<SandboxMode> {
        let mut ancestors = path.ancestors();
        let (existing, real) =
            ancestors.find_map(|part| Some((part, part.canonicalize().ok()?)))?;
        let real = path.strip_prefix(existing).map_or(real.clone(), |rest| real.join(rest));
        let Profile { roots, writes_roots, writable, protected, .. } = &*self.profile;
        let within = |places: &[KnownPath]| places.iter().any(|it| real.starts_with(it.path()));
        let needed = if protected.iter().any(|it| real.starts_with(it)) {
            SandboxMode::DangerFullAccess
        } else if within(roots) {
            SandboxMode::WorkspaceWrite
        } else if within(writable) || self.is_temporary(&real) {
            return None;
        } else {
            SandboxMode::DangerFullAccess
        };
        let is_written = *writes_roots && needed == SandboxMode::WorkspaceWrite;
        // If the user could not write the path outside the sandbox either, leaving the sandbox would not help.
        let is_users = access(existing, Access::WRITE_OK).is_ok();
        (is_users && !is_written).then_some(needed)
    }

    fn is_temporary(&self, path: &Path) -> bool {
        match self.sandbox().map(Sandbox::mechanism) {
            Some(mechanism) if has_own_temporary(mechanism) => {
                TEMPORARY_DIRECTORIES.iter().any(|it| path.starts_with(it))
            }
            _ => self.temporary().is_some_and(|it| path.starts_with(it)),
        }
    }

    /// Returns the command's registration at the proxy, if it has one.
    pub fn network(&self) -> Option<&Arc<NetworkAccess>> {
        self.network.as_ref()
    }

    /// Returns the environment variables by which programs find the proxy. [`Self::command`] sets them too; a caller
    /// that removes variables afterwards has to set them again.
    pub fn network_variables(&self) -> Vec<(&'static str, String)> {
        let Some(network) = &self.network else { return Vec::new() };
        let proxy = format!("http://{}:{PROXY_PORT}", network.address());
        let own = "localhost,127.0.0.1,::1".to_owned();
        let variables = PROXY_VARIABLES.iter().map(|name| (*name, proxy.clone()));
        let direct = NO_PROXY_VARIABLES.iter().map(|name| (*name, own.clone()));
        variables.chain(direct).collect()
    }

    /// Returns a command that runs these words, and those of the program's environment variables that the caller still
    /// has to set.
    pub(super) fn command_with<'v>(
        &self,
        words: impl Iterator<Item = &'v String>,
        variables: &'v [(String, String)],
    ) -> io::Result<(Command, Vec<&'v (String, String)>)> {
        // The helper of the sandbox gets the command's environment, but must not load code that it names. So variables
        // that steer the loader are set by `env` inside the sandbox.
        let (steering, others): (Vec<_>, Vec<_>) =
            variables.iter().partition(|(name, _)| steers_loader(OsStr::new(name)));
        let mut all = Vec::new();
        if !steering.is_empty() {
            all.extend(["/usr/bin/env", "--"].map(OsString::from));
            all.extend(steering.iter().map(|(name, value)| format!("{name}={value}").into()));
        }
        all.extend(words.map(OsString::from));
        Ok((self.command(&all)?, others))
    }

    /// Returns the files of the workspace that are hidden from the command.
    pub fn hidden_in_workspace(&self) -> Vec<&Path> {
        let Profile { roots, hidden, .. } = &*self.profile;
        let inside = |path: &&PathBuf| roots.iter().any(|root| path.starts_with(root.path()));
        hidden.iter().filter(inside).map(PathBuf::as_path).collect()
    }

    /// Returns the permissions of the command.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Returns the path of the directory for temporary files, as the command sees it.
    fn temporary(&self) -> Option<&Path> {
        if has_own_temporary(self.sandbox()?.mechanism()) {
            Some(Path::new("/tmp"))
        } else {
            self.profile.temporary_directory().map(KnownPath::path)
        }
    }
}

impl CommandSandbox {
    /// Returns a sandbox that is made with the first command. Only the directories that commands will be able to write
    /// are looked up now.
    pub fn new(setup: SandboxSetup, workspace: Arc<Workspace>) -> Self {
        let places = |paths: &[PathBuf]| -> Vec<_> {
            paths.iter().filter_map(|path| KnownPath::at(path).ok()).collect()
        };
        let (probe, proxy, temporary, scans) = Default::default();
        let (secret_files, foreign_sockets, news, complained) = Default::default();
        let (walk, protected, unclear, told_unclear) = Default::default();
        let shown_walk = Mutex::default();
        let (roots, writable) = (places(workspace.roots()), places(&setup.writable));
        let home = setup.home.as_ref().map(|home| {
            let (named, tool_chains) = (setup.readable.clone(), setup.tool_chains.clone());
            HomeFiles::new(home.clone(), named, tool_chains, &roots, &writable)
        });
        let changed = roots.iter().chain(&writable).map(|place| place.path().to_owned());
        let changed: Vec<_> = changed.collect();
        let sockets = setup.sockets.iter();
        let reachable_sockets =
            sockets.filter_map(|path| follow(path, &changed, &mut Vec::new()).ok()).collect();
        Self {
            scratch: Scratch::new(setup.temporary.clone()),
            setup,
            workspace,
            probe,
            proxy,
            roots,
            writable,
            reachable_sockets,
            temporary,
            walk,
            protected,
            unclear,
            told_unclear,
            scans,
            secret_files,
            foreign_sockets,
            home,
            shown_walk,
            news,
            complained,
        }
    }

    /// Sets the callback for messages about the workspace to people and the model. Only the first call has an effect.
    pub fn on_news(&self, tell: impl Fn(String) + Send + Sync + 'static) {
        let _ = self.news.set(Box::new(tell));
    }

    /// Returns the mode of commands whose call names no mode; `None` if the approval mode decides.
    pub fn mode(&self) -> Option<SandboxMode> {
        self.setup.mode
    }

    /// Returns whether commands can use the machine's network.
    pub fn has_network(&self) -> bool {
        self.setup.network
    }

    /// Returns whether commands reach hosts through the proxy, because they cannot use the machine's network.
    pub fn has_proxy(&self, probe: &Probe) -> bool {
        let has_listener = |sandbox: &Sandbox| sandbox.listener().is_some();
        !self.setup.network && probe.sandbox.as_ref().is_some_and(has_listener)
    }

    /// Finds out which mechanism works. Later calls return the first result.
    pub async fn probe(&self) -> Arc<Probe> {
        let probe = self.probe.get_or_init(|| async {
            let SandboxSetup { mechanism, limits, .. } = self.setup;
            let helper = self.setup.helper.clone();
            let probed = move || Ok::<_, ToolError>(probe(&helper, mechanism, limits));
            let probed = off_thread(probed).await;
            Arc::new(probed.unwrap_or(Probe { sandbox: None, passed_over: Vec::new() }))
        });
        Arc::clone(probe.await)
    }

    /// Returns a description for people of the files and hosts that commands can use in a mode.
    pub async fn describe(self: &Arc<Self>, mode: SandboxMode) -> Result<String, ToolError> {
        let probe = self.probe().await;
        let mut text = match (self.refusal(&probe), &probe.sandbox) {
            (Some(_), _) => "Mechanism: none; commands are refused\n".to_owned(),
            (None, Some(sandbox)) => format!("Mechanism: {}\n", sandbox.mechanism()),
            (None, None) => {
                "Mechanism: none; commands are asked about, and run without a sandbox\n".to_owned()
            }
        };
        for UnusableMechanism { mechanism, why } in &probe.passed_over {
            text.push_str(&format!("Not {mechanism}: {why}\n"));
        }
        let sandbox = Arc::clone(self);
        let profile = off_thread(move || {
            let shown = ShownFiles::default();
            let profile = sandbox.profile(mode, &shown, Self::search);
            profile.map_err(|error| unavailable(&error.to_string()))
        });
        let profile = profile.await?;
        let list = |paths: &[&Path]| {
            let lines: BTreeSet<_> = paths.iter().map(|path| path.display().to_string()).collect();
            let lines = lines.iter().map(|line| format!("  {line}\n"));
            lines.collect::<String>()
        };
        let mut section = |title: &str, paths: Vec<&Path>| {
            if !paths.is_empty() {
                text.push_str(&format!("{title}:\n{}", list(&paths)));
            }
        };
        let roots = profile.roots.iter().map(KnownPath::path);
        if profile.writes_roots {
            let writable = profile.writable.iter().map(KnownPath::path);
            section("Writable", roots.chain(writable).collect());
            section("Read-only in these", profile.protected.iter().map(|path| &**path).collect());
        } else {
            section("Read-only", roots.collect());
        }
        let temporary = match &profile.temporary {
            Some(Temporary::Directory(directory)) => Some(directory.path()),
            Some(Temporary::Memory) => Some(Path::new(IN_MEMORY)),
            None => None,
        };
        section("Temporary files", temporary.into_iter().collect());
        if let Some(home) = &profile.home {
            let title = format!("Readable in {}, besides these", home.path.display());
            section(&title, home.readable.iter().map(PathBuf::as_path).collect());
        }
        let sockets = profile.reachable_sockets.iter().map(KnownPath::path);
        section("Sockets of programs outside that commands can connect to", sockets.collect());
        let sockets = profile.foreign_sockets.iter().map(PathBuf::as_path);
        section("Sockets of programs outside that commands cannot connect to", sockets.collect());
        section("Not readable", profile.hidden.iter().map(|path| &**path).collect());
        text.push_str(&self.describe_network(&probe));
        Ok(text)
    }

    fn describe_network(&self, probe: &Probe) -> String {
        if self.setup.network {
            return "Network: the machine's\n".to_owned();
        }
        let HostLists { allowed, denied, .. } = &self.setup.hosts.lists;
        if !self.has_proxy(probe) {
            let why = if allowed.is_empty() {
                ""
            } else {
                "; hosts can be allowed with `namespaces` only"
            };
            return format!("Network: none{why}\n");
        }
        let list = |title: &str, hosts: &[HostPattern]| {
            let hosts: Vec<_> = hosts.iter().map(|host| format!("\n  {host}")).collect();
            if hosts.is_empty() { String::new() } else { format!("{title}:{}\n", hosts.concat()) }
        };
        format!(
            "Network: a proxy to hosts that are allowed; you are asked about others\n{}{}",
            list("Allowed hosts", allowed),
            list("Denied hosts", denied)
        )
    }

    /// Returns a message for people if no sandbox works here, or if the demanded mechanism is unknown. Returns the
    /// message only once.
    pub fn first_complaint(&self, probe: &Probe) -> Option<String> {
        if self.complained.swap(true, Ordering::Relaxed) {
            return None;
        }
        if let Some(why) = self.refusal(probe) {
            let without = "To run commands without a sandbox, start tandem with `--sandbox danger-full-access`";
            let remedy = match &self.setup.demand {
                Some(SandboxDemand { is_readable: false, .. }) => {
                    "Correct the setting, or start tandem with `--sandbox`, which overrides it"
                }
                _ => without,
            };
            return Some(format!("Commands are refused: {why}. {remedy}."));
        }
        let why = why_none(probe);
        Some(format!("Commands run without a sandbox, so you are asked about more of them: {why}"))
    }

    /// Returns the reason why commands and servers are refused: the user demands a sandbox, and there is none. `None`
    /// if they are not refused.
    pub fn refusal(&self, probe: &Probe) -> Option<String> {
        let SandboxDemand { place, is_readable } = self.setup.demand.as_ref()?;
        if !is_readable {
            return Some(format!("the value of `tools.sandbox` is not understood ({place})"));
        }
        let none = probe.sandbox.is_none();
        none.then(|| format!("no sandbox that {place} asks for works here: {}", why_none(probe)))
    }

    /// Returns whether a sandbox works here; `false` if that has not been found out yet.
    pub fn works(&self) -> bool {
        self.probe.get().is_some_and(|probe| probe.sandbox.is_some())
    }

    /// Prepares the sandbox for an MCP server or another program that the agent talks to. The mode is
    /// `workspace-write`, unless the user chose one for all programs. The error says why there is no sandbox.
    pub async fn confine_server(self: &Arc<Self>) -> Result<Confinement, ToolError> {
        let mode = self.setup.mode.unwrap_or(SandboxMode::WorkspaceWrite);
        let confinement = self.confine(mode, &ShownFiles::default()).await?;
        // The server is kept apart because its environment may hold secrets, which commands could read in `/proc`.
        let profile = Profile { apart: true, ..Profile::clone(&confinement.profile) };
        Ok(Confinement { profile: Arc::new(profile), ..confinement })
    }

    /// Prepares the sandbox for a program of the agent's own that only reads: the program writes nothing but temporary
    /// files, and reaches no host. No walk through the workspace delays the program, so files with secrets in the
    /// workspace are not hidden from the program. The error says why there is no sandbox.
    pub async fn confine_reader(self: &Arc<Self>) -> Result<Confinement, ToolError> {
        let probe = self.probe().await;
        if let Some(why) = self.refusal(&probe) {
            return Err(unavailable(&why));
        }
        let sandbox = Arc::clone(self);
        off_thread(move || {
            let (mode, shown) = (SandboxMode::ReadOnly, ShownFiles::default());
            let profile = sandbox.profile(mode, &shown, |_| Ok(WalkResult::default()));
            let profile = profile.map_err(|error| unavailable(&error.to_string()))?;
            let profile = Arc::new(Profile { network: false, ..profile });
            // These are compared after a command that could write the workspace, and so not after this program.
            let before = ProtectedBefore { files: BTreeMap::new(), found: Arc::default() };
            let (before, report) = (Arc::new(before), Arc::default());
            Ok(Confinement { probe, profile, before, network: None, report })
        })
        .await
    }

    /// Prepares the sandbox for a command that may also see the files of `shown`. The error says why there is no
    /// sandbox.
    pub async fn confine(
        self: &Arc<Self>,
        mode: SandboxMode,
        shown: &ShownFiles,
    ) -> Result<Confinement, ToolError> {
        let probe = self.probe().await;
        if let Some(why) = self.refusal(&probe) {
            return Err(unavailable(&why));
        }
        let (sandbox, shown) = (Arc::clone(self), shown.clone());
        let network = self.network(&probe);
        let confined = off_thread(move || {
            if probe.sandbox.is_none() {
                return Err(unavailable("no kind of sandbox works on this machine"));
            }
            let profile = sandbox.profile(mode, &shown, Self::search);
            let profile = profile.map_err(|error| unavailable(&error.to_string()))?;
            if profile.writes_roots {
                sandbox.foreign_sockets.begin();
            }
            let found = Arc::clone(&sandbox.protected.lock());
            let before = ProtectedBefore { files: identified(&found.files), found };
            let (profile, before) = (Arc::new(profile), Arc::new(before));
            Ok(Confinement { probe, profile, before, network, report: Arc::default() })
        });
        let confined = confined.await?;
        self.tell_new(confined.before.files.clone());
        if confined.profile.writes_roots {
            self.tell_unclear();
        }
        Ok(confined)
    }

    /// Registers a program that keeps running while other commands begin and end, under a name for messages. `None` if
    /// the program cannot write the workspace.
    pub fn runs_on(&self, confinement: &Confinement, name: String) -> Option<RunsOn> {
        confinement.profile.writes_roots.then(|| self.scans.runs_on(name))
    }

    /// Reports protected files that have appeared while a registered program ran, now that the program has ended. No
    /// file is moved: a person, or a command that was allowed to, may have made it meanwhile.
    pub async fn has_ended(self: &Arc<Self>, ended: RunsOn) {
        drop(ended);
        let sandbox = Arc::clone(self);
        let look =
            off_thread(move || Ok::<_, ToolError>((sandbox.protected_files(), sandbox.has_left())));
        if let Ok((now, has_left)) = look.await {
            self.tell_new(now);
            self.scans.set_left(has_left);
        }
    }

    /// Returns whether processes that can write the workspace may still run. Blocks.
    fn has_left(&self) -> bool {
        let sandbox = self.probe.get().and_then(|probe| probe.sandbox.as_ref());
        // A mechanism that cannot tell counts as "may still run".
        sandbox.is_some_and(|sandbox| sandbox.has_writers() != Some(false))
    }

    fn tell_new(&self, now: ProtectedFiles) {
        if let Some(news) = self.scans.compare(now)
            && let Some(tell) = self.news.get()
        {
            tell(news);
        }
    }

    /// Tells people, once for each directory, that it could not be searched and that commands cannot write it.
    fn tell_unclear(&self) {
        let Some(tell) = self.news.get() else { return };
        let unclear = self.unclear.lock().clone();
        let mut told = self.told_unclear.lock();
        let new: Vec<_> =
            unclear.difference(&told).map(|it| format!("`{}`", it.display())).collect();
        *told = unclear;
        if !new.is_empty() {
            tell(format!(
                "Commands in the sandbox cannot write in {}: a directory there cannot be listed or has too many \
                 files, so tandem cannot find all files that other programs run by themselves.",
                new.join(", ")
            ));
        }
    }

    /// Records the state of a file that the agent itself has written, so that people are not told of it as new.
    pub async fn accept(self: &Arc<Self>, path: &Path) {
        let (sandbox, path) = (Arc::clone(self), path.to_owned());
        let accept = move || {
            for root in sandbox.workspace.roots() {
                let Ok(inside) = path.strip_prefix(root) else { continue };
                let protected = inside.ancestors().filter(|inside| {
                    let names = |is_directory| sandbox.setup.protected.names(inside, is_directory);
                    names(true) || names(false)
                });
                let protected: Vec<_> = protected.map(|inside| root.join(inside)).collect();
                sandbox.scans.accept(identified(&protected));
            }
            Ok::<_, ToolError>(())
        };
        let _ = off_thread(accept).await;
    }

    /// Starts a walk through the workspace after a command may have changed it. The next command then finds current
    /// listings. Only a command that begins during this walk waits for it.
    pub fn search_again(self: &Arc<Self>) {
        let sandbox = Arc::clone(self);
        tokio::task::spawn_blocking(move || sandbox.search());
    }

    /// Registers one more command at the proxy. The first command starts the proxy.
    fn network(&self, probe: &Probe) -> Option<Arc<NetworkAccess>> {
        if self.setup.network {
            return None;
        }
        let start = || {
            let listener = probe.sandbox.as_ref()?.listener()?;
            let setup = Arc::new(self.setup.hosts.clone());
            let proxy = listener.and_then(|listener| NetworkProxy::start(listener, setup));
            proxy.inspect_err(|error| tracing::warn!(%error, "the sandbox has no proxy")).ok()
        };
        self.proxy.get_or_init(start).as_ref().map(NetworkProxy::register)
    }

    /// Returns the rules for reading files outside the workspace: files that commands can read are read without a
    /// question. `None` if there is no sandbox and commands are therefore asked about.
    pub(super) async fn files_outside(self: &Arc<Self>) -> Option<FilesOutside> {
        let probe = self.probe().await;
        if probe.sandbox.is_none() || self.refusal(&probe).is_some() {
            return None;
        }
        let sandbox = Arc::clone(self);
        let found = off_thread(move || {
            let found = sandbox.files_outside_now();
            found.map_err(|error| unavailable(&error.to_string()))
        });
        found.await.ok()
    }

    /// Returns the same rules as `files_outside`, for callers that know that commands have a sandbox. Blocks.
    pub(super) fn files_outside_now(&self) -> io::Result<FilesOutside> {
        let (home, named) = (self.setup.home.clone(), self.workspace.secrets().clone());
        FilesOutside::sandboxed(home, self.visible_home(), named, self.known_secrets())
    }

    /// Returns the user's home directory, if there is one, also if it is not hidden.
    pub(super) fn home(&self) -> Option<&Path> {
        self.setup.home.as_deref()
    }

    /// Returns whether a real path is inside the workspace.
    pub(super) fn is_in_roots(&self, real: &Path) -> bool {
        self.workspace.contains(real)
    }

    /// Returns the part of the home that commands see; `None` if the home is not hidden.
    fn visible_home(&self) -> Option<Home> {
        self.home.as_ref().and_then(HomeFiles::find)
    }

    /// Opens the directory that commands see as `/tmp`. `None` if that is the machine's own, or if no command has made
    /// it yet.
    pub(super) async fn own_temporary(self: &Arc<Self>) -> Option<Root> {
        let probe = self.probe().await;
        let sandbox = probe.sandbox.as_ref()?;
        if let Some(directory) = sandbox.temporary() {
            return directory.map(Root::from_descriptor).ok();
        }
        has_own_temporary(sandbox.mechanism()).then_some(())?;
        let sandbox = Arc::clone(self);
        let directory = off_thread(move || {
            let known = sandbox.temporary.lock().clone().ok_or(io::ErrorKind::NotFound)?;
            let opened = RootedPath::of_own(known.path())?.open_root()?;
            let is_same = opened.is(&known);
            is_same.then_some(opened).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
        });
        directory.await.ok()
    }

    /// Returns the place of temporary files. If they are on the disk, the directory is made if it does not exist.
    fn temporary(&self) -> io::Result<Temporary> {
        let sandbox = self.probe.get().and_then(|probe| probe.sandbox.as_ref());
        if sandbox.is_some_and(|sandbox| sandbox.temporary().is_some()) {
            return Ok(Temporary::Memory);
        }
        let mut known = self.temporary.lock();
        if let Some(place) = known.as_ref().filter(|it| it.path().symlink_metadata().is_ok()) {
            return Ok(Temporary::Directory(place.clone()));
        }
        let directory = self.scratch.dir()?;
        match DirBuilder::new().mode(0o700).create(directory.join(TEMPORARY_DIRECTORY)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let place = temporary_in(&directory)?;
        *known = Some(place.clone());
        Ok(Temporary::Directory(place))
    }

    /// Returns the permissions of a command in a mode, if it may also see the files of `shown`. `walk` finds the files
    /// of the workspace that are hidden or protected.
    ///
    /// 1. Checks that the roots are still the same, and walks through the workspace.
    /// 2. Collects the protected paths, the secrets to hide and the sockets to mask.
    /// 3. Takes out of the hidden paths the files that a person has named.
    /// 4. Drops hidden paths that the hidden home covers already.
    fn profile(
        &self,
        mode: SandboxMode,
        shown: &ShownFiles,
        walk: impl FnOnce(&Self) -> io::Result<WalkResult>,
    ) -> io::Result<Profile> {
        if let Some(root) = self.roots.iter().find(|root| !root.is_there()) {
            let why = "another directory has taken its place; begin a new session";
            return Err(io::Error::other(format!("{}: {why}", root.path().display())));
        }
        let temporary = self.temporary()?;
        let found = walk(self)?;
        let writes_roots = mode >= SandboxMode::WorkspaceWrite;
        let (protected, writable) = if writes_roots {
            (self.protected(), self.writable.clone())
        } else {
            Default::default()
        };
        // Secrets are looked up anew for each command: a file with secrets may have been made while a person was asked
        // about the command.
        let (mut home, mut hidden) = (self.visible_home(), self.known_secrets());
        let mut sockets = found.sockets;
        if let Some(home) = &mut home {
            let found = self.show_of_home(home, &shown.of_home);
            hidden.extend(found.secrets);
            sockets.extend(found.sockets);
        }
        let roots = self.workspace.roots();
        hidden.extend(self.secret_files.hidden(roots, found.secrets, found.unsearched));
        // A file that the settings name as readable or writable stays visible even if it holds secrets, as a person has
        // named it. A link is not followed: a command may have made it.
        let named = self.writable.iter().map(KnownPath::path);
        let asked = self.setup.writable.iter().chain(&self.setup.readable);
        let named = named.chain(asked.map(PathBuf::as_path));
        let is_file = |path: &&Path| path.symlink_metadata().is_ok_and(|data| data.is_file());
        let named = named.filter(is_file).map(Path::to_owned);
        let shown: BTreeSet<_> = named.chain(shown.secrets.iter().cloned()).collect();
        let hidden: BTreeSet<_> =
            hidden.into_iter().flat_map(|path| hidden_but(path, &shown)).collect();
        let (foreign_sockets, reachable_sockets) = self.sockets(sockets);
        let mut profile = Profile {
            roots: self.roots.clone(),
            writes_roots,
            temporary: Some(temporary),
            writable,
            protected,
            hidden: Vec::new(),
            home,
            foreign_sockets,
            reachable_sockets,
            network: self.setup.network,
            apart: false,
            limits: self.setup.limits,
        };
        if let Some(home) = &mut profile.home {
            home.readable.retain(|path| !hidden.iter().any(|it| path.starts_with(it)));
        }
        let hidden = hidden.into_iter().filter(|path| !profile.hides_in_home(path));
        profile.hidden = hidden.collect();
        let foreign = take(&mut profile.foreign_sockets).into_iter();
        profile.foreign_sockets = foreign.filter(|path| !profile.hides_in_home(path)).collect();
        Ok(profile)
    }

    /// Makes files and directories of the home readable. Returns the secrets and sockets that a search of them has
    /// found. A directory that cannot be searched for secrets is not added.
    fn show_of_home(&self, home: &mut Home, shown: &[PathBuf]) -> FoundInHome {
        let shown: Vec<_> = shown.iter().filter(|path| home.hides(path)).cloned().collect();
        let (directories, mut files): (Vec<_>, Vec<_>) =
            shown.into_iter().partition(|path| path.symlink_metadata().is_ok_and(|it| it.is_dir()));
        let rules = NameRules { is_protected: &|_| false, secrets: self.workspace.secrets() };
        let mut in_home = FoundInHome::default();
        if !directories.is_empty()
            && let Ok(found) = self.shown_walk.lock().walk(&directories, &rules)
        {
            in_home.secrets =
                secret_files::files_to_hide(&directories, found.secrets, found.unsearched);
            in_home.sockets = found.sockets;
            files.extend(directories);
        }
        home.show(files);
        in_home
    }

    /// Returns the sockets to mask, and the sockets to which the settings let commands connect. `walked`: sockets that
    /// the walks through the workspace and the home have found. Blocks.
    fn sockets(&self, walked: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<KnownPath>) {
        let sandbox = self.probe.get().and_then(|probe| probe.sandbox.as_ref());
        // The other mechanisms refuse either all connections to sockets or none.
        if !sandbox.is_some_and(|sandbox| has_own_temporary(sandbox.mechanism())) {
            return Default::default();
        }
        let written: Vec<_> =
            self.roots.iter().chain(&self.writable).map(KnownPath::path).collect();
        let scope = SocketScope {
            written: &written,
            reachable: &self.reachable_sockets,
            shares_network: self.setup.network,
        };
        let foreign = self.foreign_sockets.masked(walked, &scope);
        // The path must still be real: if a command has put a link on the way since, it could lead to any socket.
        let reachable = self.reachable_sockets.iter().filter_map(|path| {
            let known = KnownPath::at(path).ok().filter(|known| known.path() == path)?;
            let is_socket = path.symlink_metadata().ok()?.file_type().is_socket();
            is_socket.then_some(known)
        });
        (foreign, reachable.collect())
    }

    /// Returns the real paths of files and directories, of the machine and of the home, that are known to hold secrets.
    fn known_secrets(&self) -> Vec<PathBuf> {
        let mut known = self.workspace.secrets().existing_paths(self.setup.home.as_deref());
        // A workspace that lies in a secret directory is shown. In a workspace that is the home itself, keys stay
        // hidden.
        known.retain(|path| !self.roots.iter().any(|root| root.path().starts_with(path)));
        known
    }

    /// Moves protected files out of the workspace that were made while a command ran. Returns each with its new path. A
    /// file in a directory that the command made with it stays, and people are told of it.
    pub async fn take_back(self: &Arc<Self>, confinement: &Confinement) -> Vec<(PathBuf, PathBuf)> {
        if !confinement.profile.writes_roots {
            return Vec::new();
        }
        let (sandbox, before) = (Arc::clone(self), Arc::clone(&confinement.before));
        let taken = off_thread(move || {
            let MovedFiles { taken, staying, files } = sandbox.move_new_files(&before);
            sandbox.scans.settle(files, sandbox.has_left());
            if let (false, Some(tell)) = (staying.is_empty(), sandbox.news.get()) {
                tell(about_staying(&staying));
            }
            Ok::<_, ToolError>(taken)
        });
        taken.await.unwrap_or_default()
    }

    /// Moves new protected files out of the workspace.
    ///
    /// 1. Lists the protected files, and selects the ones that are new or were replaced since `before`.
    /// 2. Leaves a new file in a directory that is new as well.
    /// 3. Moves each other file out; for a link that now leads to another file, moves that file if it is in the
    ///    workspace.
    /// 4. Makes a link again that was there before and was replaced.
    fn move_new_files(&self, before: &ProtectedBefore) -> MovedFiles {
        let mut files = self.protected_files();
        let (mut taken, mut staying) = (Vec::new(), Vec::new());
        let come_up = files.iter().filter(|(path, identity)| !before.has(path, identity));
        let come_up: Vec<_> = come_up.map(|(path, it)| (path.clone(), it.clone())).collect();
        for (path, identity) in come_up {
            let known = before.files.get(&path);
            if known.is_none() && !before.is_looked_at(&path, self.workspace.roots()) {
                staying.push(path);
                continue;
            }
            // An unchanged link may lead to another file than before. The other file is then moved out of the
            // workspace, and the link stays.
            let same = known.filter(|known| known.is_same_link(&identity));
            let moved = match same.map(|_| path.canonicalize()) {
                Some(Ok(real)) if self.is_in_workspace(&real) => real,
                Some(_) => continue,
                None => path.clone(),
            };
            match self.move_out(&moved) {
                Ok(to) => taken.push((moved.clone(), to)),
                Err(error) => tracing::warn!(path = %moved.display(), %error, "not taken back"),
            }
            if let Some(target) = known.and_then(|known| known.target.as_ref())
                && same.is_none()
            {
                let _ = self.workspace.rooted(&path).and_then(|place| moving::link(&place, target));
            }
            files.remove(&path);
            files.extend(identified(&[path]));
        }
        MovedFiles { taken, staying, files }
    }

    fn is_in_workspace(&self, path: &Path) -> bool {
        self.workspace.roots().iter().any(|root| path != root && path.starts_with(root))
    }

    fn move_out(&self, path: &Path) -> io::Result<PathBuf> {
        let parent = match &self.setup.taken_back {
            Some(directory) => directory.clone(),
            None => self.scratch.dir()?.join("taken-back"),
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&parent)?;
        let directory = tempfile::Builder::new().prefix("").tempdir_in(&parent)?;
        let to = directory.path().join(path.file_name().unwrap_or_default());
        moving::move_out(&self.workspace.rooted(path)?, &to)?;
        let _ = directory.keep();
        Ok(to)
    }

    /// Returns the paths that must be read-only for commands because of the protected files that were found last.
    fn protected(&self) -> Vec<PathBuf> {
        let HeldFiles { files, unclear } =
            self.protected.lock().to_held_files(self.workspace.roots());
        let mut protected = with_targets(&files);
        protected.extend(unclear.iter().cloned());
        *self.unclear.lock() = unclear;
        protected.into_iter().collect()
    }

    /// Searches for the protected files and returns them.
    fn protected_files(&self) -> ProtectedFiles {
        if let Err(error) = self.search() {
            tracing::warn!(%error, "protected files could not be searched for");
        }
        let found = Arc::clone(&self.protected.lock());
        identified(&found.files)
    }

    fn is_protected(&self, root: &Path, path: &Path) -> bool {
        // With `false`, the list's rows for directories count, too, because a command could put a file in the place of
        // a protected directory.
        self.setup.protected.names(path.strip_prefix(root).unwrap_or(path), false)
    }

    /// Walks through the workspace, and stores the protected files that it finds. Blocks.
    fn search(&self) -> io::Result<WalkResult> {
        let roots = self.workspace.roots();
        // One root may lie in another: a name is checked relative to each root above it.
        let is_protected = |path: &Path| {
            let mut above = roots.iter().filter(|root| path.starts_with(root));
            above.any(|root| self.is_protected(root, path))
        };
        let secrets = self.workspace.secrets();
        let mut walk = self.walk.lock();
        let mut found = walk.walk(roots, &NameRules { is_protected: &is_protected, secrets })?;
        let mut searched = SearchResult {
            files: take(&mut found.protected),
            directories: take(&mut found.directories),
            unclear: take(&mut found.unclear),
        };
        // Lock order: `walk`, then `protected`. The walk stays locked, so that results are stored in the order of the
        // walks.
        let mut protected = self.protected.lock();
        searched.merge_earlier(&protected);
        *protected = Arc::new(searched);
        Ok(found)
    }
}

/// Returns the directory for temporary files inside the session's scratch directory. A link in its place is an error.
fn temporary_in(directory: &Path) -> io::Result<KnownPath> {
    let path = directory.canonicalize()?.join(TEMPORARY_DIRECTORY);
    if !path.symlink_metadata()?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    KnownPath::at(&path)
}

/// Secrets and sockets in the parts of the hidden home that a command is shown.
#[derive(Default)]
struct FoundInHome {
    /// Files and directories that stay hidden because they may hold secrets.
    secrets: Vec<PathBuf>,
    sockets: Vec<PathBuf>,
}

/// Result of moving new protected files out of the workspace.
struct MovedFiles {
    /// Files that were moved, each with its new path.
    taken: Vec<(PathBuf, PathBuf)>,
    /// New files that stay where they are.
    staying: Vec<PathBuf>,
    /// The present protected files.
    files: ProtectedFiles,
}

/// Returns a message for people about new files that stay because their directory is new, too.
fn about_staying(paths: &[PathBuf]) -> String {
    format!(
        "{} appeared with a new directory. Other programs run such files by themselves: look at the file before \
         you work there. Later commands in the sandbox cannot change the file.",
        listed(paths)
    )
}

/// Returns a list of paths for people, with at most `MAX_LISTED` paths.
fn listed(paths: &[PathBuf]) -> String {
    let shown = paths.iter().take(MAX_LISTED).map(|path| format!("`{}`", path.display()));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match paths.len().saturating_sub(MAX_LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Returns whether a mechanism gives commands a `/tmp` of their own.
fn has_own_temporary(mechanism: Mechanism) -> bool {
    match mechanism {
        Mechanism::Namespaces | Mechanism::Bubblewrap => true,
        Mechanism::Landlock | Mechanism::Seatbelt => false,
    }
}

/// Returns the reasons why no sandbox works here, for people.
pub fn why_none(probe: &Probe) -> String {
    let why = probe.passed_over.iter().map(|it| format!("{}: {}", it.mechanism, it.why));
    let why: Vec<_> = why.collect();
    if why.is_empty() { "this system has none".to_owned() } else { why.join("; ") }
}

fn unavailable(why: &str) -> ToolError {
    ToolError::new(
        "no_sandbox",
        format!("The command was not run: there is no sandbox for it ({why})."),
    )
}

/// Returns the present identities of files.
fn identified(paths: &[PathBuf]) -> ProtectedFiles {
    let identity = |path: &PathBuf| {
        let data = path.symlink_metadata().ok()?;
        let target = fs::read_link(path).ok();
        let end = target.as_ref().and_then(|_| fs::metadata(path).ok());
        let end = end.map(|data| (data.dev(), data.ino()));
        Some((path.clone(), Identity { device: data.dev(), number: data.ino(), target, end }))
    };
    paths.iter().filter_map(identity).collect()
}
