//! Other agents, and whoever else speaks A2A.

pub mod webhook;
