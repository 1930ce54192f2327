//! Prompts of servers.

use rmcp::model::{GetPromptResult, Role};

use super::offer::ServerPrompt;
use super::result::CollectedContent;
use tandem_content::media::Media;

/// Prompt with the name of its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPrompt {
    /// The server's name.
    pub server: String,
    /// Prompt of the server.
    pub prompt: ServerPrompt,
}

/// Text and media of a server's prompt with its arguments filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptText {
    /// Markdown.
    pub text: String,
    /// Media.
    pub media: Vec<Media>,
}

pub(super) fn text(result: GetPromptResult) -> Result<PromptText, String> {
    let talk = result.messages.iter().any(|message| !matches!(message.role, Role::User));
    let mut said = PromptText { text: String::new(), media: Vec::new() };
    for message in result.messages {
        let who = if matches!(message.role, Role::User) { "User" } else { "Assistant" };
        let gathered = CollectedContent::from_blocks(vec![message.content]);
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
        return Err("The prompt is empty.".to_owned());
    }
    Ok(said)
}
