//! People and services whom `tandem serve` knows by their tokens, and their sessions.

mod isolation;
mod issuer;
mod oidc;
mod quotas;
mod sharing;

use serde_json::{Value, json};
use tandem_agent::session::PrincipalId;
use tandem_serve::tokens::{self, PrincipalRole};
use tempfile::TempDir;

use super::http::{Response, Sse, request};
use super::server::{Served, answer, prompt, serve, within, write};
use super::socket::Socket;
use super::traces::end;
use crate::agent::Setup;

/// A server with named principals.
struct Office {
    server: Served,
    tokens: TempDir,
}

/// A person or a service with a token.
#[derive(Clone)]
pub(super) struct Person {
    pub(super) port: u16,
    pub(super) token: String,
    pub(super) id: PrincipalId,
}

impl Office {
    /// Starts a server that requires tokens from its start.
    async fn open(setup: Setup) -> Self {
        let tokens = tempfile::tempdir().unwrap();
        let file = tokens.path().join("tokens.json");
        tokens::add(&file, &id("default", "first"), PrincipalRole::Member).unwrap();
        let server = serve(&setup.arg("--tokens").arg(file.to_str().unwrap())).await;
        Self { server, tokens }
    }

    /// Starts another server that knows the same people.
    #[cfg(feature = "postgres")]
    async fn another(&self, setup: &Setup) -> Served {
        serve(&setup.clone().arg("--tokens").arg(self.file().to_str().unwrap())).await
    }

    fn add(&self, tenant: &str, name: &str, role: PrincipalRole) -> Person {
        let id = id(tenant, name);
        let (token, _) = tokens::add(&self.file(), &id, role).unwrap();
        Person { port: self.server.client.port, token, id }
    }

    /// Adds a member of the tenant `acme`.
    fn member(&self, name: &str) -> Person {
        self.add("acme", name, PrincipalRole::Member)
    }

    fn revoke(&self, person: &Person) {
        tokens::revoke(&self.file(), &person.id, None).unwrap();
    }

    fn file(&self) -> std::path::PathBuf {
        self.tokens.path().join("tokens.json")
    }
}

pub(super) fn id(tenant: &str, name: &str) -> PrincipalId {
    PrincipalId { tenant: tenant.to_owned(), name: name.to_owned() }
}

impl Person {
    /// Returns the same person as a client of another server.
    #[cfg(feature = "postgres")]
    pub(super) fn at(&self, port: u16) -> Self {
        Self { port, ..self.clone() }
    }

    fn header(&self) -> String {
        format!("Authorization: Bearer {}", self.token)
    }

    async fn send(&self, line: &str, body: &[u8]) -> Response {
        let (host, token) = (format!("Host: 127.0.0.1:{}", self.port), self.header());
        let headers = [&host, "Content-Type: application/json", "Connection: close", &token];
        request(self.port, line, &headers, body).await.whole().await
    }

    async fn get(&self, path: &str) -> Response {
        self.send(&format!("GET {path}"), b"").await
    }

    async fn post(&self, path: &str, body: &Value) -> Response {
        self.send(&format!("POST {path}"), body.to_string().as_bytes()).await
    }

    async fn call(&self, method: &str, params: Value) -> Value {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.post("/", &call).await.json()
    }

    pub(super) async fn result(&self, method: &str, params: Value) -> Value {
        let response = self.call(method, params).await;
        assert!(response.get("error").is_none(), "{method}: {response}");
        response["result"].clone()
    }

    /// Returns the code and the message of the error that a call brings.
    async fn error(&self, method: &str, params: Value) -> (i64, String) {
        let response = self.call(method, params).await;
        let error = &response["error"];
        (error["code"].as_i64().unwrap_or_default(), error["message"].to_string())
    }

    async fn stream(&self, method: &str, params: Value) -> Sse {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let (host, token) = (format!("Host: 127.0.0.1:{}", self.port), self.header());
        let headers = [&host, "Content-Type: application/json", &token];
        request(self.port, "POST /", &headers, call.to_string().as_bytes()).await.events()
    }

    async fn socket(&self, path: &str) -> Result<Socket, u16> {
        let token = format!("Bearer {}", self.token);
        Socket::open(self.port, path, &[("authorization", &token)]).await
    }

