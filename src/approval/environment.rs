//! The environment that commands run in, as the policy knows it.

use std::ffi::OsString;
use std::sync::Arc;

use tandem_host::hidden_home::HiddenHome;
use tandem_sandbox::SandboxMode;

/// The environment that commands are started with.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: Vec<(String, String)>,
    sandbox: Option<SandboxSituation>,
    hidden: Option<Arc<HiddenHome>>,
}

/// Properties of the sandbox that commands can run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxSituation {
    /// Mode that the user has named; `None`: the approval mode decides.
    pub mode: Option<SandboxMode>,
    /// `true` if the sandbox keeps protected files of the workspace from being written.
    pub protects: bool,
    /// `true` if commands can use the machine's network.
    pub network: bool,
}

impl Environment {
    /// Returns an environment of these variables, without a sandbox.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let text = |text: OsString| text.to_string_lossy().into_owned();
        let variables = variables.into_iter().map(|(name, value)| (text(name), text(value)));
        Self { variables: variables.collect(), sandbox: None, hidden: None }
    }

    /// Returns the environment with a sandbox for commands.
    #[must_use]
    pub fn sandboxed(self, sandbox: Option<SandboxSituation>) -> Self {
        Self { sandbox, ..self }
    }

    /// Returns the environment with a home that is hidden from commands in the sandbox.
    #[must_use]
    pub fn hiding(self, home: HiddenHome) -> Self {
        Self { hidden: Some(Arc::new(home)), ..self }
    }

    /// Returns the home that is hidden from commands in the sandbox.
    pub fn hidden(&self) -> Option<&HiddenHome> {
        self.hidden.as_deref()
    }

    /// Returns the sandbox that commands can have.
    pub fn sandbox(&self) -> Option<SandboxSituation> {
        self.sandbox
    }

    /// Returns all variables, with their values.
    pub fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    /// Returns the value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}
