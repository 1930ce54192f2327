//! The other end of a WebSocket.

use std::sync::Arc;

use futures::{SinkExt as _, StreamExt as _};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};
use tokio_util::either::Either;

use crate::limit::HANG;

/// A client.
pub struct Socket {
    /// The messages of both sides.
    pub stream: WebSocketStream<Either<TcpStream, TlsStream<TcpStream>>>,
}

impl Socket {
    /// Opens a WebSocket with these headers, in place of default headers of the same names. The error is the status
    /// of the refusal.
    pub async fn open(port: u16, path: &str, headers: &[(&str, &str)]) -> Result<Self, u16> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        Self::over(Either::Left(stream), &format!("ws://127.0.0.1:{port}{path}"), headers).await
    }

    /// Opens a WebSocket over TLS, with a server of this name.
    pub async fn open_secure(
        config: Arc<ClientConfig>,
        name: &'static str,
        port: u16,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Self, u16> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let connector = TlsConnector::from(config);
        let stream = connector.connect(ServerName::try_from(name).unwrap(), stream).await.unwrap();
        Self::over(Either::Right(stream), &format!("wss://{name}:{port}{path}"), headers).await
    }

    async fn over(
        stream: Either<TcpStream, TlsStream<TcpStream>>,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Result<Self, u16> {
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
        }
        match timeout(HANG, client_async(request, stream)).await.expect("no response") {
            Ok((stream, _)) => Ok(Self { stream }),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(other) => panic!("{other}"),
        }
    }

    /// Sends a message of text.
    pub async fn send_text(&mut self, text: &str) {
        self.stream.send(Message::text(text)).await.unwrap();
    }

    /// Sends a call.
    pub async fn send(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let call = json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params });
        self.send_text(&call.to_string()).await;
    }

    /// Reads the next frame; the error is the code of the closing frame.
    pub async fn frame(&mut self) -> Result<Value, u16> {
        loop {
            match timeout(HANG, self.stream.next()).await.expect("the server is silent") {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => return Err(frame.map_or(0, |it| it.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(0),
            }
        }
    }

    /// Reads frames until one fits; returns it, and all frames before it.
    pub async fn until(&mut self, found: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            all.push(self.frame().await.unwrap_or_else(|code| panic!("closed, {code}: {all:?}")));
            if found(all.last().unwrap()) {
                return all;
            }
        }
    }

    /// Reads events until one fits; returns it, and all events before it.
    pub async fn events(&mut self, found: impl Fn(&Value) -> bool) -> Vec<Value> {
        let frames = self.until(|frame| event(frame).is_some_and(&found)).await;
        frames.iter().filter_map(event).cloned().collect()
    }

    /// Calls a method, skips other frames, and returns the answer.
    pub async fn call(&mut self, id: impl Into<Value>, method: &str, params: Value) -> Value {
        let id = id.into();
        self.send(id.clone(), method, params).await;
        self.until(|frame| frame["id"] == id).await.pop().unwrap()
    }
}

/// Returns the event in a frame, which may be part of a stream.
pub fn event(frame: &Value) -> Option<&Value> {
    if frame["method"] == "tasks/event" { Some(&frame["params"]) } else { frame.get("result") }
}
