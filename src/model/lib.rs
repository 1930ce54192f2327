//! Language models: one trait, four providers behind one request loop, and a model that replays a
//! script.

pub mod answer_schema;
pub mod anthropic;
pub mod authorization;
pub mod bedrock;
pub mod catalog;
pub mod endpoint;
pub mod gemini;
pub mod history;
pub mod lazy;
pub mod listing;
pub mod model_api;
pub mod offer;
pub mod ollama;
pub mod openai;
pub mod options;
pub mod provider;
pub mod providers;
pub mod redact;
pub mod replay;
pub mod retry;
pub mod server_default;
pub mod server_name;
pub mod tokens;
pub mod vertex;

mod answer_size;
mod chat;
mod emit;
mod http;
mod names;
mod price;
mod queries;
mod report;
mod request_loop;
mod room;
mod stream;
mod thinking;
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

use self::offer::{ModelGroup, ServerScope};
pub use self::price::Prices;
pub use self::thinking::ThinkingLevels;

use self::answer_schema::AnswerSchema;
use tandem_content::media::Media;

/// A language model behind some API.
pub trait Model: Send + Sync {
    /// Returns the model's id, as `--model` takes it.
    fn id(&self) -> &str;

    /// Checks, without the network, that the model can be called. The error says what is missing, and how the user
    /// can supply it.
    fn ready(&self) -> Result<(), Error>;

    /// Asks the server which model it has, if the id names only the server. Returns `None` for a model that is named.
    fn server_model(&self) -> BoxFuture<'static, Result<Option<ServerModel>, Error>> {
        std::future::ready(Ok(None)).boxed()
    }

    /// Streams the model's next message. Failed requests are retried inside the stream; dropping the stream drops the
    /// request.
    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>>;

    /// Returns the size of the context window in tokens, if known.
    fn input_limit(&self) -> Option<u64> {
        None
    }

    /// Finds out the size of the context window, if a server tells it before the first request. Takes a short time at
    /// most, and only once: afterwards [`Self::input_limit`] has the size.
    fn learn_window(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }

    /// Returns the levels of thinking that a prompt can ask for.
    fn thinking(&self) -> ThinkingLevels {
        ThinkingLevels::default()
    }

    /// Returns whether the model has been trained to edit files by patches, rather than by replacing texts.
    fn edits_by_patch(&self) -> bool {
        catalog::edits_by_patch(self.id())
    }

    /// Counts the tokens of a prompt. The number is an estimate, unless an estimate is impossible and the API is
    /// asked.
    fn count(&self, prompt: Prompt) -> BoxFuture<'static, u64> {
        std::future::ready(tokens::of_prompt(&prompt)).boxed()
    }
}

/// A model that a server has chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerModel {
    /// Id, as `--model` takes it.
    pub id: String,
    /// Address of the server, without what may be secret in it.
    pub address: String,
    /// `true` if the model was chosen because it is the first in the server's list.
    pub is_first: bool,
}

/// The models to choose from.
pub trait Models: Send + Sync {
    /// Lists the ids of the models that the catalog names. May read files.
    fn known(&self) -> Result<Vec<String>, String>;

    /// Lists the models that the catalog names, of the providers that are set up. May read files.
    fn set_up(&self) -> Result<Vec<ModelGroup>, String> {
        Ok(Vec::new())
    }

    /// Fetches the models of servers that people run themselves or have chosen, such as a gateway: no catalog can list
    /// these models. `current` is the id of the model in use. A server that does not answer soon is left out. May read
    /// files before the future is returned.
    fn served(&self, _current: &str, _scope: ServerScope) -> BoxFuture<'static, Vec<ModelGroup>> {
        std::future::ready(Vec::new()).boxed()
    }

    /// Returns `false` if the model with this id is one of a program on this machine which nobody has set up or made the
    /// default. May read files.
    fn is_set_up(&self, _id: &str) -> bool {
        true
    }

    /// Returns the prices of the model with this id, as far as they are known. May read files.
    fn prices(&self, _id: &str) -> Prices {
        Prices::default()
    }

    /// Returns the full id for an alias, or for an id without its provider; returns any other id unchanged. May read
    /// files.
    fn resolve(&self, id: &str) -> String {
        id.to_owned()
    }

    /// Opens the model with this id. May read files. The error is a text for people.
    fn open(&self, id: &str) -> Result<Arc<dyn Model>, String>;
}

/// Input of one request to a model.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    /// System text: the model's role and how to work.
    pub system: Arc<str>,
    /// The conversation so far, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// Tools that the model may call. Their order must stay the same, because a provider's prompt cache depends on
    /// it.
    pub tools: Arc<[ToolDeclaration]>,
    /// Level of thinking, which the model must offer; `None` for the model's default.
    pub thinking: Option<String>,
    /// Schema that the last message of the turn fits. It is sent where the API enforces a schema without keeping the
    /// model from calling tools. The messages must ask for the schema as well, and the message must be checked.
    pub answer_schema: Option<Arc<AnswerSchema>>,
}

