//! A store that cannot be reached.

use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tandem_a2a::ServedSessions;
use tandem_agent::session::{
    Head, Listed, Orphan, Query, Secrets, SharedStore, Store, StoreError, StoredLog, WriteLease,
};
use tandem_agent::sessions::{SessionLimits, Sessions};
use test_served::Server;
use test_support::a2a::{Client, prompt};
use test_support::web_socket::Socket;

/// Text that only the operator may see.
const WHY: &str = "the database `x` at db.example:5432: it has not answered for 10 s";

/// A store that answers nothing.
#[derive(Default)]
struct Away {
    /// Number of waits for an answer.
    waits: AtomicUsize,
}

impl Away {
    fn silent<T>(&self) -> Result<T, StoreError> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        Err(StoreError::Unavailable(WHY.to_owned()))
    }
}

#[async_trait]
impl Store for Away {
    async fn create(&self, _: &Head) -> Result<Box<dyn WriteLease>, StoreError> {
        self.silent()
    }

    async fn acquire(&self, _: &str) -> Result<Box<dyn WriteLease>, StoreError> {
        self.silent()
    }

    async fn acquire_orphan(&self, _: &Orphan) -> Result<Box<dyn WriteLease>, StoreError> {
        self.silent()
    }

    async fn is_held(&self, _: &str) -> Result<bool, StoreError> {
        self.silent()
    }

    async fn id(&self) -> Result<String, StoreError> {
        self.silent()
    }

    async fn head(&self, _: &str) -> Result<Head, StoreError> {
        self.silent()
    }

    async fn read(&self, _: &str) -> Result<StoredLog, StoreError> {
        self.silent()
    }

    async fn orphans(&self) -> Result<Vec<Orphan>, StoreError> {
        // No test asks for orphans.
        pending().await
    }

    async fn orphaned(&self) {
        pending::<()>().await;
    }

    async fn opened(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    async fn secrets(&self, _: &str) -> Result<Secrets, StoreError> {
        self.silent()
    }

    async fn list(&self, _: &Query) -> Result<Vec<Listed>, StoreError> {
        self.silent()
    }

    async fn delete(&self, _: &str) -> Result<(), StoreError> {
        self.silent()
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        None
    }

    fn directory(&self, _: &str) -> Option<PathBuf> {
        None
    }
}

async fn server() -> (Server, Arc<Away>) {
    let store = Arc::<Away>::default();
    let limits = SessionLimits { loaded: 9, idle: None, log_bytes: 1 << 20 };
    let make = Arc::new(|_: &_, _| Err("nothing is loaded here".to_owned()));
    let sessions = Sessions::with_store(make, limits, Some(Arc::clone(&store) as _));
    let (is_shown, question) = (Arc::new(|_: &_| true), Duration::from_secs(9));
    let served = ServedSessions::PerContext { sessions, is_shown, question };
    (Server::of(served).await, store)
}

/// Returns a message in a context.
fn message() -> Value {
    let mut sent = prompt("go");
    sent["message"]["contextId"] = json!("c");
    sent
}

/// Checks that a text tells that the store is away, and not the store's address.
fn check_told(text: &str) {
    assert!(text.contains("the server cannot reach its database now; try again in 5 s"), "{text}");
    assert!(!text.contains("db.example") && !text.contains("`x`"), "{text}");
}

#[tokio::test]
async fn a_client_waits_once_for_a_store_that_cannot_be_reached_and_is_told_to_try_again() {
    let (server, store) = server().await;
    let client = Client { port: server.port };
    for (method, params) in [
        ("tasks/get", json!({ "id": "c" })),
        ("tasks/resubscribe", json!({ "id": "c" })),
        ("message/send", message()),
        ("SendMessage", message()),
        ("ListTasks", json!({})),
        ("ListTasks", json!({ "contextId": "c" })),
        ("command/execute", json!({ "command_path": ["about"], "contextId": "c" })),
    ] {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let response = client.post("/", &call).await;
        assert_eq!(store.waits.swap(0, Ordering::Relaxed), 1, "{method}");
        check_told(&response.text());
        let error = r#""code":-32030,"#;
        assert!(response.status == 200 && response.text().contains(error), "{}", response.text());
    }
    let mut socket = Socket::open(server.port, "/attach", &[]).await.unwrap();
    let open = json!({ "version": 3, "terminal": "a", "session": { "id": "c" } });
    let refused = socket.call(0, "attach/open", open).await;
    assert_eq!(store.waits.swap(0, Ordering::Relaxed), 1, "{refused}");
    check_told(&refused.to_string());
}

#[tokio::test]
async fn over_http_a_store_that_cannot_be_reached_is_status_503() {
    let (server, store) = server().await;
    let client = Client { port: server.port };
    let body = message().to_string();
    for (line, body) in [
        ("GET /v1/tasks", ""),
        ("GET /v1/tasks/c", ""),
        ("POST /v1/message:send", &*body),
        ("GET /tasks/c/metadata", ""),
        ("POST /tasks", r#"{ "contextId": "c" }"#),
        ("POST /executeCommand", r#"{ "command": "about", "contextId": "c" }"#),
    ] {
        let response = client.send(line, &["A2A-Version: 1.0"], body.as_bytes()).await;
        assert_eq!((response.status, response.header("retry-after")), (503, "5"), "{line}");
        assert_eq!(store.waits.swap(0, Ordering::Relaxed), 1, "{line}");
        check_told(&response.text());
        if line.contains(" /v1/") {
            assert_eq!(response.json()["error"]["status"], "UNAVAILABLE", "{}", response.text());
        }
    }
}
