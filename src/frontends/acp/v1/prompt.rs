//! Translation of an editor's prompts into the parts that a session takes.

use tandem_agent::session::PromptPart;
use tandem_content::fence::fence;
use tandem_content::media::Media;
use tandem_wire::acp::v1::{ContentBlock, EmbeddedResource, MediaContent};
use tandem_wire::jsonrpc::Error;

/// Returns the parts of a prompt. The error names the first block that cannot be taken.
pub(super) fn parts(blocks: Vec<ContentBlock>) -> Result<Vec<PromptPart>, Error> {
    if blocks.is_empty() {
        return Err(Error::invalid_params("`prompt`: it is empty"));
    }
    let part = |(n, block)| {
        part(block).map_err(|why| Error::invalid_params(format_args!("`prompt[{n}]`: {why}")))
    };
    blocks.into_iter().enumerate().map(part).collect()
}

fn part(block: ContentBlock) -> Result<PromptPart, String> {
    match block {
        ContentBlock::Text { text } => Ok(PromptPart::Text(text)),
        ContentBlock::ResourceLink { uri } if is_file(&uri) => Ok(PromptPart::Path(uri)),
        ContentBlock::ResourceLink { uri } => Ok(PromptPart::Input(format!(" {uri} "))),
        ContentBlock::Resource { resource } => embedded(resource),
        ContentBlock::Image(MediaContent { data, mime_type })
        | ContentBlock::Audio(MediaContent { data, mime_type }) => media(&mime_type, &data),
    }
}

fn embedded(resource: EmbeddedResource) -> Result<PromptPart, String> {
    let EmbeddedResource { uri, text, blob, mime_type } = resource;
    match (text, blob) {
        (Some(text), _) => {
            Ok(PromptPart::Input(format!("\nContent of {uri}:\n{}\n", fence(&text, ""))))
        }
        (None, Some(blob)) => media(&mime_type.unwrap_or_default(), &blob),
        (None, None) => Err("it has neither `text` nor `blob`".to_owned()),
    }
}

fn media(mime_type: &str, data: &str) -> Result<PromptPart, String> {
    Media::checked(mime_type, data).map(PromptPart::Media).ok_or_else(|| {
        format!(
            "it is not {mime_type}, or not of a kind that models take: images, PDF, audio, video"
        )
    })
}

fn is_file(uri: &str) -> bool {
    uri.starts_with("file:") || uri.starts_with('/')
}
