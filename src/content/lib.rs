//! Content for people and models: text that hides nothing, texts made short, fences, media, server-sent events, and files
//! of others, read with a bound.

pub mod bounded;
pub mod fence;
pub mod media;
pub mod plain;
pub mod shorten;
pub mod sse;
pub mod visible;
