//! Content for people and models: text that hides nothing, media, and files of others, read with a bound.

pub mod bounded;
pub mod media;
pub mod visible;
