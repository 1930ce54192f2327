//! Terminals of a client, in which commands of a session can run.

use std::path::PathBuf;
use std::ptr::addr_eq;
use std::sync::{Arc, Weak};

use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::command_end::CommandExit;

/// Terminals of a client. The client's answers are not trusted.
pub trait ClientTerminals: Send + Sync {
    /// Runs a command in a new terminal, which the client shows with the call. The error says why the client has not
    /// run it.
    fn create(
        &self,
        call: &str,
        command: &ClientCommand,
    ) -> BoxFuture<'static, Result<Box<dyn ClientTerminal>, String>>;
}

/// A terminal of a client in which a command runs. When this value is dropped, the client is told to end the command
/// and to free the terminal. Each error says why there is no answer.
pub trait ClientTerminal: Send + Sync {
    /// Waits until the command has ended.
    fn wait_for_exit(&self) -> BoxFuture<'static, Result<CommandExit, String>>;

    /// Asks for the output of the command so far.
    fn output(&self) -> BoxFuture<'static, Result<ClientOutput, String>>;

    /// Ends the command. Its output stays available.
    fn kill(&self) -> BoxFuture<'static, Result<(), String>>;
}

/// A command for a terminal of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCommand {
    /// Program, which the client looks for in its `PATH`.
    pub program: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Environment variables in addition to those of the client.
    pub variables: Vec<(String, String)>,
    /// Working directory; absolute.
    pub directory: PathBuf,
    /// Number of bytes of output that the client stores, counted from the end.
    pub output_bytes: usize,
}

/// Output of a command, as a client has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOutput {
    /// Text with control characters.
    pub text: String,
    /// `true` if the beginning of the output is missing.
    pub is_truncated: bool,
}

/// The clients of a session in whose terminals commands can run.
#[derive(Default)]
pub struct OpenTerminals(Mutex<Vec<Arc<dyn ClientTerminals>>>);

impl OpenTerminals {
    /// Adds a client. Commands run in its terminals, before those of other clients, until the guard is dropped.
    pub fn join(self: &Arc<Self>, terminals: Arc<dyn ClientTerminals>) -> TerminalsGuard {
        let open = Arc::downgrade(self);
        let guard = TerminalsGuard { open, terminals: Arc::downgrade(&terminals) };
        self.0.lock().push(terminals);
        guard
    }

    /// Returns the terminals of the client that joined last.
    pub fn last(&self) -> Option<Arc<dyn ClientTerminals>> {
        self.0.lock().last().cloned()
    }
}

/// Guard of a client's membership: commands run in the client's terminals until it is dropped.
pub struct TerminalsGuard {
    open: Weak<OpenTerminals>,
    terminals: Weak<dyn ClientTerminals>,
}

impl Drop for TerminalsGuard {
    fn drop(&mut self) {
        if let Some(open) = self.open.upgrade() {
            let own = self.terminals.as_ptr();
            open.0.lock().retain(|terminals| !addr_eq(Arc::as_ptr(terminals), own));
        }
    }
}
