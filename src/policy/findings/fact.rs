//! Facts: what can be found of a call, without any policy.

use tandem_approval::BuiltInRule;

/// A fact about a call, or about a command of a line. A call without one is harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fact {
    /// Command that is not known to only read inside the workspace.
    RunsUnknown,
    /// Program, or option, that does harm which an earlier "always" was not meant for: it runs as another user, runs
    /// code that no file has, or overwrites what others have.
    RunsDangerous,
    /// Program, file or line that is known only when the command runs.
    Unresolved,
    /// Change of the programs that run, or a program of the workspace with the name of another.
    ChangesPrograms,
    /// Possible removal of files of the workspace for good.
    Deletes,
    /// Change of an ordinary file of the workspace, by a tool or by a redirection of a command.
    WritesFile,
    /// Possible change of a file outside the workspace.
    ChangesOutside,
    /// Possible change of a file that other programs run or obey by themselves, such as a git hook. The sandbox
    /// protects the file.
    ChangesSensitive,
    /// Possible change of such a file that the sandbox does not protect, because package managers write the file:
    /// `package.json`.
    ChangesUnprotected,
    /// Secret that a command names, and may read or change.
    NamesSecret,
    /// Secret that a command may name: only running the command would tell.
    MayNameSecret,
    /// Possible change of a git repository.
    ChangesRepository,
    /// Change of a file of the hidden home that a command names.
    ChangesHiddenHome,
    /// Request of the model that a harmless line leaves the sandbox.
    LeavesSandbox,
    /// Text for a program that runs. The program may take the text for commands, so that it can do anything that the
    /// program can.
    FeedsProgram,
    /// Secret that a tool reads.
    ReadsSecret,
    /// File of the hidden home that a tool, or a command in the sandbox, reads.
    ReadsHiddenHome,
    /// Call of a tool of an MCP server.
    CallsServer,
    /// Call of a tool of an MCP server that only reads, according to the server.
    CallsReadingServer,
    /// Message to another agent.
    CallsAgent,
    /// Action of another agent, which asks before the action.
    AgentActs,
    /// Action of another agent that may do harm where the agent runs, according to the agent.
    AgentDoesHarm,
    /// Connection to a host that neither the settings nor the user allow.
    Connects,
    /// Call of a tool that does more than read.
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
