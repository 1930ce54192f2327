//! Content for people and models: text that hides nothing, fences, media, and files of others, read with a bound.

pub mod bounded;
pub mod fence;
pub mod media;
pub mod visible;