    /// Begins a session under a name, whose model then asks about a file.
    async fn begin(&self, context: &str) -> Value {
        self.result("message/send", in_context(context, prompt("go"))).await
    }

    /// Sends a prompt in a task; returns the text of the model or of the command.
    async fn say(&self, task: &str, text: &str) -> String {
        let sent = self.result("message/send", within(&json!(task), prompt(text))).await;
        sent["artifacts"][0]["parts"][0]["text"].as_str().unwrap_or_default().to_owned()
    }
}

/// Puts a message into a context.
fn in_context(context: &str, mut params: Value) -> Value {
    params["message"]["contextId"] = json!(context);
    params
}

/// Returns a model that asks about a file for every prompt, and then is done.
fn asking() -> Setup {
    Setup::answers(json!([[write("a.txt", "a")], [{ "text": "done" }]]))
}

/// Returns a model that answers at once.
fn hello() -> Setup {
    Setup::answers(json!([[{ "text": "hello" }]]))
}

#[tokio::test]
async fn who_has_no_token_is_not_served_from_when_there_is_one() {
    let it = Office::open(hello()).await;
    let alice = it.member("alice");
    assert_eq!(it.server.client.get("/listCommands").await.status, 401);
    let stranger = Person { token: alice.token.replace("tdm_", "tdm_0"), ..alice.clone() };
    assert_eq!(stranger.get("/listCommands").await.status, 401);
    assert_eq!(alice.get("/listCommands").await.status, 200);
    assert_eq!(alice.get("/tasks/metadata").await.status, 204);
    let card = it.server.client.get("/.well-known/agent-card.json").await.json();
    assert_eq!(card["securitySchemes"]["bearer"]["scheme"], "bearer");
    assert_eq!(card["security"], json!([{ "bearer": [] }]));
}

#[tokio::test]
async fn a_server_that_was_open_asks_for_tokens_when_the_first_is_made() {
    let tokens = tempfile::tempdir().unwrap();
    let file = tokens.path().join("tokens.json");
    let setup = hello().arg("--tokens").arg(file.to_str().unwrap());
    let server = serve(&setup).await;
    assert_eq!(server.client.get("/listCommands").await.status, 200);
    let mut open = server.client.socket().await;
    tokens::add(&file, &id("acme", "alice"), PrincipalRole::Member).unwrap();
    // The connection from before the first token is closed without a request of the client.
    assert_eq!(open.frame().await, Err(1008));
    assert_eq!(server.client.get("/listCommands").await.status, 401);
    // Without the file, the server still requires a token.
    std::fs::remove_file(&file).unwrap();
    assert_eq!(server.client.get("/listCommands").await.status, 401);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_lets_nobody_in_and_the_log_says_when_it_can_be_again() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let setup = hello().arg("--log-file").arg(log.to_str().unwrap()).var("TANDEM_LOG", "warn");
    let it = Office::open(setup).await;
    let alice = it.member("alice");
    assert_eq!(alice.get("/listCommands").await.status, 200);
    let whole = std::fs::read_to_string(it.file()).unwrap();
    std::fs::write(it.file(), "{").unwrap();
    assert_eq!(alice.get("/listCommands").await.status, 401);
    std::fs::write(it.file(), whole).unwrap();
    assert_eq!(alice.get("/listCommands").await.status, 200);
    end(it.server).await;
    let log = std::fs::read_to_string(log).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    let [lost, repaired] = lines[..] else { panic!("{log}") };
    assert!(lost.contains("no token counts any more"), "{log}");
    assert!(repaired.contains("tokens count again"), "{log}");
    let ran = hello().file("t.json", "{").arg("serve").arg("--tokens").arg("t.json").run().await;
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
}

