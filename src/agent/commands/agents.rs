//! `/agents`: the other agents that the model can call, their skills and their status.

use super::registry::{Command, CommandRequest};
use crate::session::CommandReply;
use tandem_a2a_client::AgentStatus;

pub(super) const COMMAND: Command = Command {
    name: "agents",
    description: "the other agents that the model can call, and their skills",
    sub_commands: &[Command {
        name: "reload",
        description: "reload the settings, and read the agents' cards again",
        run: Some(|request| Box::pin(reload(request))),
        ..Command::BLANK_COMMAND
    }],
    run: Some(|request| Box::pin(list(request))),
    ..Command::BLANK_COMMAND
};

const NO_AGENTS: &str =
    "No other agents are configured. Add them under `a2aServers` in `settings.json`.";

async fn list(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    let agents = request.turn.engine.agents.status().await;
    if agents.is_empty() {
        return Ok(CommandReply::Say(NO_AGENTS.to_owned()));
    }
    let said: Vec<_> = agents.iter().map(about).collect();
    Ok(CommandReply::Say(said.join("\n")))
}

async fn reload(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    request.turn.engine.agents.reload().await?;
    list(request).await
}

fn about(agent: &AgentStatus) -> String {
    let mut said = format!("**{}**: {}", agent.name, agent.phase);
    for what in [&agent.description, &agent.address] {
        if !what.is_empty() {
            said += &format!(" · {what}");
        }
    }
    if !agent.from.is_empty() {
        said += &format!(" · named by {}", agent.from);
    }
    said.push('\n');
    for (name, description) in &agent.skills {
        said += &format!("- {name}: {description}\n");
    }
    said
}
