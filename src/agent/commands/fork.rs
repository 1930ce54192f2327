//! `/fork`: makes a copy of the session, which is independent of it.

use super::registry::{Command, CommandRequest};
use crate::session::CommandReply;
use crate::sessions::fork_ended;

pub(super) const COMMAND: Command = Command {
    name: "fork",
    description: "copy this conversation up to now, so that the copy can go another way",
    run: Some(|request| Box::pin(fork(request))),
    ..Command::BLANK_COMMAND
};

async fn fork(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    let turn = request.turn;
    let store = turn.engine.wait_stored().await.map_err(not_copied)?;
    let copy = fork_ended(&**store, turn.id(), None).await.map_err(not_copied)?;
    // `tandem -r` on a server's machine can open neither sessions in a shared database nor sessions of the server's
    // clients.
    let is_local = store.shared().is_none() && copy.owner.is_none();
    let go_on = if is_local {
        format!("`tandem -r {}`", copy.id)
    } else {
        format!("`tandem attach URL --session {}`, with the server's URL,", copy.id)
    };
    Ok(CommandReply::Say(format!(
        "The conversation is copied: {go_on} goes on with the copy. This conversation stays as it is."
    )))
}

fn not_copied(why: impl std::fmt::Display) -> String {
    format!("Not copied: {why}.")
}
