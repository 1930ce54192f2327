//! Content for people and models: text without hidden characters, shortened text, Markdown fences, media, server-sent
//! events, and bounded reading of files that other programs control.

pub mod bounded;
pub mod fence;
pub mod media;
pub mod plain;
pub mod shorten;
pub mod sse;
pub mod visible;
