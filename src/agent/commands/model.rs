//! `/model`: which model answers, and another one.

use super::registry::{Argument, Command, CommandRequest};
use crate::session::CommandReply;

pub(super) const COMMAND: Command = Command {
    name: "model",
    description: "show or change the model",
    arguments: &[],
    sub_commands: &[
        Command {
            name: "show",
            description: "the current model, and all known models",
            arguments: &[],
            sub_commands: &[],
            asks_model: false,
            run: Some(|request| Box::pin(show(request))),
        },
        Command {
            name: "set",
            description: "switch to another model within the same conversation",
            arguments: &[Argument {
                name: "id",
                description: "the model's id, as for `--model`",
                is_required: true,
            }],
            sub_commands: &[],
            asks_model: false,
            run: Some(|request| Box::pin(set(request))),
        },
    ],
    asks_model: false,
    run: Some(|request| Box::pin(show(request))),
};

async fn show(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    let current = request.turn.model();
    let known = request.turn.known_models().await?;
    let lines = known.iter().map(|id| {
        let mark = if *id == current { " (this one)" } else { "" };
        format!("- `{id}`{mark}\n")
    });
    let lines: String = lines.collect();
    Ok(CommandReply::Say(format!("The model is `{current}`. Known models:\n\n{lines}")))
}

async fn set(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    let id = request.turn.set_model(request.args).await.map_err(|why| {
        let current = request.turn.model();
        format!("{why}\n\nThe model is `{current}` as before.")
    })?;
    let ready = request.turn.model_ready();
    let but = ready.err().map(|why| format!("\n\nIt cannot be asked yet: {why}"));
    Ok(CommandReply::Say(format!("The model is now `{id}`.{}", but.unwrap_or_default())))
}
