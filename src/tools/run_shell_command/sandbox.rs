//! The sandbox of a command line: what the model can ask for, and what it is told afterwards.

use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use serde_json::{Value, json};
use tandem_sandbox::SandboxMode;

use crate::command_sandbox::Confinement;
use crate::context::ToolContext;
use crate::invocation::SandboxRequest;
use crate::network::{BlockedHost, NetworkAccess};
use crate::output::ToolError;
use crate::shorten::one_line;
use crate::tool::ToolSpec;

/// Word by which the model asks for no sandbox.
const OUTSIDE: &str = "outside";

/// Characters of a command that it is named by.
const NAME_CHARS: usize = 80;

/// Adds the sandbox to what the model is told of the tool.
pub(super) fn describe(spec: &mut ToolSpec) {
    spec.description.push_str(
        " It runs in a sandbox: it can read nearly everything, write /tmp and, as the user's settings \
         have it, the workspace. What git keeps (`.git`) and files that editors and agents run by \
         themselves cannot be written there. If a command fails for that, or is bound to (`git \
         commit`), say in `sandbox` what it needs, and why in `justification`: the user is asked. The \
         network is not there but for a proxy, which `HTTP_PROXY` and its like name where there is one: \
         package managers, curl and git over https go through it by themselves, and the user is asked \
         about hosts that are not allowed yet.",
    );
    let more = json!({
        "sandbox": {
            "type": "string",
            "enum": ["read-only", "workspace-write", OUTSIDE],
            "description": "What the command needs: `workspace-write` to write the workspace, \
                `outside` to run without the sandbox. Left out: as the user's settings have it."
        },
        "justification": {
            "type": "string",
            "description": "With `sandbox`: one sentence for the user, why the command needs it."
        }
    });
    if let (Some(Value::Object(properties)), Value::Object(more)) =
        (spec.parameters.get_mut("properties"), more)
    {
        properties.extend(more);
    }
}

/// Prepares the sandbox that a command is to run in, if it is to run in one.
pub(super) async fn confinement(cx: &ToolContext) -> Result<Option<Confinement>, ToolError> {
    match &cx.host.sandbox {
        Some(sandbox) if cx.sandbox != SandboxMode::DangerFullAccess => {
            let confinement = sandbox.confine(cx.sandbox).await?;
            if let (Some(network), Some(connect)) = (confinement.network(), &cx.connect) {
                network.decide_by(Arc::clone(connect));
            }
            Ok(Some(confinement))
        }
        // The policy must not rely on what there is not.
        None if cx.sandbox != SandboxMode::DangerFullAccess => {
            Err(ToolError::new("no_sandbox", "The command was not run: it has no sandbox."))
        }
        _ => Ok(None),
    }
}

/// Returns what looks at what a command in the background has made, when it has ended.
pub(super) fn look_at_end(
    cx: &ToolContext,
    command: &str,
    confinement: Option<&Confinement>,
) -> BoxFuture<'static, ()> {
    let Some((sandbox, confinement)) = cx.host.sandbox.clone().zip(confinement) else {
        return ready(()).boxed();
    };
    let name = format!("`{}`", one_line(command, NAME_CHARS));
    let runs_on = sandbox.runs_on(confinement, name);
    async move {
        if let Some(runs_on) = runs_on {
            sandbox.has_ended(runs_on).await;
        }
    }
    .boxed()
}

/// Returns what the call asks of the sandbox.
pub(super) fn request(
    mode: Option<&str>,
    justification: Option<&str>,
) -> Result<Option<SandboxRequest>, String> {
    let mode = match mode {
        None | Some("" | "default") => return Ok(None),
        Some(OUTSIDE) => SandboxMode::DangerFullAccess,
        Some(name) => name.parse().map_err(|error| format!("`sandbox`: {error}"))?,
    };
    let justification = justification.map(str::trim);
    let justification = justification.filter(|text| !text.is_empty()).map(ToOwned::to_owned);
    Ok(Some(SandboxRequest { mode, justification }))
}

/// What the model is told of the sandbox, after a command.
#[derive(Default)]
pub(super) struct SandboxNotes {
    /// Of files that were moved out of the workspace.
    pub(super) taken: Option<String>,
    /// Of what the sandbox may have kept the command from, should it have failed.
    pub(super) blocked: Option<String>,
    /// Of hosts that the command was kept from.
    pub(super) hosts: Option<String>,
}

/// What commands without a network cannot do.
const NETWORK: &str = "use the network";

/// Words of the system and of programs for what the sandbox keeps commands from, in lower case: C's library and
/// Go's write the same words with other letters.
const BLOCKED: [(&str, &str); 8] = [
    ("read-only file system", "write there"),
    ("erofs", "write there"),
    ("network is unreachable", NETWORK),
    ("enetunreach", NETWORK),
    ("could not resolve host", NETWORK),
    ("temporary failure in name resolution", NETWORK),
    ("eai_again", NETWORK),
    ("dns error", NETWORK),
];

impl SandboxNotes {
    /// Makes notes on a command that ran in a mode: files that were taken out of the workspace, each with
    /// its new path, what the command wrote, and its way to the network.
    pub(super) fn new(
        mode: SandboxMode,
        taken: &[(PathBuf, PathBuf)],
        output: &str,
        network: Option<&NetworkAccess>,
    ) -> Self {
        let taken = taken.iter().map(|(path, to)| {
            format!(
                "\n[The command made {}, which other programs run by themselves; it was moved to {}. \
                 If the user wants it, write it with write_file, which asks.]",
                path.display(),
                to.display()
            )
        });
        let taken: String = taken.collect();
        let hosts = network.and_then(hosts);
        let output = output.to_ascii_lowercase();
        let blocked = BLOCKED.iter().find(|(words, _)| output.contains(words));
        // Of hosts it is known for certain.
        let blocked = blocked.filter(|(_, what)| *what != NETWORK || hosts.is_none());
        let modes = match mode {
            SandboxMode::ReadOnly => format!("`workspace-write` or `{OUTSIDE}`"),
            _ => format!("`{OUTSIDE}`"),
        };
        let blocked = blocked.map(|(_, what)| {
            let way = match network {
                Some(_) if *what == NETWORK => " other than through the proxy in `HTTP_PROXY`",
                _ => "",
            };
            format!(
                "\n[Blocked by the sandbox ({mode}): the command could not {what}{way}. If it must, \
                 call again with `sandbox` ({modes}) and `justification`.]"
            )
        });
        Self { taken: Some(taken).filter(|taken| !taken.is_empty()), blocked, hosts }
    }
}

/// Returns a note on the hosts that a command was kept from.
pub(super) fn hosts(network: &NetworkAccess) -> Option<String> {
    let blocked = network.blocked();
    let hosts = blocked.iter().map(|BlockedHost { host, why }| format!("{host} ({why})"));
    let hosts: Vec<_> = hosts.collect();
    (!hosts.is_empty()).then(|| {
        format!(
            "\n[Blocked by the sandbox: the command wanted to connect to {}.]",
            hosts.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(output: &str, expected: bool) {
        let notes = SandboxNotes::new(SandboxMode::WorkspaceWrite, &[], output, None);
        assert_eq!(notes.blocked.is_some(), expected, "{output}");
    }

    #[test]
    fn words_of_a_blocked_command_are_known_in_any_letters() {
        check("touch: cannot touch 'a': Read-only file system", true);
        check("open /etc/a: read-only file system", true);
        check("dial tcp 203.0.113.7:443: connect: network is unreachable", true);
        check("Error: getaddrinfo EAI_AGAIN registry.example", true);
        check("the file system is read-only", false);
    }
}
