//! Content for people and models: text without hidden characters, shortened text, Markdown fences, media, JSON that fits
//! a schema, server-sent events, bounded reading of files that other programs control, and hand-over of blocking work.

pub mod blocking;
pub mod bounded;
pub mod fence;
pub mod json_schema;
pub mod media;
pub mod plain;
pub mod shorten;
pub mod sse;
pub mod visible;
