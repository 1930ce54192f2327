//! An A2A server in the process of a test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tandem_a2a::{Ending, ServeAcp, ServedSessions, ServerOptions, listen, serve};
use tandem_agent::session::{Session, StoreHealth};
use tandem_agent::sessions::{MakeSession, SessionLimits, SessionRequest, Sessions};
use tandem_serve::network::NetworkOptions;
use tandem_serve::principals::AccessOptions;
use tandem_serve::quotas::Quotas;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// Limit on the time of every operation.
pub const LONG: Duration = Duration::from_secs(20);

/// Time for an answer: lists of 100,000 sessions take long on a busy machine.
const ANSWER_WAIT: Duration = Duration::from_mins(1);

/// A server in this process.
pub struct Server {
    /// Port on this machine.
    pub port: u16,
    _serves: AbortOnDropHandle<anyhow::Result<()>>,
}

impl Server {
    /// Serves these sessions.
    pub async fn of(sessions: ServedSessions) -> Self {
        let acp: ServeAcp = Arc::new(|mut stream, _| {
            Box::pin(async move {
                stream.write_all(b"{\"acp\":true}\n").await.unwrap();
                pending::<()>().await;
            })
        });
        let options = ServerOptions {
            access: AccessOptions::default(),
            webhook_loopback: true,
            private_servers: false,
            body: 1 << 20,
            attachment_chars: 1000,
            connections: 64,
            requests: 64,
            refused_requests: 64,
            streams: 64,
            retry: LONG,
            head_time: LONG,
            patience: Duration::from_secs(30),
            ping: LONG,
            pong: LONG,
            acp: Some(acp),
            programs: false,
            audit: None,
            card_key: None,
            quotas: Quotas::default(),
            connected: tokio::sync::watch::Sender::new(0),
            metrics: None,
            store_health: StoreHealth::default(),
            network: NetworkOptions::default(),
        };
        let listener = listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serves = serve(listener, sessions, options, Ending::default());
        Self { port, _serves: AbortOnDropHandle::new(tokio::spawn(serves)) }
    }

    /// Serves the sessions of a registry, one for each context, with a time limit for questions.
    pub async fn registry(sessions: Arc<Sessions>, question: Duration) -> Self {
        Self::of(ServedSessions::PerContext { sessions, is_shown: Arc::new(|_| true), question })
            .await
    }

    /// Sends a `POST`; returns the body of the answer.
    pub async fn post(&self, path: &str, headers: &str, body: &Value) -> String {
        let (port, body) = (self.port, body.to_string());
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\
             Content-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all((head + &body).as_bytes()).await.unwrap();
        let mut response = String::new();
        timeout(ANSWER_WAIT, stream.read_to_string(&mut response))
            .await
            .expect("it hangs")
            .unwrap();
        response.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Calls a method over HTTP; returns the whole response.
    pub async fn call(&self, method: &str, params: Value) -> Value {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        serde_json::from_str(&self.post("/", "", &call).await).unwrap()
    }
}

/// Returns a registry with one session.
pub fn shared(session: Arc<Session>) -> ServedSessions {
    let make: MakeSession = Arc::new(move |_, _| Ok(Arc::clone(&session)));
    let sessions = Sessions::new(make, SessionLimits { loaded: 1, idle: None, log_bytes: 1 << 20 });
    let first = sessions.create(&SessionRequest::default(), |_| ()).unwrap();
    ServedSessions::Shared { sessions, first }
}
