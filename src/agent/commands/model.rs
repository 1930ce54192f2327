//! `/model`: shows the model that answers, or switches to another.

use super::registry::{Argument, Command, CommandRequest};
use crate::session::CommandReply;
use tandem_model::offer::ServerScope;

pub(super) const COMMAND: Command = Command {
    name: "model",
    description: "show or change the model",
    sub_commands: &[
        Command {
            name: "show",
            description: "the current model, and all known models",
            run: Some(|request| Box::pin(show(request))),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "set",
            description: "switch to another model within the same conversation",
            arguments: &[Argument {
                name: "id",
                description: "the model's id, as for `--model`",
                is_required: true,
            }],
            run: Some(|request| Box::pin(set(request))),
            ..Command::BLANK_COMMAND
        },
    ],
    run: Some(|request| Box::pin(show(request))),
    ..Command::BLANK_COMMAND
};

/// Maximum number of models in a list: gateways have hundreds.
const MAX_LISTED: usize = 100;

async fn show(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    let current = request.turn.engine.model.id();
    let known = list(&request.turn.engine.model.known_ids().await?, &current);
    let mut said = format!("The model is `{current}`. Known models:\n\n{known}");
    // Clients of a server do not learn which programs run on its machine.
    let scope = if request.turn.is_served() { ServerScope::SetUp } else { ServerScope::All };
    for group in request.turn.engine.model.served(scope).await {
        let ids: Vec<_> = group.models.iter().map(|model| model.id.clone()).collect();
        said.push_str(&format!("\n{}:\n\n{}", group.heading(), list(&ids, &current)));
    }
    Ok(CommandReply::Say(said))
}

/// Lists models in Markdown, with a mark at the model that answers.
fn list(ids: &[String], current: &str) -> String {
    let line = |id: &String| {
        let mark = if id == current { " (this one)" } else { "" };
        format!("- `{id}`{mark}\n")
    };
    let more = ids.len().saturating_sub(MAX_LISTED);
    let lines: String = ids.iter().take(MAX_LISTED).map(line).collect();
    if more == 0 { lines } else { format!("{lines}- and {more} more\n") }
}

async fn set(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    let set = async {
        check_set_up(&request).await?;
        request.turn.engine.set_model(request.args).await
    };
    let id = set.await.map_err(|why| {
        let current = request.turn.engine.model.id();
        format!("{why}\n\nThe model is `{current}` as before.")
    })?;
    let ready = request.turn.engine.model.get().ready();
    let but = ready.err().map(|why| format!("\n\nThe model cannot answer yet: {why}"));
    Ok(CommandReply::Say(format!("The model is now `{id}`.{}", but.unwrap_or_default())))
}

/// Refuses a model of a program that is not set up, to clients of a server: they reach no other program of its machine.
async fn check_set_up(request: &CommandRequest<'_>) -> Result<(), String> {
    if !request.turn.is_served() || request.turn.engine.model.is_set_up(request.args).await? {
        return Ok(());
    }
    Err(format!(
        "The program of `{}` is not set up on this server. Choose a model that `/model show` lists.",
        request.args
    ))
}
