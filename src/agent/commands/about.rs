//! `/about`: the version, the model, the approval mode, the workspace and the system.

use super::registry::{Command, CommandRequest};
use super::words::list;
use crate::session::CommandReply;

pub(super) const COMMAND: Command = Command {
    name: "about",
    description: "this program's version, the model, the mode, the workspace",
    run: Some(|request| Box::pin(async move { Ok(CommandReply::Say(about(&request))) })),
    ..Command::BLANK_COMMAND
};

fn about(request: &CommandRequest<'_>) -> String {
    let turn = request.turn;
    let roots =
        turn.engine.host.workspace.roots().iter().map(|root| format!("`{}`", root.display()));
    format!(
        "**tandem {}**\n\n- model: `{}`\n- approval mode: `{}`\n- workspace: {}\n- system: {} ({})\n",
        env!("CARGO_PKG_VERSION"),
        turn.engine.model.id(),
        turn.engine.modes.current(),
        list(roots),
        std::env::consts::OS,
        std::env::consts::ARCH,
    )
}
