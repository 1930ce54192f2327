//! `/tools`: the tools that the model can call.

use super::registry::{Command, CommandRequest};
use super::words::first_sentence;
use crate::session::CommandReply;

pub(super) const COMMAND: Command = Command {
    name: "tools",
    description: "the tools that the model can call",
    run: Some(|request| Box::pin(async move { Ok(CommandReply::Say(tools(&request))) })),
    ..Command::BLANK_COMMAND
};

fn tools(request: &CommandRequest<'_>) -> String {
    let engine = request.turn.engine;
    let tools = engine.tools.declarations(&*engine.model.get());
    if tools.is_empty() {
        return "The model has no tools.".to_owned();
    }
    let lines = tools
        .iter()
        .map(|tool| format!("- `{}`: {}\n", tool.name, first_sentence(&tool.description)));
    lines.collect()
}
