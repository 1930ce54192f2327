//! Prompts as a session takes them.

use crate::content::fence;
use tandem_agent::session::PromptPart;
use tandem_wire::acp::v1::{ContentBlock, EmbeddedResource};
use tandem_wire::jsonrpc::Error;

/// Returns the parts of a prompt.
pub(super) fn parts(blocks: Vec<ContentBlock>) -> Result<Vec<PromptPart>, Error> {
    if blocks.is_empty() {
        return Err(Error::invalid_params("`prompt`: it is empty"));
    }
    let part = |(n, block)| match block {
        ContentBlock::Text { text } => Ok(PromptPart::Text(text)),
        ContentBlock::ResourceLink { uri } => Ok(link(uri)),
        ContentBlock::Resource { resource: EmbeddedResource { uri, text: Some(text) } } => {
            Ok(PromptPart::Input(format!("\nContent of {uri}:\n{}\n", fence(&text, ""))))
        }
        // The file itself may be something that the model can look at.
        ContentBlock::Resource { resource: EmbeddedResource { uri, text: None } }
            if is_file(&uri) =>
        {
            Ok(PromptPart::Path(uri))
        }
        ContentBlock::Resource { .. } => Err(Error::invalid_params(format_args!(
            "`prompt[{n}].resource`: only text is taken; save the content in a file, and link to it"
        ))),
    };
    blocks.into_iter().enumerate().map(part).collect()
}

fn link(uri: String) -> PromptPart {
    if is_file(&uri) { PromptPart::Path(uri) } else { PromptPart::Input(format!(" {uri} ")) }
}

fn is_file(uri: &str) -> bool {
    uri.starts_with("file:") || uri.starts_with('/')
}
