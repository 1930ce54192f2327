//! Calls of tools: preparing, asking and running them, with the questions to people and their answers.

pub(crate) mod approvals;
pub(crate) mod call;
pub(crate) mod connections;
pub(crate) mod consent;
pub(crate) mod gate;
pub(crate) mod other_agents;
pub(crate) mod own_call;
pub(crate) mod question;
pub(crate) mod servers;
pub(crate) mod toolbox;
pub(crate) mod user_questions;
