//! The audit log: requests and approvals with their callers, as JSON Lines in a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::task_local;
use tracing::Span;

use super::principals::Principal;
use tandem_agent::commands::is_share;
use tandem_agent::session::{
    Answer, CallStarted, Origin, PrincipalId, PromptPart, TurnId, prompt_text,
};
use tandem_content::blocking::{BlockingError, blocking};

/// Maximum number of records that wait to be written. Further records are lost, and their number is recorded.
const MAX_WAITING_RECORDS: usize = 10_000;

/// Maximum number of records in one write.
const MAX_BATCH_RECORDS: usize = 256;

task_local! {
    /// Address of the client that the task works for.
    static CLIENT_ADDRESS: IpAddr;
}

/// Returns the address of the client that this task works for, if known.
pub fn client_address() -> Option<IpAddr> {
    CLIENT_ADDRESS.try_get().ok()
}

/// Runs work for the client at an address, which records of the work then contain.
pub async fn for_client<F: Future>(address: Option<IpAddr>, work: F) -> F::Output {
    match address {
        Some(address) => CLIENT_ADDRESS.scope(address, work).await,
        None => work.await,
    }
}

/// Runs blocking work for the client of this task on a thread for such work. The work completes even if this
/// future is dropped.
pub async fn blocking_for_client<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, BlockingError> {
    let (address, span) = (client_address(), Span::current());
    let work = move || match address {
        Some(address) => CLIENT_ADDRESS.sync_scope(address, work),
        None => work(),
    };
    blocking(move || span.in_scope(work)).await
}

/// Options of the audit log.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// The file, to which lines are appended.
    pub file: PathBuf,
    /// `true` if the texts of prompts are recorded, too.
    pub prompts: bool,
}

/// Checks that the audit log can be written, before the server starts.
pub fn check(file: &Path) -> io::Result<()> {
    open(file).map(drop)
}

/// A session, as records name the session.
#[derive(Clone, Copy)]
pub struct AuditedSession<'a> {
    /// The session's own id.
    pub id: &'a str,
    /// Id by which clients know the session.
    pub context: &'a str,
}

/// A caller that acts in a session.
#[derive(Clone, Copy)]
pub struct SessionCaller<'a> {
    /// Principal that the caller is.
    pub principal: &'a Principal,
    /// Name of the caller's client.
    pub origin: &'a Origin,
    /// The session.
    pub session: AuditedSession<'a>,
}

/// The audit log; it records nothing if the operator wants none.
pub struct Audit(Option<Writer>);

struct Writer {
    prompts: bool,
    records: Mutex<Option<mpsc::Sender<Value>>>,
    lost: AtomicU64,
    writing: Mutex<Option<JoinHandle<()>>>,
}

impl Audit {
    /// Starts to write. Must be called in a Tokio runtime.
    pub fn begin(options: Option<AuditOptions>) -> Self {
        Self(options.map(|AuditOptions { file, prompts }| {
            let (sender, records) = mpsc::channel(MAX_WAITING_RECORDS);
            Writer {
                prompts,
                records: Mutex::new(Some(sender)),
                lost: AtomicU64::new(0),
                writing: Mutex::new(Some(tokio::spawn(write(file, records)))),
            }
        }))
    }

    /// Records that a caller was refused something, with the reason.
    pub fn denied(&self, id: Option<&PrincipalId>, what: &str, why: &str) {
        self.record("denied", |record| {
            record["principal"] = json!(id.map(|id| &id.name));
            record["tenant"] = json!(id.map(|id| &id.tenant));
            record["what"] = json!(what);
            record["why"] = json!(why);
        });
    }

    /// Records that a caller was refused something in a session, with the reason.
    pub fn denied_in(
        &self,
        principal: &Principal,
        session: AuditedSession<'_>,
        what: &str,
        why: &str,
    ) {
        self.record("denied", |record| {
            add_session(record, principal, session);
            record["what"] = json!(what);
            record["why"] = json!(why);
        });
    }

    /// Records that a session was begun in a directory.
    pub fn begun(
        &self,
        principal: &Principal,
        session: AuditedSession<'_>,
        directory: Option<&Path>,
    ) {
        self.record("session", |record| {
            add_session(record, principal, session);
            record["directory"] = json!(directory.map(|it| it.display().to_string()));
        });
    }

