//! Prompts of servers: what they say to a model for a person.

use std::collections::BTreeMap;

use rmcp::model::{
    ClientRequest, GetPromptRequest, GetPromptRequestParams, GetPromptResult, Role, ServerResult,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Hub;
use super::connection::Wanted;
use super::offer::ServerPrompt;
use super::result::Gathered;
use super::tool::failed;
use tandem_content::media::Media;

/// A prompt, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPrompt {
    /// The server's name.
    pub server: String,
    /// What it offers.
    pub prompt: ServerPrompt,
}

/// What a server said for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Markdown.
    pub text: String,
    /// What is to be looked at.
    pub media: Vec<Media>,
}

impl Hub {
    /// The prompts of all servers, the servers in the order of their names.
    pub fn prompts(&self) -> Vec<NamedPrompt> {
        let mut prompts = Vec::new();
        for server in self.all() {
            prompts.extend(server.state().offer.prompts.iter().map(|prompt| NamedPrompt {
                server: server.config.name.clone(),
                prompt: prompt.clone(),
            }));
        }
        prompts
    }

    /// Has a server put a prompt together.
    pub async fn prompt(
        &self,
        server: &str,
        name: &str,
        args: BTreeMap<String, String>,
    ) -> Result<Said, String> {
        let server = self.find(server)?;
        let connection = server.connection(&CancellationToken::new()).await?;
        let mut params = GetPromptRequestParams::new(name);
        if !args.is_empty() {
            let args = args.into_iter().map(|(name, value)| (name, Value::String(value)));
            params = params.with_arguments(args.collect());
        }
        let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
        let answer = connection.ask(request, Wanted::by_nobody()).await;
        match answer.map_err(|failure| failed(&server, failure).message)? {
            ServerResult::GetPromptResult(result) => said(result),
            _ => Err(format!("The MCP server `{}` gave no prompt.", server.config.name)),
        }
    }
}

fn said(result: GetPromptResult) -> Result<Said, String> {
    let talk = result.messages.iter().any(|message| !matches!(message.role, Role::User));
    let mut said = Said { text: String::new(), media: Vec::new() };
    for message in result.messages {
        let who = if matches!(message.role, Role::User) { "User" } else { "Assistant" };
        let gathered = Gathered::of(vec![message.content]);
        if !said.text.is_empty() {
            said.text.push_str("\n\n");
        }
        if talk {
            said.text.push_str(&format!("{who}: "));
        }
        said.text.push_str(gathered.text());
        said.media.extend(gathered.into_media());
    }
    if said.text.trim().is_empty() && said.media.is_empty() {
        return Err("The prompt says nothing.".to_owned());
    }
    Ok(said)
}
