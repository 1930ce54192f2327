//! Sessions of Gemini CLI 0.9 to 0.56, which are called chats here, as Gemini CLI calls them.

mod chat;
mod events;
mod files;
mod found;
mod pieces;

pub(crate) use self::chat::PROGRAM_NAME;
pub use self::files::{FoundSessions, GeminiCli, ImportScope};
pub use self::found::FoundSession;
