//! Whether a tool call may run: the policy, and what the user said always to allow.

pub mod consent;
pub mod rules;
pub mod shell;

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use self::rules::{Part, Risk};
use crate::sync::Mutex;
use crate::tools::{Access, Hints};

/// How much is allowed without a question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Reading.
    #[default]
    Default,
    /// Also changing files of the workspace, and reading the web.
    AutoEdit,
    /// Everything.
    Yolo,
    /// Reading; all else is refused.
    Plan,
}

impl Mode {
    /// All of them, with the names that users give them.
    pub const ALL: [(&'static str, Self); 4] = [
        ("default", Self::Default),
        ("auto_edit", Self::AutoEdit),
        ("yolo", Self::Yolo),
        ("plan", Self::Plan),
    ];
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, mode)| *mode).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("must be one of {}", names.join(", "))
        })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, mode)| mode == self).map_or("", |(name, _)| name);
        f.pad(name)
    }
}

/// What the policy says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Run it.
    Allow,
    /// Ask the user.
    Ask(Question),
    /// Do not run it; why, for the model.
    Deny(String),
}

/// What the user is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Which rule asks, and of a command line which part.
    pub why: String,
    /// Of a command line: the names of its commands that were not always allowed before.
    pub commands: Vec<String>,
    /// What "always" can mean here, narrow before broad. May be empty.
    pub scopes: Vec<Scope>,
}

/// What the user always allows, until the session ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// Changing files of the workspace.
    Edits,
    /// Commands that begin with one of these words: `git commit`, `make`.
    Commands(Vec<String>),
    /// Reading from these hosts.
    Hosts(Vec<String>),
    /// Everything that one tool does.
    Tool(String),
    /// Every tool of one MCP server.
    Server(String),
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &[String]| {
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Edits => f.write_str("all edits in the workspace"),
            Self::Commands(prefixes) => write!(f, "commands that begin with {}", list(prefixes)),
            Self::Hosts(hosts) => write!(f, "fetching from {}", list(hosts)),
            Self::Tool(tool) => write!(f, "every call of `{tool}`"),
            Self::Server(server) => write!(f, "every tool of the server `{server}`"),
        }
    }
}

/// The policy of one session.
pub struct Permissions {
    mode: Mutex<Mode>,
    /// The workspace's directories, real paths.
    roots: Vec<PathBuf>,
    /// What the user always allows.
    allowed: Mutex<Vec<Scope>>,
}

impl Permissions {
    /// The policy of a session on these directories (real paths).
    pub fn new(mode: Mode, roots: &[PathBuf]) -> Self {
        Self { mode: Mutex::new(mode), roots: roots.to_owned(), allowed: Mutex::default() }
    }

    /// How much is allowed without a question.
    pub fn mode(&self) -> Mode {
        *self.mode.lock()
    }

    /// Changes how much is allowed without a question.
    pub fn set_mode(&self, mode: Mode) {
        *self.mode.lock() = mode;
    }

    /// From now on, allows what the user said always to allow.
    pub fn allow(&self, scope: Scope) {
        let mut allowed = self.allowed.lock();
        if !allowed.contains(&scope) {
            allowed.push(scope);
        }
    }

    /// Applies the policy. Of a command line this looks files up: of a very long one, thousands.
    pub fn check(&self, tool: &str, access: &Access) -> Verdict {
        let mode = self.mode();
        if mode == Mode::Yolo || matches!(access, Access::Nothing | Access::Read) {
            return Verdict::Allow;
        }
        if let Access::Execute { command, directory } = access {
            return self.check_command(mode, tool, command, directory);
        }
        if mode == Mode::Plan {
            return match access {
                Access::Fetch { .. } => Verdict::Allow,
                Access::Mcp { server, hints, .. } if hints.read_only == Some(true) => {
                    self.check_mcp(tool, server, *hints)
                }
                _ => Verdict::Deny(PLAN.to_owned()),
            };
        }
        if let Access::Edit { path } = access
            && let Some(why) = self.sensitive(path)
        {
            return ask(why, Vec::new());
        }
        if self.always(&Scope::Tool(tool.to_owned())) {
            return Verdict::Allow;
        }
        match access {
            Access::Edit { .. } => self.check_edit(mode, tool),
            Access::Fetch { urls } => self.check_fetch(mode, tool, urls),
            Access::Mcp { server, hints, .. } => self.check_mcp(tool, server, *hints),
            _ => ask(
                "this mode asks before it does more than read",
                vec![Scope::Tool(tool.to_owned())],
            ),
        }
    }

    fn always(&self, scope: &Scope) -> bool {
        self.allowed.lock().contains(scope)
    }

    /// Why a change of this file is always asked about. Where the workspace lies does not count.
    fn sensitive(&self, path: &Path) -> Option<String> {
        let inside = self.roots.iter().find_map(|root| path.strip_prefix(root).ok());
        let inside = inside.unwrap_or(path);
        rules::sensitive(inside).map(|why| format!("`{}` is special: {why}", inside.display()))
    }

    fn check_edit(&self, mode: Mode, tool: &str) -> Verdict {
        if self.edits_freely(mode) {
            return Verdict::Allow;
        }
        ask(
            "this mode asks before it changes files",
            vec![Scope::Edits, Scope::Tool(tool.to_owned())],
        )
    }

    fn edits_freely(&self, mode: Mode) -> bool {
        mode == Mode::AutoEdit || self.always(&Scope::Edits)
    }

