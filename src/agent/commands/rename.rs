//! `/rename`: gives the session another title, which lists of sessions show.

use super::registry::{Argument, Command, CommandRequest};
use crate::session::CommandReply;

pub(super) const COMMAND: Command = Command {
    name: "rename",
    description: "give the session another title, or show the one it has",
    arguments: &[Argument {
        name: "title",
        description: "the title, by which the session is found again",
        is_required: false,
    }],
    run: Some(|request| Box::pin(async move { Ok(rename(&request)) })),
    ..Command::BLANK_COMMAND
};

fn rename(request: &CommandRequest<'_>) -> CommandReply {
    let turn = request.turn;
    CommandReply::Say(match turn.rename(request.args) {
        Some(title) => format!("The session's title is now: {title}"),
        None => format!("The session's title: {}", turn.title()),
    })
}
