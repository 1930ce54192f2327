//! Sessions of Gemini CLI, which are listed beside the own ones and can go on here.
//!
//! Its files are only read. Of a chat that goes on, a session of tandem's own is made: what is in the
//! chat, written as events. The format is that of Gemini CLI 0.9 to 0.56.

mod chat;
mod chats;
mod events;
mod pieces;
mod store;

pub use self::chats::GeminiCli;
pub use self::store::WithGeminiCli;
