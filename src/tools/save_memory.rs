//! `save_memory`: writes a fact that the user wants known in every session into the user's own file.

use std::path::PathBuf;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::blocking::blocking;
use tandem_content::shorten::one_line;
use tandem_host::memory_file::{add, one_fact, proposed};
use tandem_host::off_thread::off_thread;
use tandem_host::{
    Access, FileDiff, Invocation, Summary, Tool, ToolContext, ToolError, ToolKind, ToolOutput,
    ToolSpec, parse,
};

/// The tool `save_memory`.
pub(super) struct SaveMemory {
    /// Path of the user's own file.
    pub(super) file: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaveMemoryArgs {
    fact: String,
}

#[async_trait]
impl Tool for SaveMemory {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "save_memory".to_owned(),
            aliases: &[],
            description: "Writes down a fact to be known in every later session, in any project. \
                Only when the user asks you to remember something, or states a lasting preference \
                or fact about themselves. Never what belongs to this conversation or this project \
                (the project's own instruction file is for that), and no secrets."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "fact": {
                        "type": "string",
                        "description": "One sentence that says it all by itself.",
                    },
                },
                "required": ["fact"],
            }),
            kind: ToolKind::Think,
        }
    }

    async fn prepare(&self, args: Value, cx: &ToolContext) -> Result<Invocation, ToolError> {
        let SaveMemoryArgs { fact } = parse(args)?;
        let fact = one_fact(&fact)?;
        let file = self.file.clone();
        let summary = Summary::new(format!("Remember: {}", one_line(&fact, 200)));
        let (path, added) = (file.clone(), fact.clone());
        let (old, new) = blocking(cx, move |_| proposed(&path, &added)).await?;
        let shown = file.display().to_string();
        let access = Access::Other {
            description: format!("Writes into {shown}, for every session: {fact}"),
        };
        let diff = FileDiff::new(shown, old.map(Into::into), new);
        let summary = Summary { diff: Some(diff), ..summary };
        Ok(Invocation::new(summary, access, move |_| async move {
            off_thread(move || add(&file, &fact)).await?;
            Ok(ToolOutput { text: "It is written down.".to_owned(), ..ToolOutput::default() })
        }))
    }
}
