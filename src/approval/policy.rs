//! The policy as sessions use it. What decides is a room of its own, so that an edit of a rule compiles no session again.

use std::fmt;
use std::path::PathBuf;

use super::environment::Environment;
use super::request::{PolicyRequest, Situation};
use super::scope::Scope;
use super::verdict::{Checked, RuleName};
use tandem_host::secrets::Secrets;

/// Rules that decide on calls.
pub trait Policy: fmt::Debug + Send + Sync {
    /// Returns the verdict on a call. Blocks on file look-ups for a command line: thousands of them for a very long
    /// line.
    fn check(&self, call: &PolicyCall<'_>) -> Checked;

    /// Returns whether a rule denies every call of a tool, so that the model need not know of the tool.
    fn removes(&self, request: &PolicyRequest<'_>, situation: &Situation<'_>) -> bool;

    /// Returns the rules that people have written, the weightiest first, with a description of each.
    fn rules(&self) -> Vec<ListedRule>;

    /// Returns the rules that could not be read, with a message about each.
    fn broken(&self) -> Vec<ListedRule>;
}

/// A call that is decided on, with everything that the verdict depends on.
#[derive(Clone, Copy)]
pub struct PolicyCall<'a> {
    /// The call.
    pub request: &'a PolicyRequest<'a>,
    /// Circumstances of the call.
    pub situation: Situation<'a>,
    /// Scopes that the user always allows now.
    pub always: &'a [Scope],
    /// Directories of the workspace, as real paths.
    pub roots: &'a [PathBuf],
    /// Files that are secret.
    pub secrets: &'a Secrets,
    /// Environment that commands are started with.
    pub environment: &'a Environment,
}

/// A written rule in a list for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedRule {
    /// Name of the rule.
    pub name: RuleName,
    /// Description of the rule, or a message about a rule that cannot be used.
    pub text: String,
}
