//! The ways into a session: each translates between a wire, or a screen, and the session.

pub mod a2a;
pub mod acp;
pub mod headless;
pub mod tui;
