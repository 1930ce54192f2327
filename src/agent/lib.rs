//! The agent core: a session's events, its log and its turns, what may run without a question, and
//! the slash commands. Uses no front end and no wire format.

pub mod commands;
mod keyed_mutex;
pub mod session;
pub mod sessions;

pub use self::keyed_mutex::KeyedMutex;
