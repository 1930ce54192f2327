//! A session whose events a test makes happen.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::json;
use tandem_agent::session::{
    Event, Log, Origin, Parts, ResultContent, Session, Storage, ToolOutcome,
};
use tandem_host::ToolKind;
use tandem_host::scratch::Scratch;
use tandem_model::{Call, Chunk, Error, Finish, Model, Prompt};
use tokio::sync::Notify;

use super::{Case, first_call};
use crate::fakes::{Fake, other, parts, text, until};

/// Notes before and after the event.
pub(super) const BEFORE: &str = "mark-before";
pub(super) const AFTER: &str = "mark-after";

/// A model that is silent until it is released, and then calls a tool.
struct Silent(Arc<Notify>);

#[async_trait]
impl Model for Silent {
    fn id(&self) -> &'static str {
        "silent"
    }

    fn ready(&self) -> Result<(), Error> {
        Ok(())
    }

    fn input_limit(&self) -> Option<u64> {
        Some(1_000_000)
    }

    fn stream(&self, _: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        let released = Arc::clone(&self.0);
        let call = Call { id: "c1".to_owned(), name: "t".to_owned(), args: json!({}) };
        let called = async move {
            released.notified().await;
            stream::iter([Ok(Chunk::Call(call)), Ok(Chunk::Finish(Finish::default()))])
        };
        stream::once(called).flatten().boxed()
    }

    fn count(&self, _: Prompt) -> BoxFuture<'static, u64> {
        Box::pin(std::future::ready(1))
    }
}

/// A session, and the reader of its log.
pub(super) struct Stage {
    pub(super) session: Arc<Session>,
    log: Log,
    release: Arc<Notify>,
}

impl Stage {
    pub(super) fn new() -> Self {
        let log = Log::new(Arc::new(Scratch::new(None)), usize::MAX);
        let release = Arc::<Notify>::default();
        let parts = parts(Arc::new(Silent(Arc::clone(&release))));
        let storage = Storage::InMemory(log.clone());
        let tools = vec![Arc::new(Fake::new("t", ToolKind::Other, other())) as _];
        let session = Session::new(Parts { storage, tools, ..parts });
        Self { session, log, release }
    }

    /// Begins a turn that the front end has not begun.
    pub(super) fn begin_elsewhere(&self) {
        self.session.prompt(text("go"), Origin::Terminal);
    }

    /// Waits for the turn, and appends the events that must come before the case's event.
    pub(super) async fn prepare(&self, case: &Case) {
        let mut log = self.session.events(0);
        until(&mut log, |event| matches!(event, Event::TurnStarted { .. })).await;
        match &case.event {
            Event::CallFinished { outcome: ToolOutcome::Done(output), .. }
                if matches!(output.shown, Some(ResultContent::Todos(_))) =>
            {
                self.start_call("write_todos");
            }
            Event::CallProgress { .. } | Event::CallFinished { .. } => self.start_call("touch"),
            Event::QuestionClosed { .. } => self.ask().await,
            Event::Retry(_) | Event::TurnResumed { .. } | Event::TurnFinished { .. } => {
                self.happen(Event::Text("half".to_owned()));
            }
            _ => {}
        }
    }

    /// Appends the event, between two notes.
    pub(super) async fn act(&self, case: &Case) {
        self.happen(Event::Notice(BEFORE.to_owned()));
        match &case.event {
            // The session must wait for the answer, or the front ends would not show a question.
            Event::CallStarted(started) if started.question.is_some() => self.ask().await,
            event => self.happen(event.clone()),
        }
        self.happen(Event::Notice(AFTER.to_owned()));
    }

    fn start_call(&self, name: &str) {
        let mut started = first_call();
        name.clone_into(&mut started.call.name);
        self.happen(Event::CallStarted(Arc::new(started)));
    }

    /// Makes the model call a tool that is asked about.
    async fn ask(&self) {
        let mut log = self.session.events(self.session.position());
        self.release.notify_one();
        until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
    }

    fn happen(&self, event: Event) {
        self.log.append(event);
    }
}
