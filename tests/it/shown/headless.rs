//! One prompt from the command line.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};

use serde_json::Value;
use tandem_agent::session::Event;
use tandem_headless::{self as headless, Format, HeadlessOptions, OutputStreams};
use tokio::io::AsyncWrite;
use tokio::time::timeout;

use super::Case;
use super::stage::{AFTER, BEFORE, Stage};
use crate::agent::HANG;
use crate::fakes::text;
use crate::limit::wait_until;

/// Everything that was written to any stream.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<String>>);

/// One of the streams; each of its lines begins with the stream's name.
#[derive(Clone)]
struct Stream(&'static str, Written);

impl Stream {
    fn take(&self, bytes: &[u8]) {
        let mut all = self.1.0.lock().unwrap();
        for line in std::str::from_utf8(bytes).unwrap().lines().filter(|line| !line.is_empty()) {
            *all += &format!("{} {line}\n", self.0);
        }
    }
}

impl io::Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.take(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Returns the output in the formats `text` and `stream-json`, and standard error for a person who watches.
pub(super) async fn shown(case: &Case) -> Vec<String> {
    let mut kinds = Vec::new();
    for format in [Format::Text, Format::StreamJson] {
        for line in written(case, format).await.lines() {
            let (stream, line) = line.split_once(' ').unwrap();
            let kind = match (stream, format) {
                ("stderr", _) => "note".to_owned(),
                ("exit", _) => format!("exit code {line}"),
                (_, Format::StreamJson) => {
                    let line: Value = serde_json::from_str(line).unwrap();
                    format!("stream `{}`", line["type"].as_str().unwrap())
                }
                _ => "text".to_owned(),
            };
            kinds.push(kind);
        }
    }
    kinds
}

/// Returns the output about the event, each line after the name of its stream.
async fn written(case: &Case, format: Format) -> String {
    let (stage, written) = (Stage::new(), Written::default());
    let (session, streams) = (Arc::clone(&stage.session), written.clone());
    let run = tokio::spawn(async move {
        let signal = Arc::new(OnceLock::new());
        let options = HeadlessOptions {
            format,
            shared: true,
            progress: true,
            fail_on_refusal: false,
            answer_schema: None,
            signal,
        };
        let mut notes = Stream("stderr", streams.clone());
        let outputs = OutputStreams { answer: Stream("stdout", streams), notes: &mut notes };
        let failure = headless::run(&session, text("go"), options, outputs).await.unwrap();
        failure.map(|failure| failure.code())
    });
    stage.prepare(case).await;
    stage.act(case).await;
    let ends = matches!(case.event, Event::TurnFinished { .. });
    if ends {
        let code = timeout(HANG, run).await.unwrap().unwrap();
        Stream("exit", written.clone()).take(code.unwrap_or(0).to_string().as_bytes());
    } else {
        let seen = || written.0.lock().unwrap().matches(AFTER).count();
        // With `stream-json`, a note is on both streams.
        let times = if format == Format::StreamJson { 2 } else { 1 };
        wait_until("the note after the event", || seen() >= times).await;
    }
    stage.session.close();
    let all = written.0.lock().unwrap().clone();
    let lines = all.lines().skip_while(|line| !line.contains(BEFORE));
    let lines = lines.filter(|line| !line.contains(BEFORE) && !line.contains(AFTER));
    lines.map(|line| format!("{line}\n")).collect()
}