/// Declaration of a tool for a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDeclaration {
    /// Name, unique among the tools.
    pub name: String,
    /// Description for the model: when to call the tool, and what it returns.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
    /// Form of the tool for APIs in which a model can write a text in place of JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_form: Option<TextForm>,
}

impl ToolDeclaration {
    /// Declares a function, whose arguments are JSON.
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        let (name, description) = (name.into(), description.into());
        Self { name, description, parameters, text_form: None }
    }
}

/// Form of a tool whose only argument is a text that follows a grammar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextForm {
    /// Name of the argument.
    pub argument: String,
    /// Grammar of the text, in Lark's syntax.
    pub grammar: String,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// A message of the user.
    User(Vec<Part>),
    /// A message of the model.
    Assistant(Assistant),
    /// Results of the calls in the preceding message of the model, in their order.
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

/// A message of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Assistant {
    /// Markdown; may be empty.
    pub text: String,
    /// Calls, in the order in which the model made them.
    pub calls: Vec<Call>,
    /// The message as the provider sent it, if it has more than text and calls.
    pub native: Option<Native>,
}

/// A model's answer as its provider sent it: parts that must be sent back unchanged (signatures, ids), and parts that
/// this program does not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Native {
    /// Name of the backend that understands the parts.
    pub backend: String,
    /// Id of the model that gave the answer.
    pub model: String,
    /// The provider's own parts.
    pub parts: Vec<Value>,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Id of the call, unique in the session.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments, which have not been checked against the tool's schema.
    pub args: Value,
}

/// Result of one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Id of the call: [`Call::id`].
    pub call: String,
    /// Name of the tool: [`Call::name`].
    pub name: String,
    /// Text for the model.
    pub text: String,
    /// `true` if the call failed; `text` says why.
    pub failed: bool,
    /// Images and documents for the model.
    pub media: Vec<Media>,
}

/// A piece of the model's answer, as it arrives.
#[derive(Debug, Clone, PartialEq)]
pub enum Chunk {
    /// A piece of the message.
    Text(String),
    /// More of the reasoning; usually begins with `**Subject**`.
    Thought(String),
    /// One complete call.
    Call(Call),
    /// The request failed and is retried.
    Retry(Retry),
    /// The last chunk of a complete answer.
    Finish(Finish),
}

/// Announcement of a retry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// Reason in a few words, and the beginning of the server's message: `rate limited: slow down`.
    pub reason: String,
    /// Wait before the next attempt.
    pub delay: Duration,
    /// Number of the next attempt, from 2.
    pub attempt: u32,
    /// Maximum number of attempts.
    pub of: u32,
    /// `true` if everything streamed of this answer so far is void.
    pub discard: bool,
}

impl Retry {
    /// Returns a line of Markdown that separates a void beginning of an answer from its new beginning, for front ends
    /// that cannot take back what they have shown.
    pub fn interruption(&self) -> String {
        // The server's message, behind the colon, is left out: as Markdown it would become part of the answer.
        let cause = self.reason.split(": ").next().unwrap_or_default();
        format!("*The answer was interrupted ({cause}) and starts again from here.*")
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded up: "in 0 s" would mean no wait.
        let seconds = self.delay.as_millis().div_ceil(1000);
        let Self { reason, attempt, of, .. } = self;
        write!(f, "Retrying in {seconds} s ({attempt} of {of}): {reason}")
    }
}

/// End of an answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finish {
    /// Reason for the end.
    pub reason: FinishReason,
    /// Tokens used.
    pub usage: Usage,
    /// The answer as the provider sent it, if it has more than text and calls.
    pub native: Option<Native>,
}

/// Reason for the end of an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model ended the answer, calls included.
    #[default]
    Stop,
    /// The answer was cut at the output limit.
    MaxTokens,
    /// The provider refused to give the answer; a sentence says why.
    Refused(String),
}

/// Tokens of one request, as the provider counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt, including cached tokens.
    pub input: u64,
    /// Cached tokens of the prompt.
    pub cached: u64,
    /// Tokens of the prompt that were written into the cache, for a price of their own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub written: u64,
    /// Tokens of the answer, without reasoning.
    pub output: u64,
    /// Tokens of reasoning.
    pub thoughts: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Reason why an answer failed or broke off. No retry follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Error {
    /// There is no key, or the server refuses it; the text says what to do.
    NotAuthenticated(String),
    /// Too many requests, or the quota is used up.
    RateLimited(String),
    /// The provider refuses to answer this prompt.
    Refused(String),
    /// The conversation is longer than the model can take.
    ContextTooLong(String),
    /// The server does not accept the request.
    Rejected(String),
    /// The provider could not be reached, or had a fault of its own.
    Unavailable(String),
    /// The response is not a usable answer.
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
    /// Returns the message for changes.
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

/// A key that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key, without the white space that copying may add.
    pub fn new(key: &str) -> Self {
        Self(key.trim().to_owned())
    }

    /// Returns the key itself, which must only be sent, and never shown.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
