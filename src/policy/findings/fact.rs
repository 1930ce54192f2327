//! Facts: what can be found of a call, without any policy.

use crate::verdict::BuiltInRule;

/// A fact about a call, or about a command of a line. A call without one is harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fact {
    /// It is not known to do nothing but read inside the workspace.
    RunsUnknown,
    /// A program, or an option of it, does harm that an earlier "always" was not meant for: it runs as another user, runs
    /// code that no file has, overwrites what others have.
    RunsDangerous,
    /// Only running it would tell which program it runs, or which file it changes.
    Unresolved,
    /// It changes which programs run, or is a program of the workspace with the name of another.
    ChangesPrograms,
    /// It may remove files of the workspace for good.
    Deletes,
    /// It writes an ordinary file of the workspace: a tool, or a redirection of a command.
    WritesFile,
    /// It may change a file outside the workspace.
    ChangesOutside,
    /// It may change a file that takes effect without a person running it. The sandbox protects the file.
    ChangesSensitive,
    /// It may change such a file that package managers write, so that the sandbox does not protect it: `package.json`.
    ChangesUnprotected,
    /// A command names a secret, and may read or change it.
    NamesSecret,
    /// A command may name a secret: only running it would tell.
    MayNameSecret,
    /// A command may change a git repository.
    ChangesRepository,
    /// A command changes a file of the hidden home that it names.
    ChangesHiddenHome,
    /// The model requests that a harmless line leaves the sandbox.
    LeavesSandbox,
    /// A tool reads a secret.
    ReadsSecret,
    /// A tool, or a command in the sandbox, reads a file of the hidden home.
    ReadsHiddenHome,
    /// A tool of an MCP server is called.
    CallsServer,
    /// A tool of an MCP server is called that only reads, as the server says.
    CallsReadingServer,
    /// Another agent is sent something.
    CallsAgent,
    /// Another agent asks before it does something where it runs.
    AgentActs,
    /// Another agent asks before it does something that may do harm where it runs, as the agent says.
    AgentDoesHarm,
    /// A host is connected to that neither the settings nor the user allow.
    Connects,
    /// A tool does something else than reading.
    DoesMore,
}

/// A fact, with the reason to ask about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The fact.
    pub fact: Fact,
    /// Built-in rule that found the fact.
    pub rule: BuiltInRule,
    /// Reason to ask, in a few words for people.
    pub why: String,
}

impl Finding {
    pub(crate) fn new(fact: Fact, rule: BuiltInRule, why: impl Into<String>) -> Self {
        Self { fact, rule, why: why.into() }
    }
}
