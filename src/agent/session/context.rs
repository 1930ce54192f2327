//! Context of the model: instructions, memory, the conversation so far, and its compression.

pub(crate) mod answer_schema;
pub(crate) mod at_path;
pub(crate) mod compress;
pub(crate) mod conversation;
mod families;
pub(crate) mod instructions;
pub(crate) mod known_instructions;
pub(crate) mod memory;
pub(crate) mod prompt;
mod repository;
pub(crate) mod rewind;
pub(crate) mod surroundings;
pub(crate) mod transcript;