    fn check_fetch(&self, mode: Mode, tool: &str, urls: &[String]) -> Verdict {
        let mut hosts: Vec<String> = urls.iter().map(|url| host(url)).collect();
        hosts.sort();
        hosts.dedup();
        let allowed = self.allowed.lock();
        let known = |host: &String| {
            allowed.iter().any(|scope| matches!(scope, Scope::Hosts(hosts) if hosts.contains(host)))
        };
        if mode == Mode::AutoEdit || (!hosts.is_empty() && hosts.iter().all(known)) {
            return Verdict::Allow;
        }
        let hosts = (!hosts.is_empty()).then_some(Scope::Hosts(hosts));
        let scopes = hosts.into_iter().chain([Scope::Tool(tool.to_owned())]).collect();
        ask("this mode asks before it reads the web", scopes)
    }

    fn check_mcp(&self, tool: &str, server: &str, hints: Hints) -> Verdict {
        let (tool, server) = (Scope::Tool(tool.to_owned()), Scope::Server(server.to_owned()));
        if hints.trusted || self.always(&tool) || self.always(&server) {
            return Verdict::Allow;
        }
        // Servers need not say the truth: nothing is allowed for what they say.
        let said = match (hints.read_only, hints.destructive) {
            (Some(true), _) => "; the server says that this one only reads",
            (_, Some(true)) => "; the server says that this one may destroy something",
            _ => "",
        };
        ask(format!("tools of MCP servers are asked for{said}"), vec![tool, server])
    }

    fn check_command(&self, mode: Mode, tool: &str, command: &str, directory: &Path) -> Verdict {
        let parts = match rules::judge(command, directory, &self.roots) {
            Ok(parts) => parts,
            Err(_) if mode == Mode::Plan => return Verdict::Deny(PLAN.to_owned()),
            Err(why) => return ask(why, Vec::new()),
        };
        let all_tool = self.always(&Scope::Tool(tool.to_owned()));
        let edits = self.edits_freely(mode);
        let asks = |part: &&Part| match part.risk {
            Risk::None => false,
            Risk::Forced(_) => true,
            _ if mode == Mode::Plan => true,
            Risk::Writes(_) if edits => false,
            Risk::Writes(_) | Risk::Runs(_) => !(all_tool || self.remembers(part, edits)),
        };
        let asking: Vec<&Part> = parts.iter().filter(asks).collect();
        if asking.is_empty() {
            return Verdict::Allow;
        }
        if mode == Mode::Plan {
            return Verdict::Deny(PLAN.to_owned());
        }
        let open =
            |part: &&Part| matches!(part.risk, Risk::Forced(_)) || !self.remembers(part, edits);
        let commands = unique(parts.iter().filter(open).map(|part| part.name.clone()));
        let mut scopes = Vec::new();
        if !asking.iter().any(|part| matches!(part.risk, Risk::Forced(_))) {
            let prefixes = unique(asking.iter().map(|part| remembered(part, edits)));
            scopes.push(Scope::Commands(prefixes));
            if asking.iter().all(|part| matches!(part.risk, Risk::Writes(_))) {
                scopes.push(Scope::Edits);
            }
            scopes.push(Scope::Tool(tool.to_owned()));
        }
        Verdict::Ask(Question { why: self.reasons(asking, edits), commands, scopes })
    }

    /// Whether the user said always to allow what a part begins with.
    fn remembers(&self, part: &Part, edits: bool) -> bool {
        let wanted = remembered(part, edits);
        // Who may also write may do without.
        let more = format!("{wanted}{WRITING}");
        self.allowed.lock().iter().any(|scope| {
            matches!(scope, Scope::Commands(prefixes)
                if prefixes.contains(&wanted) || prefixes.contains(&more))
        })
    }

    /// Why these parts are asked about: the gravest reasons first, and not too many.
    fn reasons(&self, mut parts: Vec<&Part>, edits: bool) -> String {
        const MAX: usize = 4;
        parts.sort_by_key(|part| !matches!(part.risk, Risk::Forced(_)));
        let mut reasons = Vec::new();
        for part in parts {
            if matches!(part.risk, Risk::Forced(_)) || !self.remembers(part, true) {
                reasons.push(part.why().to_owned());
            }
            reasons.extend(part.writes.clone().filter(|_| !edits));
        }
        let mut reasons = unique(reasons.into_iter());
        let more = reasons.len().saturating_sub(MAX);
        reasons.truncate(MAX);
        if more > 0 {
            reasons.push(format!("and {more} more"));
        }
        reasons.join("; ")
    }
}

/// What is remembered of a command whose output goes to a file, after its prefix.
const WRITING: &str = " >";

/// What "always" remembers of a part. That it writes a file counts, unless edits are allowed; and
/// which file, if that can be run.
fn remembered(part: &Part, edits: bool) -> String {
    match &part.overwrites {
        _ if part.writes.is_none() || edits => part.prefix.clone(),
        Some(file) => format!("{}{WRITING} {file}", part.prefix),
        None => format!("{}{WRITING}", part.prefix),
    }
}

/// The texts without repetitions, in their order.
fn unique(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = HashSet::new();
    texts.filter(|text| seen.insert(text.clone())).collect()
}

const PLAN: &str =
    "Plan mode: nothing may be changed or run. Read, search, and say what you would do.";

fn ask(why: impl Into<String>, scopes: Vec<Scope>) -> Verdict {
    Verdict::Ask(Question { why: why.into(), commands: Vec::new(), scopes })
}

/// The host of a URL, as whoever fetches it will read it; all of the URL if it has none.
fn host(url: &str) -> String {
    let parsed = reqwest::Url::parse(url).ok();
    let host = parsed.as_ref().and_then(|url| Some((url.host_str()?, url.port())));
    match host {
        Some((host, Some(port))) => format!("{host}:{port}"),
        Some((host, None)) => host.to_owned(),
        None => url.to_owned(),
    }
}
