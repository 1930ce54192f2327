//! `google_web_search`: an answer from Google, worded by a model that has read what Google found.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::web_fetch::marked;
use tandem_content::plain::plain;
use tandem_content::shorten::one_line;
use tandem_host::{
    Access, Invocation, ResultContent, Summary, Tool, ToolContext, ToolError, ToolKind, ToolOutput,
    ToolSpec, WebSource, parse,
};

/// Maximum length of a query, of a title and of an address, in characters.
const MAX_QUERY_CHARS: usize = 2000;
const MAX_TITLE_CHARS: usize = 200;
const MAX_ADDRESS_CHARS: usize = 4096;

/// A search engine.
#[async_trait]
pub trait WebSearch: Send + Sync {
    /// Returns whether searches can be made, as far as that is known without a request to the network.
    fn is_ready(&self) -> bool;

    /// Searches the web. The error says why the search failed, for the model and for people.
    async fn search(&self, query: &str) -> Result<SearchAnswer, String>;
}

/// Answer of a search engine.
#[derive(Debug, Clone)]
pub struct SearchAnswer {
    /// Text of the answer, with `[1]` behind each statement of the first source, and so on.
    pub text: String,
    /// Sources, in the order of their numbers.
    pub sources: Vec<WebSource>,
}

/// The tool `google_web_search`.
pub(super) struct GoogleWebSearch {
    pub(super) search: Arc<dyn WebSearch>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebSearchArgs {
    query: String,
}

#[async_trait]
impl Tool for GoogleWebSearch {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "google_web_search".to_owned(),
            aliases: &[],
            description: "Searches the web with Google and gives you an answer with its sources, \
                numbered. For what you cannot know: what is new, documentation, error messages. \
                web_fetch reads a source in full."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "query": {
                        "type": "string",
                        "description": "What to search for, in words or as a question.",
                    },
                },
                "required": ["query"],
            }),
            kind: ToolKind::Fetch,
        }
    }

    fn is_offered(&self) -> bool {
        self.search.is_ready()
    }

    async fn prepare(&self, args: Value, _: &ToolContext) -> Result<Invocation, ToolError> {
        let WebSearchArgs { query } = parse(args)?;
        let summary =
            Summary::new(format!("Search the web: {}", one_line(&query, MAX_TITLE_CHARS)));
        if query.trim().is_empty() || query.chars().count() > MAX_QUERY_CHARS {
            let message = format!("`query`: must have 1 to {MAX_QUERY_CHARS} characters");
            return Ok(Invocation::failing(summary, ToolError::invalid_args(message)));
        }
        let search = Arc::clone(&self.search);
        Ok(Invocation::new(summary, Access::Read, move |cx| async move {
            run(&*search, &query, &cx).await
        }))
    }
}

async fn run(
    search: &dyn WebSearch,
    query: &str,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let found = cx.cancel.run_until_cancelled(search.search(query)).await;
    let Some(found) = found else { return Err(ToolError::cancelled()) };
    let SearchAnswer { text, sources } =
        found.map_err(|why| ToolError::new("web_search_failed", why))?;
    let sources: Vec<_> = sources.into_iter().map(clean).collect();
    let mut told = plain(text.trim().as_bytes());
    if !sources.is_empty() {
        told.push_str("\n\nSources:\n");
    }
    for (number, WebSource { title, url }) in (1..).zip(&sources) {
        told.push_str(&format!("[{number}] {title} ({url})\n"));
    }
    let text = marked("Found on the web", &told);
    Ok(ToolOutput { text, media: Vec::new(), shown: Some(ResultContent::Sources(sources)) })
}

fn clean(WebSource { title, url }: WebSource) -> WebSource {
    WebSource { title: one_line(&title, MAX_TITLE_CHARS), url: one_line(&url, MAX_ADDRESS_CHARS) }
}
