//! A model that replays a script: for tests, demonstrations, and a first look.
//!
//! A script is JSON Lines; docs/scripts.md describes it for its users.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use serde::Deserialize;
use serde_json::Value;

use super::{
    Call, Chunk, Error, Finish, FinishReason, Message, Model, Part, Prompt, Retry, Usage, tokens,
};
use parking_lot::Mutex;

/// The demonstration, played without a script: it lists the directory, proposes an edit, and
/// runs a command.
const DEMO_SCRIPT: &str = include_str!("replay/demo.jsonl");

/// A model that replays a script.
pub struct Replay {
    lines: Vec<PromptAnswers>,
    /// Size of the context window in tokens. With this limit, the tokens of prompts are counted.
    input_limit: Option<u64>,
    /// Answers that were given so far.
    progress: Mutex<ReplayProgress>,
}

/// A line of a script.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptLine {
    when: Option<String>,
    answers: Option<Vec<Arc<[AnswerStep]>>>,
    /// Size of the context window in tokens, for the whole script. It stands on a line of its own.
    input_limit: Option<u64>,
}

/// Answers to one prompt.
#[derive(Debug)]
struct PromptAnswers {
    /// Text that a prompt must contain to be answered by this line, any number of times. A line without such a text
    /// answers one prompt: the next that no other line answers.
    when: Option<String>,
    /// Answers. The first answers the prompt; each further one answers the results of the calls in the answer before.
    answers: Vec<Arc<[AnswerStep]>>,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AnswerStep {
    Text(String),
    Thought(String),
    Call {
        #[serde(default)]
        id: String,
        name: String,
        #[serde(default)]
        args: Value,
    },
    /// The same text repeated, with `{n}` replaced by 0, 1, 2...
    Repeat {
        text: String,
        times: usize,
    },
    /// Milliseconds of silence.
    Delay(u64),
    /// Silence for ever.
    Hang,
    /// Announcement that the request has failed and is retried.
    Retry {
        reason: String,
        delay: u64,
        attempt: u32,
        of: u32,
        #[serde(default)]
        discard: bool,
    },
    /// The answer fails.
    Error(Error),
    /// Reason for the end of the answer, if it is not [`FinishReason::Stop`].
    Finish(FinishReason),
}

/// The answers that a replay has given so far.
#[derive(Default)]
struct ReplayProgress {
    /// State of each prompt, by its hash: the line that answers the prompt, and the number of answers given.
    given: HashMap<u64, (Option<usize>, usize)>,
    /// Index of the first line without `when` that may be unused.
    next: usize,
}

impl Replay {
    /// Reads a script from a file.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let script = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the replay script {}", path.display()))?;
        Self::from_script(&script)
            .with_context(|| format!("the replay script {} is wrong", path.display()))
    }

    /// Returns the embedded demonstration.
    pub fn demo() -> Self {
        // A test parses the script, so this cannot fail; if it did, the model would give no answers.
        Self::from_script(DEMO_SCRIPT).unwrap_or_else(|_| Self {
            lines: Vec::new(),
            input_limit: None,
            progress: Mutex::default(),
        })
    }

    /// Parses a script.
    pub fn from_script(script: &str) -> anyhow::Result<Self> {
        let lines = script.lines().enumerate().filter(|(_, line)| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with('#')
        });
        let mut replay = Self { lines: Vec::new(), input_limit: None, progress: Mutex::default() };
        for (n, line) in lines {
            let line = serde_json::from_str(line).with_context(|| format!("line {}", n + 1))?;
            match line {
                ScriptLine { input_limit: Some(limit), .. } => replay.input_limit = Some(limit),
                ScriptLine { when, answers: Some(answers), .. } => {
                    replay.lines.push(PromptAnswers { when, answers });
                }
                ScriptLine { .. } => anyhow::bail!("line {}: missing field `answers`", n + 1),
            }
        }
        Ok(replay)
    }

    /// Counts the tokens of a prompt, if they are limited.
    fn counted(&self, prompt: &Prompt) -> Result<u64, Error> {
        let Some(limit) = self.input_limit else { return Ok(0) };
        match tokens::of_prompt(prompt) {
            tokens if tokens > limit => Err(Error::ContextTooLong(format!(
                "the conversation has {tokens} tokens, and the model takes {limit}"
            ))),
            tokens => Ok(tokens),
        }
    }

    /// Returns the next answer.
    fn answer(&self, prompt: &Prompt) -> Result<Arc<[AnswerStep]>, Error> {
        let said = |message: &Arc<Message>| match &**message {
            Message::User(parts) => Some(text(parts)),
            _ => None,
        };
        let asked =
            prompt.messages.iter().rposition(|message| matches!(**message, Message::User(_)));
        let (before, since) = prompt.messages.split_at(asked.map_or(0, |asked| asked + 1));
        let prompt = before.last().and_then(said).unwrap_or_default();
        let mut progress = self.progress.lock();
        let key = {
            let mut hasher = DefaultHasher::new();
            prompt.hash(&mut hasher);
            hasher.finish()
        };
        // The number of answers in the prompt does not tell the next one, because earlier answers may have been
        // compressed.
        let answers = |message: &&Arc<Message>| matches!(***message, Message::Assistant(_));
        let answered = since.iter().filter(answers).count();
        let (line, given) = match progress.given.get(&key) {
            Some((line, given)) if answered > 0 => (*line, given + 1),
            // If another process has given the earlier answers, only the count of answers in the prompt tells which
            // answer of the script comes next.
            _ => (self.line_for(&prompt, &mut progress.next), answered),
        };
        progress.given.insert(key, (line, given));
        let Some(line) = line.and_then(|line| self.lines.get(line)) else {
            return Err(Error::BadAnswer(
                "the replay script has no line for this prompt".to_owned(),
            ));
        };
        Ok(line.answers.get(given).cloned().unwrap_or_default())
    }

    fn line_for(&self, prompt: &str, next: &mut usize) -> Option<usize> {
        let named =
            |line: &PromptAnswers| line.when.as_ref().is_some_and(|when| prompt.contains(when));
        if let Some(found) = self.lines.iter().position(named) {
            return Some(found);
        }
        let found = (*next..self.lines.len()).find(|n| self.lines[*n].when.is_none())?;
        *next = found + 1;
        Some(found)
    }
}