#[tokio::test]
async fn a_token_that_is_revoked_does_not_count_and_its_streams_end() {
    let it = Office::open(asking()).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    let task = alice.begin("a").await;
    assert_eq!(task["status"]["state"], "input-required");
    let mut stream = alice.stream("tasks/resubscribe", json!({ "id": "a" })).await;
    assert!(stream.next().await.is_some());
    let mut socket = alice.socket("/ws").await.unwrap();
    socket.call(1, "tasks/get", json!({ "id": "a" })).await;
    let mut terminal = alice.socket("/attach").await.unwrap();
    let open = json!({ "version": 3, "terminal": "t", "session": { "id": "a" } });
    let opened = terminal.call(1, "attach/open", open).await;
    assert!(opened["result"]["opened"].is_object(), "{opened}");
    it.revoke(&alice);
    assert_eq!(alice.get("/listCommands").await.status, 401);
    assert_eq!(alice.socket("/ws").await.map(drop), Err(401));
    // Nothing happens in the session, and yet the streams of the revoked token end.
    let mut last = None;
    while let Some(event) = stream.event().await {
        last = Some(event);
    }
    let (name, told) = last.unwrap();
    assert_eq!((name.as_str(), &told["id"]), ("error", &json!(1)), "{told}");
    let why = told["error"]["message"].as_str().unwrap();
    assert!(why.contains("the token is not valid any more"), "{told}");
    assert_eq!(socket.frame().await, Err(1008));
    assert_eq!(terminal.frame().await, Err(1008));
    assert_eq!(bob.get("/listCommands").await.status, 200);
    // The sessions belong to the name, so another token of the same name reaches them.
    let again = it.member("alice");
    let task = again.result("tasks/get", json!({ "id": "a" })).await;
    assert_eq!(task["status"]["state"], "input-required");
}

