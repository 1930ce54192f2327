//! `/thinking`: shows or changes the model's level of thinking.

use super::registry::{Argument, Command, CommandRequest};
use crate::session::{CommandReply, DEFAULT_THINKING};

pub(super) const COMMAND: Command = Command {
    name: "thinking",
    description: "show or change how much the model thinks",
    arguments: &[Argument {
        name: "level",
        description: "one of the model's levels, or `default`",
        is_required: false,
    }],
    run: Some(|request| Box::pin(async move { thinking(&request) })),
    ..Command::BLANK_COMMAND
};

fn thinking(request: &CommandRequest<'_>) -> Result<CommandReply, String> {
    let (turn, wanted) = (request.turn, request.args.trim());
    if wanted.is_empty() {
        return Ok(CommandReply::Say(levels(request)));
    }
    let is_default = wanted.eq_ignore_ascii_case(DEFAULT_THINKING);
    turn.engine.set_thinking((!is_default).then_some(wanted))?;
    let level = turn.engine.thinking().unwrap_or_else(|| DEFAULT_THINKING.to_owned());
    Ok(CommandReply::Say(format!("Thinking is now: {level}")))
}

fn levels(request: &CommandRequest<'_>) -> String {
    let (model, offered) =
        (request.turn.engine.model.id(), request.turn.engine.model.get().thinking());
    if offered.levels.is_empty() {
        return format!("How much `{model}` thinks cannot be chosen.");
    }
    let current = request.turn.engine.thinking().unwrap_or_else(|| DEFAULT_THINKING.to_owned());
    let default = offered.default.map(|level| format!(": {level}")).unwrap_or_default();
    let mut lines = String::new();
    for level in std::iter::once(DEFAULT_THINKING).chain(offered.levels.iter().map(String::as_str))
    {
        let of_default = if level == DEFAULT_THINKING { &*default } else { "" };
        let mark = if level == current { " (this one)" } else { "" };
        lines += &format!("- `{level}`{of_default}{mark}\n");
    }
    format!("How much `{model}` thinks:\n\n{lines}")
}
