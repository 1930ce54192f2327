//! The ways into a session: each translates between a wire, or a screen, and the session.

pub mod a2a;
pub mod acp;
pub mod headless;
pub mod tui;

use crate::protocol::attach::Offered;
use crate::session::Session;

/// The commands that only this session has, as a terminal offers them, here or attached. May read
/// files.
fn offered(session: &Session) -> Vec<Offered> {
    let offered = session.own_commands().into_iter().map(|command| Offered {
        takes: !command.arguments.is_empty(),
        description: command.description,
        name: command.name,
    });
    offered.collect()
}