#[tokio::test]
async fn the_operators_token_counts_beside_the_others_and_has_all_sessions() {
    let setup = asking().file("own.txt", "t0ken").arg("--a2a-token-file").arg("own.txt");
    let it = Office::open(setup).await;
    let alice = it.member("alice");
    alice.begin("a").await;
    let operator = Person { token: "t0ken".to_owned(), ..alice.clone() };
    let all = operator.get("/tasks/metadata").await.json();
    assert_eq!(all[0]["id"], "a");
    let task = operator.result("tasks/get", json!({ "id": "a" })).await;
    assert_eq!(task["status"]["state"], "input-required");
    // Each principal has names of its own, so the operator's `a` is a new session, with a prompt and a question.
    let own = operator.begin("a").await;
    assert_eq!(own["history"].as_array().unwrap().len(), 2, "{own}");
    assert_eq!(operator.get("/tasks/metadata").await.json().as_array().unwrap().len(), 2);
    assert_eq!(alice.get("/tasks/metadata").await.json().as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_owner_finds_a_session_again_after_a_restart_and_nobody_else_does() {
    let it = Office::open(hello()).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    let other = it.add("other", "alice", PrincipalRole::Member);
    let admin = it.add("acme", "root", PrincipalRole::Admin);
    alice.begin("a").await;
    let setup = hello().arg("--tokens").arg(it.file().to_str().unwrap());
    let server = it.server.killed(&setup).await;
    let here = |person: &Person| Person { port: server.client.port, ..person.clone() };
    let (alice, bob, other, admin) = (here(&alice), here(&bob), here(&other), here(&admin));
    for stranger in [&bob, &other] {
        let (code, _) = stranger.error("tasks/get", json!({ "id": "a" })).await;
        assert_eq!(code, -32001);
        assert_eq!(stranger.result("ListTasks", json!({})).await["totalSize"], 0);
    }
    assert_eq!(alice.result("ListTasks", json!({})).await["tasks"][0]["contextId"], "a");
    // An administrator finds the session by its own id, because `a` is Alice's name for it.
    let listed = admin.result("ListTasks", json!({})).await;
    let own_id = listed["tasks"][0]["contextId"].as_str().unwrap().to_owned();
    assert_ne!(own_id, "a");
    assert_eq!(alice.say("a", "again").await, "hello");
    let found = admin.result("tasks/get", json!({ "id": own_id })).await;
    assert_eq!(found["history"].as_array().unwrap().len(), 4);
    let (code, _) = other.error("tasks/get", json!({ "id": own_id })).await;
    assert_eq!(code, -32001);
}

#[tokio::test]
async fn checkpoints_are_each_ones_own() {
    let it = Office::open(hello()).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    alice.begin("a").await;
    bob.begin("b").await;
    assert!(alice.say("a", "/chat save mine").await.contains("saved as `mine`"));
    let none = bob.say("b", "/chat list").await;
    assert!(none.contains("There is no checkpoint"), "{none}");
    assert!(bob.say("b", "/chat save mine").await.contains("saved as `mine`"));
    assert!(bob.say("b", "/chat delete mine").await.contains("is deleted"));
    assert!(alice.say("a", "/chat list").await.contains("`mine`"));
}

#[tokio::test]
async fn what_counts_for_everybody_is_the_operators() {
    let call = json!({ "name": "run_shell_command", "args": { "command": "touch a" } });
    let setup = Setup::answers(json!([[{ "call": call }], [{ "text": "done" }]])).without_sandbox();
    let offers = r#"{ "security": { "enablePermanentToolApproval": true } }"#;
    let it = Office::open(setup.file("../.gemini/settings.json", offers)).await;
    let alice = it.member("alice");
    let said = alice.result("message/send", in_context("a", prompt("/memory add be bad"))).await;
    let said = said["artifacts"][0]["parts"][0]["text"].as_str().unwrap();
    assert!(said.starts_with("Nothing was added: this would count for everybody"), "{said}");
    let asked = alice.begin("a").await;
    let data = &asked["status"]["message"]["parts"][1]["data"];
    let options = data["confirmation_request"]["options"].to_string();
    assert!(options.contains("proceed_always_and_save"), "{options}");
    let save = answer(&data["tool_call_id"], "proceed_always_and_save");
    let (code, why) = alice.error("message/send", within(&json!("a"), save)).await;
    assert_eq!((code, why.contains("only the operator can save a rule")), (-32602, true), "{why}");
    let always = answer(&data["tool_call_id"], "proceed_always");
    let done = alice.result("message/send", within(&json!("a"), always)).await;
    assert_eq!(done["status"]["state"], "completed");
}

#[tokio::test]
async fn the_programs_of_a_folder_are_trusted_by_the_operator_alone() {
    let runs = json!({ "mcpServers": { "s": { "command": "true" } } }).to_string();
    let it = Office::open(hello().file(".gemini/settings.json", &runs)).await;
    let alice = it.member("alice");
    let asked = alice.begin("a").await;
    let data = &asked["status"]["message"]["parts"][1]["data"];
    let yes = answer(&data["tool_call_id"], "proceed_always_and_save");
    let (code, why) = alice.error("message/send", within(&json!("a"), yes)).await;
    assert_eq!((code, why.contains("only the operator can trust")), (-32602, true), "{why}");
    let no = answer(&data["tool_call_id"], "cancel");
    let done = alice.result("message/send", within(&json!("a"), no)).await;
    assert_eq!(done["status"]["state"], "completed", "{done}");
}

#[tokio::test]
async fn a_proxy_with_the_servers_token_says_who_its_users_are() {
    let setup = hello().file("proxy.txt", "t0ken").arg("--a2a-token-file").arg("proxy.txt");
    let setup = ["--trust-proxy", "127.0.0.1", "--proxy-user-header", "X-User"]
        .iter()
        .fold(setup, |setup, arg| setup.arg(arg));
    let it = Office::open(setup).await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} });
    let status = async |headers: &[&str]| {
        let body = call.to_string();
        let response = it.server.client.send("POST /", headers, body.as_bytes()).await;
        (response.status, response.text())
    };
    let token = "Authorization: Bearer t0ken";
    assert_eq!(status(&[]).await.0, 401);
    assert_eq!(status(&["X-User: alice"]).await.0, 401, "without the token");
    assert_eq!(status(&[token]).await.0, 401, "nobody is the operator by an oversight");
    assert_eq!(status(&[token, "X-User: alice", "X-User: bob"]).await.0, 401);
    assert_eq!(status(&[token, "X-User: a b"]).await.0, 401);
    let send = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send",
        "params": in_context("a", prompt("go")) });
    let alice = [token, "X-User: alice"];
    it.server.client.send("POST /", &alice, send.to_string().as_bytes()).await;
    assert!(status(&alice).await.1.contains(r#""totalSize":1"#));
    assert!(status(&[token, "X-User: bob"]).await.1.contains(r#""totalSize":0"#));
    // A token of a user counts as before, and the header `X-User` beside it has no effect.
    let carol = it.member("carol");
    assert_eq!(status(&[&carol.header(), "X-User: alice"]).await.0, 200);
    assert!(status(&[&carol.header(), "X-User: alice"]).await.1.contains(r#""totalSize":0"#));
    let open = hello().arg("serve").arg("--trust-proxy").arg("127.0.0.1");
    let ran = open.arg("--proxy-user-header").arg("X-User").run().await;
    assert!(ran.stderr.contains("could claim to be the proxy"), "{}", ran.stderr);
}