impl Model for Replay {
    fn id(&self) -> &'static str {
        "replay"
    }

    fn ready(&self) -> Result<(), Error> {
        Ok(())
    }

    fn input_limit(&self) -> Option<u64> {
        self.input_limit
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        let (steps, input) =
            match self.counted(&prompt).and_then(|input| Ok((self.answer(&prompt)?, input))) {
                Ok(answer) => answer,
                Err(error) => return stream::once(async { Err(error) }).boxed(),
            };
        let finish = steps.iter().find_map(|step| match step {
            AnswerStep::Finish(reason) => Some(reason.clone()),
            _ => None,
        });
        let usage = Usage { input, ..Usage::default() };
        let finish = Finish { reason: finish.unwrap_or_default(), usage, native: None };
        let count = steps.len();
        let chunks = stream::iter(0..count).then(move |n| play(steps[n].clone())).try_flatten();
        let chunks = chunks.chain(stream::once(async { Ok(Chunk::Finish(finish)) }));
        // Like a network, the stream lets other tasks run between two chunks.
        chunks
            .then(|chunk| async {
                tokio::task::yield_now().await;
                chunk
            })
            .boxed()
    }
}

/// Plays one step.
async fn play(step: AnswerStep) -> Result<BoxStream<'static, Result<Chunk, Error>>, Error> {
    let one = |chunk| stream::once(async { Ok(chunk) }).boxed();
    Ok(match step {
        AnswerStep::Text(text) => one(Chunk::Text(text)),
        AnswerStep::Thought(text) => one(Chunk::Thought(text)),
        AnswerStep::Call { id, name, args } => one(Chunk::Call(Call { id, name, args })),
        AnswerStep::Repeat { text, times } => stream::iter(0..times)
            .map(move |n| Ok(Chunk::Text(text.replace("{n}", &n.to_string()))))
            .boxed(),
        AnswerStep::Delay(millis) => {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            stream::empty().boxed()
        }
        AnswerStep::Hang => std::future::pending().await,
        AnswerStep::Retry { reason, delay, attempt, of, discard } => {
            let delay = Duration::from_millis(delay);
            let wait = stream::once(tokio::time::sleep(delay)).filter_map(|()| async { None });
            one(Chunk::Retry(Retry { reason, delay, attempt, of, discard })).chain(wait).boxed()
        }
        AnswerStep::Error(error) => return Err(error),
        AnswerStep::Finish(_) => stream::empty().boxed(),
    })
}

fn text(parts: &[Part]) -> String {
    let texts = parts.iter().map(|part| match part {
        Part::Text(text) => text.as_str(),
        Part::Media(_) => "",
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays the answers to these prompts in turn.
    #[track_caller]
    fn check(script: &str, prompts: &[&str], expected: &[&str]) {
        let replay = Replay::from_script(script).unwrap();
        let mut said = Vec::new();
        for prompt in prompts {
            let user = Message::User(vec![Part::Text((*prompt).to_owned())]);
            let prompt = Prompt { messages: vec![Arc::new(user)], ..Prompt::default() };
            said.push(match replay.answer(&prompt) {
                Ok(steps) => format!("{steps:?}"),
                Err(error) => error.to_string(),
            });
        }
        assert_eq!(said, expected);
    }

    const SCRIPT: &str = r#"
        # a comment
        {"answers":[[{"text":"first"}]]}
        {"when":"cats","answers":[[{"text":"meow"}]]}
        {"answers":[[{"text":"second"}]]}
    "#;

    #[test]
    fn lines_are_chosen_by_the_prompt_or_in_order() {
        check(
            SCRIPT,
            &["hi", "about cats", "hi", "cats again", "hi"],
            &[
                r#"[Text("first")]"#,
                r#"[Text("meow")]"#,
                r#"[Text("second")]"#,
                r#"[Text("meow")]"#,
                "the replay script has no line for this prompt",
            ],
        );
    }

    #[test]
    fn a_wrong_line_is_named() {
        let error = Replay::from_script("# x\n{\"answers\":[[{\"txt\":1}]]}").err().unwrap();
        assert!(format!("{error:#}").starts_with("line 2: unknown variant `txt`"), "{error:#}");
    }

    #[test]
    fn the_demonstration_can_be_read() {
        assert!(!Replay::from_script(DEMO_SCRIPT).unwrap().lines.is_empty());
    }
}
