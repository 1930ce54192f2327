//! The short set of tools, for models with a small window.

use std::sync::{Arc, Mutex};

use futures::stream::{self, BoxStream, StreamExt as _};
use tandem_agent::session::{Origin, Parts, Session};
use tandem_model::{Chunk, Error, Finish, Model, Prompt, ToolDeclaration, tokens};
use tandem_tools as tools;

use test_fakes::{is_end, parts, text, until};

/// A model that learns its window when it is told to, and records the tools of its last request.
struct Windowed {
    window: u64,
    known: Mutex<Option<u64>>,
    told: Mutex<Vec<ToolDeclaration>>,
}

impl Model for Windowed {
    fn id(&self) -> &'static str {
        "ollama:qwen3:4b"
    }

    fn ready(&self) -> Result<(), Error> {
        Ok(())
    }

    fn input_limit(&self) -> Option<u64> {
        *self.known.lock().unwrap()
    }

    fn learn_window(&self) -> futures::future::BoxFuture<'static, ()> {
        *self.known.lock().unwrap() = Some(self.window);
        Box::pin(std::future::ready(()))
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        *self.told.lock().unwrap() = prompt.tools.to_vec();
        stream::iter([Ok(Chunk::Finish(Finish::default()))]).boxed()
    }
}

/// Returns the tools that a model with this window is told of in its first request. `short` is the setting.
async fn declarations(window: u64, short: Option<bool>) -> Vec<ToolDeclaration> {
    let (known, told) = (Mutex::default(), Mutex::default());
    let model = Arc::new(Windowed { window, known, told });
    let parts = parts(Arc::clone(&model) as _);
    let tools = tools::all_with_sandbox();
    let session = Session::new(Parts { tools, short_tools: short, ..parts });
    let mut log = session.events(0);
    session.prompt(text("Hello."), Origin::Editor);
    until(&mut log, is_end).await;
    model.told.lock().unwrap().clone()
}

/// Returns the names of the tools that a model with this window is told of, and their estimated tokens.
async fn tools_of(window: u64, short: Option<bool>) -> (Vec<String>, u64) {
    let told = declarations(window, short).await;
    (told.iter().map(|tool| tool.name.clone()).collect(), told.iter().map(tokens::of_tool).sum())
}

#[tokio::test]
async fn a_model_with_a_small_window_is_told_of_few_tools_in_few_words() {
    let short = ["read_file", "glob", "grep_search", "write_file", "replace", "run_shell_command"];
    let (names, size) = tools_of(8192, None).await;
    assert_eq!(names, short);
    assert!(size <= 1700, "{size} tokens");
    let (all, _) = tools_of(8193, None).await;
    assert!(all.iter().any(|name| name == "write_todos"), "{all:?}");
    assert!(short.iter().all(|name| all.iter().any(|it| it == name)), "{all:?}");
}

#[tokio::test]
async fn the_short_set_speaks_of_no_commands_in_the_background() {
    for (window, speaks) in [(8192, false), (8193, true)] {
        let told = declarations(window, None).await;
        let run = told.iter().find(|tool| tool.name == "run_shell_command").unwrap();
        let text = format!("{} {}", run.description, run.parameters);
        assert_eq!(text.contains("background"), speaks, "{text}");
    }
}

#[tokio::test]
async fn a_setting_counts_more_than_the_window() {
    let (short, all) = (tools_of(8192, None).await, tools_of(8193, None).await);
    assert_eq!(tools_of(200_000, Some(true)).await, short);
    assert_eq!(tools_of(4096, Some(false)).await, all);
}
