//! What a session needs of a language model: it is told a conversation and streams an answer.

pub mod anthropic;
pub mod catalog;
pub mod endpoint;
pub mod gemini;
pub mod history;
pub mod lazy;
pub mod ollama;
pub mod openai;
pub mod options;
pub mod provider;
pub mod redact;
pub mod replay;
pub mod retry;
pub mod sse;
pub mod tokens;

mod chat;
mod emit;
mod http;
mod lenient;
mod names;
mod report;
mod request_loop;
mod stream;
mod unusable;
mod words;

#[cfg(test)]
mod arbitrary;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::media::Media;

/// A language model behind some API.
pub trait Model: Send + Sync {
    /// The model's id, as `--model` takes it.
    fn id(&self) -> &str;

    /// Whether it can be called, as far as is known without the network. The error says what is
    /// missing and what to do.
    fn ready(&self) -> Result<(), Error>;

    /// Asks for the next message. Retries by itself; dropping the stream drops the request.
    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>>;

    /// How many tokens it can be told, if that is known.
    fn input_limit(&self) -> Option<u64> {
        None
    }

    /// How many tokens a prompt has: an estimate, unless the API must be asked.
    fn count(&self, prompt: Prompt) -> BoxFuture<'static, u64> {
        std::future::ready(tokens::of_prompt(&prompt)).boxed()
    }
}

/// The models that there are to choose from.
pub trait Models: Send + Sync {
    /// The ids of those that are known by name. May read files.
    fn known(&self) -> Result<Vec<String>, String>;

    /// The model with this id. May read files; the error is for people.
    fn open(&self, id: &str) -> Result<Arc<dyn Model>, String>;
}

/// All a model is told.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    /// Who it is and how to work.
    pub system: Arc<str>,
    /// The conversation so far, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// The tools it may call, always in the same order.
    pub tools: Arc<[ToolDeclaration]>,
}

/// A tool as a model is told of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDeclaration {
    /// Unique.
    pub name: String,
    /// When to call it, and what comes of it.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// What the user said.
    User(Vec<Part>),
    /// What the model said.
    Assistant(Assistant),
    /// What came of the calls in the assistant's message before, in their order.
    Results(Vec<ToolResult>),
}

/// A part of a user's message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Part {
    /// Markdown.
    Text(String),
    /// An image or the like.
    Media(Media),
}

/// What the model said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Assistant {
    /// Markdown; may be empty.
    pub text: String,
    /// In the order asked for.
    pub calls: Vec<Call>,
    /// The same as the provider sent it, if there is more in it than text and calls.
    pub native: Option<Native>,
}

/// A model's answer as its provider sent it: what must be echoed exactly (signatures, ids), and
/// what this program does not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Native {
    /// Which backend understands it.
    pub backend: String,
    /// Which model said it.
    pub model: String,
    /// The provider's own parts.
    pub parts: Vec<Value>,
}

/// The model asks for a tool to be run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Unique in the session.
    pub id: String,
    /// Of the tool.
    pub name: String,
    /// As the tool's schema has it, if the model is right.
    pub args: Value,
}

/// What came of one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// [`Call::id`].
    pub call: String,
    /// [`Call::name`].
    pub name: String,
    /// For the model to read.
    pub text: String,
    /// Whether `text` says why it failed.
    pub failed: bool,
    /// For the model to look at.
    pub media: Vec<Media>,
}

/// A piece of the model's answer, as it arrives.
#[derive(Debug, Clone, PartialEq)]
pub enum Chunk {
    /// More of the message.
    Text(String),
    /// More of the reasoning; usually begins with `**Subject**`.
    Thought(String),
    /// One whole call.
    Call(Call),
    /// The request failed and is tried again.
    Retry(Retry),
    /// The last chunk of a whole answer.
    Finish(Finish),
}

/// A request that is tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// In few words: `rate limited`.
    pub reason: String,
    /// How long it waits first.
    pub delay: Duration,
    /// Which attempt follows, from 2.
    pub attempt: u32,
    /// How many there are at most.
    pub of: u32,
    /// Whether what has been streamed of this answer is void.
    pub discard: bool,
}

impl Retry {
    /// Returns the line between what has been shown of an answer and its new beginning, for front
    /// ends that cannot take back what they have shown; Markdown.
    pub fn interruption(&self) -> String {
        format!("*The answer was interrupted ({}) and starts again from here.*", self.reason)
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded up: "in 0 s" would say that it does not wait.
        let seconds = self.delay.as_millis().div_ceil(1000);
        write!(f, "{}, retrying in {seconds} s, {}/{}", self.reason, self.attempt, self.of)
    }
}

/// How an answer ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finish {
    /// Why.
    pub reason: FinishReason,
    /// What it cost.
    pub usage: Usage,
    /// The answer as the provider sent it.
    pub native: Option<Native>,
}

/// Why an answer ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model had said what it wanted, calls included.
    #[default]
    Stop,
    /// It was cut at the output limit.
    MaxTokens,
    /// The provider would not have it said; why.
    Refused(String),
}

/// Tokens of one request, as the provider counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// What the model was told, the cached part included.
    pub input: u64,
    /// The part of the input that was cached.
    pub cached: u64,
    /// What it said, without its reasoning.
    pub output: u64,
    /// Its reasoning.
    pub thoughts: u64,
}

/// Why no answer, or no whole one, came. Retries are over when this is seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Error {
    /// There is nothing to authenticate with; what to do.
    NotAuthenticated(String),
    /// Too many requests, or the quota is used up.
    RateLimited(String),
    /// The provider would not answer this prompt.
    Refused(String),
    /// The conversation is longer than the model can take.
    ContextTooLong(String),
    /// The request was not acceptable.
    Rejected(String),
    /// The provider could not be reached, or had a fault of its own.
    Unavailable(String),
    /// What came was no answer.
    BadAnswer(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAuthenticated(why)
            | Self::RateLimited(why)
            | Self::Refused(why)
            | Self::ContextTooLong(why)
            | Self::Rejected(why)
            | Self::Unavailable(why)
            | Self::BadAnswer(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// What it says, to be changed.
    fn text_mut(&mut self) -> &mut String {
        match self {
            Self::NotAuthenticated(why)
            | Self::RateLimited(why)
            | Self::Refused(why)
            | Self::ContextTooLong(why)
            | Self::Rejected(why)
            | Self::Unavailable(why)
            | Self::BadAnswer(why) => why,
        }
    }
}

/// A key that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Without the white space that comes with copying.
    pub fn new(key: &str) -> Self {
        Self(key.trim().to_owned())
    }

    /// The key itself, to be sent and nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
