//! Chats of Gemini CLI, which are listed beside tandem's own sessions and can be continued in tandem.
//!
//! Gemini CLI's files are only read. To continue a chat, tandem creates a session of its own, whose log has the chat's
//! content as events. The format is that of Gemini CLI 0.9 to 0.56.

mod chat;
mod chats;
mod events;
mod pieces;
mod store;

pub use self::chats::GeminiCli;
pub use self::store::WithGeminiCli;