    /// Records an act of a caller. `add` adds fields to the record.
    pub fn act(&self, event: &str, by: SessionCaller<'_>, add: impl FnOnce(&mut Value)) {
        self.record(event, |record| {
            add_session(record, by.principal, by.session);
            record["client"] = json!(by.origin.to_string());
            add(record);
        });
    }

    /// Returns a prompt's text if it is to be recorded. Commands that share the session are always recorded.
    pub fn text(&self, prompt: &[PromptPart]) -> Option<String> {
        let with_text = self.0.as_ref()?.prompts;
        Some(prompt_text(prompt)).filter(|text| with_text || is_share(text))
    }

    /// Records a prompt, with its text if given.
    pub fn prompted(&self, by: SessionCaller<'_>, turn: TurnId, text: Option<String>) {
        self.act("prompt", by, |record| {
            record["turn"] = json!(turn.0);
            if let Some(text) = text {
                record["text"] = json!(text);
            }
        });
    }

    /// Records the answer to a question about a call, and the decision. `started`: the beginning of the call, if known.
    pub fn answered(
        &self,
        by: SessionCaller<'_>,
        call: &str,
        started: Option<&CallStarted>,
        answer: &Answer,
    ) {
        self.act("answer", by, |record| {
            record["call"] = json!(call);
            record["tool"] = json!(started.map_or("", |it| &it.call.name));
            record["label"] = json!(started.map_or("", |it| &it.summary.label));
            record["decision"] = json!(answer.decision().label());
        });
    }

    fn record(&self, event: &str, add: impl FnOnce(&mut Value)) {
        let Some(writer) = &self.0 else { return };
        let at = format!("{:.3}", jiff::Timestamp::now());
        let mut record = json!({ "at": at, "event": event });
        if let Some(address) = client_address() {
            record["address"] = json!(address);
        }
        add(&mut record);
        let lost = writer.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            record["lost_before"] = json!(lost);
        }
        let records = writer.records.lock();
        let sent = records.as_ref().is_some_and(|records| records.try_send(record).is_ok());
        if !sent {
            writer.lost.fetch_add(lost + 1, Ordering::Relaxed);
            if lost == 0 {
                tracing::error!("the audit log loses records: its disk is too slow");
            }
        }
    }

    /// Waits until all records are written. Records that come later are lost.
    pub async fn finish(&self) {
        let Some(writer) = &self.0 else { return };
        drop(writer.records.lock().take());
        let writing = writer.writing.lock().take();
        if let Some(writing) = writing {
            // A writer that has panicked writes nothing more.
            let _ = writing.await;
        }
    }
}

fn add_session(record: &mut Value, principal: &Principal, session: AuditedSession<'_>) {
    record["principal"] = json!(principal.name());
    record["tenant"] = json!(principal.id().map(|id| &id.tenant));
    record["session"] = json!(session.id);
    record["context"] = json!(session.context);
}

/// Writes records until no more come. Records that cannot be written are lost, and their number is recorded
/// later.
async fn write(file: PathBuf, mut records: mpsc::Receiver<Value>) {
    let (mut batch, mut lost) = (Vec::new(), 0);
    while records.recv_many(&mut batch, MAX_BATCH_RECORDS).await > 0 {
        let mut lines = String::new();
        if lost > 0
            && let Some(first) = batch.first_mut()
        {
            first["lost_before"] = json!(lost);
        }
        for record in &batch {
            lines.push_str(&record.to_string());
            lines.push('\n');
        }
        let path = file.clone();
        let written = blocking(move || {
            // The file is opened for each write, so that a rotated file is replaced by a new one.
            open(&path)?.write_all(lines.as_bytes())
        });
        match written.await.map_err(io::Error::other).and_then(|written| written) {
            Ok(()) => lost = 0,
            Err(err) => {
                lost += batch.len() as u64;
                let file = file.display();
                tracing::error!(
                    "the audit log {file} cannot be written: {err}; {lost} records lost"
                );
            }
        }
        batch.clear();
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}
