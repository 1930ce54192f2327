//! HTTP written by hand, so that requests can be wrong.

use std::collections::BTreeMap;
use std::pin::pin;

use futures::{Stream, StreamExt as _, stream};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::limit::HANG;

/// A response whose body has not been read.
pub struct Begun {
    /// Status of the response.
    pub status: u16,
    /// Headers, by their names in lower case.
    pub headers: BTreeMap<String, String>,
    stream: BufReader<TcpStream>,
}

/// A response.
pub struct Response {
    /// Status of the response.
    pub status: u16,
    /// Headers, by their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Body without the marks of its chunks.
    pub body: Vec<u8>,
}

/// Sends a request; `line` is the method and the path.
pub async fn request(port: u16, line: &str, headers: &[&str], body: &[u8]) -> Begun {
    let mut head = format!("{line} HTTP/1.1\r\n");
    for header in headers {
        head += &format!("{header}\r\n");
    }
    if !body.is_empty() {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    let whole = [(head + "\r\n").as_bytes(), body].concat();
    raw(port, &whole).await.expect("no response")
}

/// Sends bytes; returns the response, or `None` if the connection is closed without a response.
pub async fn raw(port: u16, bytes: &[u8]) -> Option<Begun> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    // The server may refuse the request before all of it has arrived.
    let _ = timeout(HANG, stream.write_all(bytes)).await.expect("nobody reads");
    head(BufReader::new(stream)).await
}

/// Reads the head of a response.
pub async fn head(mut stream: BufReader<TcpStream>) -> Option<Begun> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        let read = timeout(HANG, stream.read_line(&mut line)).await.expect("no response");
        match line.trim_end() {
            _ if read.unwrap_or(0) == 0 => return None,
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &String| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_ascii_lowercase(), value.trim().to_owned())
    };
    Some(Begun { status, headers: lines[1..].iter().map(header).collect(), stream })
}

/// Takes a `POST` whose body is JSON, passes the body on, and answers.
pub async fn take_post(stream: TcpStream, tell: &mpsc::UnboundedSender<Value>) {
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        if line.trim_end().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    tell.send(serde_json::from_slice(&body).unwrap()).unwrap();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    stream.write_all(answer).await.unwrap();
}

impl Begun {
    /// Reads the body.
    pub async fn whole(mut self) -> Response {
        let mut body = Vec::new();
        if self.headers.get("transfer-encoding").is_some_and(|it| it == "chunked") {
            while let Some(chunk) = chunk(&mut self.stream).await {
                body.extend(chunk);
            }
        } else if let Some(length) = self.headers.get("content-length") {
            let mut rest = (&mut self.stream).take(length.parse().unwrap());
            timeout(HANG, rest.read_to_end(&mut body)).await.unwrap().unwrap();
        }
        Response { status: self.status, headers: self.headers, body }
    }

    /// Returns the events that the body is a stream of.
    pub fn events(self) -> Sse {
        Sse { begun: self, read: Vec::new() }
    }
}

/// Reads the next chunk of a body; `None` at its end.
async fn chunk(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut size = String::new();
    timeout(HANG, stream.read_line(&mut size)).await.expect("the server is silent").ok()?;
    let size = usize::from_str_radix(size.trim_end(), 16).ok()?;
    let mut chunk = vec![0; size + 2];
    timeout(HANG, stream.read_exact(&mut chunk)).await.expect("the server is silent").ok()?;
    chunk.truncate(size);
    (size > 0).then_some(chunk)
}

impl Response {
    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|err| panic!("{err}: {}", self.text()))
    }

    /// Returns the events of a stream, or the only response.
    pub fn frames(&self) -> Vec<Value> {
        if self.header("content-type") != "text/event-stream" {
            return vec![self.json()];
        }
        let text = self.text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// Returns the results among the frames.
    pub fn results(&self) -> Vec<Value> {
        self.frames().into_iter().map(|frame| frame["result"].clone()).collect()
    }

    /// Returns a header; empty without it.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// A stream of Server-Sent Events, or a single response in its place.
pub struct Sse {
    /// Head of the response.
    pub begun: Begun,
    read: Vec<u8>,
}

impl Sse {
    /// Reads the name and the data of the next event; `None` at the end.
    pub async fn event(&mut self) -> Option<(String, Value)> {
        loop {
            let end = self.read.windows(2).position(|it| it == b"\n\n");
            let Some(end) = end else {
                self.read.extend(chunk_or_rest(&mut self.begun).await?);
                continue;
            };
            let event: Vec<u8> = self.read.drain(..end + 2).collect();
            let event = String::from_utf8(event).unwrap();
            let field = |name: &str| event.lines().find_map(|it| it.strip_prefix(name));
            if let Some(data) = field("data: ") {
                let name = field("event: ").unwrap_or_default().to_owned();
                return Some((name, serde_json::from_str(data).unwrap()));
            }
        }
    }

    /// Reads the next result.
    pub async fn next(&mut self) -> Option<Value> {
        let (name, data) = self.event().await?;
        assert!(name.is_empty() && data.get("error").is_none(), "{data}");
        Some(data["result"].clone())
    }

    /// Reads results until one fits; returns it, and all results before it.
    pub async fn until(&mut self, found: impl Fn(&Value) -> bool) -> Vec<Value> {
        let events = stream::unfold(self, |it| async move { Some((it.next().await?, it)) });
        until(events, found).await
    }

    /// Reads all results to the end.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}

/// Reads results until one fits; returns it, and all results before it.
pub async fn until(
    events: impl Stream<Item = Value>,
    found: impl Fn(&Value) -> bool,
) -> Vec<Value> {
    let (mut events, mut all) = (pin!(events), Vec::new());
    while let Some(event) = events.next().await {
        all.push(event);
        if found(all.last().unwrap()) {
            return all;
        }
    }
    panic!("the stream has ended: {:?}", all.last());
}

/// Reads more of a body, which may be in chunks.
async fn chunk_or_rest(begun: &mut Begun) -> Option<Vec<u8>> {
    let Some(length) = begun.headers.remove("content-length") else {
        return chunk(&mut begun.stream).await;
    };
    let mut body = vec![0; length.parse().unwrap()];
    timeout(HANG, begun.stream.read_exact(&mut body)).await.unwrap().unwrap();
    // The body has been read as a whole, so nothing is left to read.
    begun.headers.insert("content-length".to_owned(), "0".to_owned());
    (!body.is_empty()).then_some(body)
}
