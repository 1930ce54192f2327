//! Content for people and models: text that hides nothing, and media.

pub mod media;
pub mod visible;
