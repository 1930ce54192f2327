//! The address of an agent that can be attached to.

use std::fmt;

/// An agent of this machine.
#[derive(Debug, Clone)]
pub struct LocalAgent {
    /// Address that the agent listens at.
    pub port: u16,
    /// Token that the agent demands, if it does.
    pub token: Option<String>,
    /// The longest message that is read, in bytes.
    pub line_bytes: usize,
}

impl fmt::Display for LocalAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "127.0.0.1:{}", self.port)
    }
}
