//! ACP 1, as today's editors speak it, with the real program. Every line of the agent is checked with the types of
//! the protocol's authors.

mod closed;
mod complaints;
mod cost;
mod edges;
mod files;
mod first;
mod login;
mod login_shell;
mod notices;
mod options;
mod permissions;
mod pipelined;
mod published;
mod schema;
mod sessions;
mod settings;
mod terminals;
mod turns;
mod user_input;

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::agent::{Agent, Setup};

/// An editor, and the agent that it has started.
struct Editor {
    agent: Agent,
    /// Methods of the requests that are not answered yet, by their ids.
    asked: HashMap<u64, String>,
    /// Result of `initialize`.
    initialized: Value,
}

impl Editor {
    /// Starts the agent, and initializes it without capabilities.
    async fn start(setup: &Setup) -> Self {
        Self::with(setup, json!({ "protocolVersion": 1, "clientCapabilities": {} })).await
    }

    async fn with(setup: &Setup, initialize: Value) -> Self {
        let mut editor = Self::silent(setup);
        editor.initialized = editor.call("initialize", initialize).await["result"].clone();
        editor
    }

    /// Starts the agent, and says nothing.
    fn silent(setup: &Setup) -> Self {
        let agent = setup.clone().arg("--acp").start();
        Self { agent, asked: HashMap::new(), initialized: Value::Null }
    }

    /// Kills the agent, and starts another in the same home.
    async fn killed_and_started_again(self, setup: &Setup) -> Self {
        let agent = self.agent.killed_and_started_again(&setup.clone().arg("--acp")).await;
        let mut editor = Self { agent, asked: HashMap::new(), initialized: Value::Null };
        let params = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        editor.initialized = editor.call("initialize", params).await["result"].clone();
        editor
    }

    fn cwd(&self) -> PathBuf {
        self.agent.workspace()
    }

    async fn request(&mut self, method: &str, params: Value) -> u64 {
        let id = self.agent.request(method, params).await;
        self.asked.insert(id, method.to_owned());
        id
    }

    async fn notify(&mut self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.agent.send_line(&message.to_string()).await;
    }

    /// Reads the next message, and checks it with the types of the protocol.
    async fn message(&mut self) -> Value {
        let message = self.agent.message().await;
        self.check(&message);
        message
    }

    fn check(&mut self, message: &Value) {
        if let Some(method) = message["method"].as_str() {
            return schema::check_sent(method, &message["params"]);
        }
        let method = message["id"].as_u64().and_then(|id| self.asked.remove(&id));
        let method = method.unwrap_or_else(|| panic!("nobody has asked: {message}"));
        schema::check_answer(&method, message);
    }

    /// Reads until a request is answered. All that was read, the answer last.
    async fn until(&mut self, id: u64) -> Vec<Value> {
        self.until_with(id, "once").await
    }

    /// Reads as [`Self::until`] does, and gives this answer to every question.
    async fn until_with(&mut self, id: u64, option: &str) -> Vec<Value> {
        let mut read = Vec::new();
        loop {
            let message = self.message().await;
            read.push(message.clone());
            match message["method"].as_str() {
                None if message["id"] == id => return read,
                Some("session/request_permission") => self.choose(&message, option).await,
                _ => {}
            }
        }
    }

    /// Answers a question with an option.
    async fn choose(&mut self, question: &Value, option: &str) {
        let outcome = json!({ "outcome": "selected", "optionId": option });
        self.agent.answer(question, json!({ "outcome": outcome })).await;
    }

    /// Reads until the agent sends this method.
    async fn sent(&mut self, method: &str) -> Value {
        loop {
            let message = self.message().await;
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Reads until the agent sends an update of this kind, and returns that.
    async fn update(&mut self, kind: &str) -> Value {
        loop {
            let update = self.sent("session/update").await["params"]["update"].clone();
            if update["sessionUpdate"] == kind {
                return update;
            }
        }
    }

    /// Sends a request and returns the answer.
    async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        self.until(id).await.pop().unwrap()
    }

    /// Begins a session in the workspace; its id.
    async fn session(&mut self) -> String {
        let params = json!({ "cwd": self.cwd(), "mcpServers": [] });
        let answer = self.call("session/new", params).await;
        answer["result"]["sessionId"].as_str().unwrap().to_owned()
    }

    async fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.request("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await
    }

    /// Runs a prompt to its end; all that was read.
    async fn ask(&mut self, session: &str, text: &str) -> Vec<Value> {
        let id = self.prompt(session, text).await;
        self.until(id).await
    }
}

/// Returns the updates of this kind.
fn updates(messages: &[Value], kind: &str) -> Vec<Value> {
    let updates = messages.iter().map(|message| &message["params"]["update"]);
    updates.filter(|update| update["sessionUpdate"] == kind).cloned().collect()
}

/// Returns the text of all chunks of this kind.
fn text(messages: &[Value], kind: &str) -> String {
    let chunks = updates(messages, kind);
    chunks.iter().map(|chunk| chunk["content"]["text"].as_str().unwrap().to_owned()).collect()
}

/// Returns the reason of a turn's end, from the last message.
fn stop_reason(messages: &[Value]) -> &str {
    messages.last().unwrap()["result"]["stopReason"].as_str().unwrap_or_default()
}

/// Returns the names of the answers that the first question of an agent offers to an editor which shows
/// them.
pub(crate) async fn first_names(setup: &Setup) -> Vec<String> {
    let client = json!({ "name": "zed", "version": "1" });
    let initialize = json!({ "protocolVersion": 1, "clientInfo": client });
    let mut editor = Editor::with(setup, initialize).await;
    let session = editor.session().await;
    let id = editor.prompt(&session, "go").await;
    let read = editor.until_with(id, "reject").await;
    let question = read.iter().find(|it| it["method"] == "session/request_permission");
    let options = question.expect("nothing is asked")["params"]["options"].as_array().unwrap();
    options.iter().map(|option| option["name"].as_str().unwrap().to_owned()).collect()
}
