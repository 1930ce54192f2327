//! Turns: their queue, the loop of one turn, and the prompts and slash commands that begin one.

pub(crate) mod answer_check;
pub(crate) mod command;
pub(crate) mod fill;
mod instruct;
pub(crate) mod loops;
pub(crate) mod mention;
pub(crate) mod queue;
pub(crate) mod resources;
pub(crate) mod span_content;
pub(crate) mod spans;
pub(crate) mod turn;
