//! What people are shown and models are given: text that hides nothing, and media.

pub mod media;
pub mod visible;
