//! One conversation with an agent: messages, and the updates after each, followed until the agent has answered or
//! waits. A lost connection does not end the conversation: the task is then followed again.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::agent::Agent;
use super::card::CheckedCard;
use super::http::{AgentClient, Answer, RequestFailure, ResultStream};
use super::outgoing::{CallParams, Destination, OutgoingContent};
use super::progress::ProgressDisplay;
use super::remote_task::RemoteTask;
use tandem_net::Backoff;
use tandem_wire::a2a::{Method, StreamEvent, error};
use tandem_wire::jsonrpc::Error;

/// Maximum number of failed attempts in a row to follow a task again.
const MAX_RETRIES: u32 = 6;

/// Longest wait between two such attempts, and between two requests for a task that sends no events.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(8);

/// Maximum time for an agent to confirm a cancel.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Codes of JSON-RPC and A2A for a method that does not exist or is not supported.
const NOT_SUPPORTED: [i64; 2] = [Error::METHOD_NOT_FOUND, error::UNSUPPORTED_OPERATION];

/// A conversation with an agent.
pub(super) struct Exchange {
    agent: Arc<Agent>,
    card: Arc<CheckedCard>,
    /// State of the task, folded from all updates so far.
    pub(super) task: Arc<Mutex<RemoteTask>>,
    /// Id of the task; `None` until the agent has named it.
    pub(super) id: watch::Sender<Option<String>>,
    progress: ProgressDisplay,
    /// Number of events so far.
    events: usize,
    /// `true` if the task is polled, because the agent sends no events.
    polls: bool,
    /// Answer to the last poll.
    polled: Option<StreamEvent>,
}

impl Exchange {
    pub(super) fn new(
        agent: &Arc<Agent>,
        card: &Arc<CheckedCard>,
        progress: ProgressDisplay,
    ) -> Self {
        Self {
            agent: Arc::clone(agent),
            card: Arc::clone(card),
            task: Arc::new(Mutex::new(RemoteTask::new(agent.limits.answer_bytes))),
            id: watch::Sender::default(),
            progress,
            events: 0,
            polls: !card.streams,
            polled: None,
        }
    }

    fn client(&self) -> Result<&AgentClient, RequestFailure> {
        self.agent.client().map_err(RequestFailure::Odd)
    }

    /// Sends a message, and follows the task until the agent has answered or waits.
    pub(super) async fn send(
        &mut self,
        content: &OutgoingContent,
        to: &Destination,
    ) -> Result<(), RequestFailure> {
        // The parameters are made once: if the message is sent twice, both have the same id.
        let params = content.params(to);
        let method = if self.polls { Method::Send } else { Method::Stream };
        let mut answer = self.client()?.call(&self.card, method, &params, None).await;
        if method == Method::Stream && answer.as_ref().is_err_and(is_not_supported) {
            self.polls = true;
            answer = self.client()?.call(&self.card, Method::Send, &params, None).await;
        }
        match answer? {
            Answer::Result(result) => {
                if result.is_none() {
                    let why = "its answer is neither a task nor a message";
                    return Err(RequestFailure::Odd(why.to_owned()));
                }
                self.apply_update(result.as_ref());
            }
            Answer::Stream(stream) => match self.read(*stream, false).await {
                // A stream that was lost, or has ended too early, is followed again below.
                Err(RequestFailure::Connection(_)) | Ok(()) => {}
                Err(failure) => return Err(failure),
            },
        }
        self.follow().await
    }

    /// Follows a task until the agent has answered or waits. Each round waits, then subscribes to the events or polls
    /// the task:
    ///
    /// - Waits grow with failures and with rounds that bring no news.
    /// - Failures of the connection or of the server are retried, others end the conversation.
    /// - A stream that brings no events for several rounds is given up for polling.
    /// - An agent that brings no news for the maximum silence ends the conversation.
    pub(super) async fn follow(&mut self) -> Result<(), RequestFailure> {
        let backoff = Backoff::doubling(self.agent.limits.again, MAX_RETRY_DELAY);
        let (mut failures, mut idle, mut since) = (0, 0, Instant::now());
        let result = loop {
            if self.task.lock().is_settled() {
                break Ok(());
            }
            if self.task.lock().id.is_none() {
                let why = "the connection was lost before the agent named its task; the agent may still be working";
                break Err(RequestFailure::Connection(why.to_owned()));
            }
            sleep(backoff.delay(failures.max(idle) + 1)).await;
            let (events, polled) = (self.events, self.polled.clone());
            let attempt = if self.polls { self.poll().await } else { self.subscribe().await };
            if self.events > events || self.polled != polled {
                (idle, since) = (0, Instant::now());
            } else {
                idle += 1;
            }
            match attempt {
                Ok(()) => failures = 0,
                Err(failure) => {
                    failures += 1;
                    let passing = matches!(
                        failure,
                        RequestFailure::Connection(_) | RequestFailure::Status(500.., _)
                    );
                    if !passing || failures >= MAX_RETRIES {
                        break Err(failure);
                    }
                }
            }
            // A stream that ends again and again without an event is useless, so the task is polled from now on.
            self.polls |= idle >= MAX_RETRIES;
            let silence = self.agent.idle();
            if since.elapsed() > silence {
                break Err(RequestFailure::Silent(silence));
            }
        };
        self.show();
        result
    }

    /// Follows the events of the task after the last event that was received.
    async fn subscribe(&mut self) -> Result<(), RequestFailure> {
        match self.subscription().await {
            Ok(Answer::Stream(stream)) => self.read(*stream, true).await,
            Ok(Answer::Result(result)) => {
                self.apply_update(result.as_ref());
                Ok(())
            }
            // The task has ended meanwhile, or the agent does not support the call.
            Err(RequestFailure::Rpc { .. } | RequestFailure::Status(..)) => self.poll().await,
            Err(failure) => Err(failure),
        }
    }

    async fn subscription(&self) -> Result<Answer, RequestFailure> {
        let (id, after) = {
            let task = self.task.lock();
            (task.id.clone().unwrap_or_default(), task.last_event.clone())
        };
        let params = CallParams::of_task(&id, after.as_deref());
        self.client()?.call(&self.card, Method::Subscribe, &params, after.as_deref()).await
    }

    /// Requests the present state of the task.
    async fn poll(&mut self) -> Result<(), RequestFailure> {
        let id = self.task.lock().id.clone().unwrap_or_default();
        let params = CallParams::of_task(&id, None);
        let call = self.client()?.call(&self.card, Method::Get, &params, None);
        if let Answer::Result(result) = call.await? {
            self.apply_update(result.as_ref());
            self.polled = result;
        }
        Ok(())
    }

    /// Reads a stream until it ends, or the agent has answered or waits. `again`: the stream is a new subscription, and
    /// begins with the present state of the task. Else it begins with the state before the message, which may be an old
    /// end.
    async fn read(&mut self, mut stream: ResultStream, again: bool) -> Result<(), RequestFailure> {
        loop {
            let due = self.progress.due();
            let item = tokio::select! {
                item = stream.next() => item?,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.show();
                    continue;
                }
            };
            let Some(item) = item else { return Ok(()) };
            self.events += 1;
            let most = self.agent.limits.events;
            if self.events > most {
                return Err(RequestFailure::Odd(format!("it sent more than {most} events")));
            }
            let is_snapshot = matches!(item.update, Some(StreamEvent::Task(_)));
            let ends = match &item.update {
                Some(StreamEvent::Task(task)) => again && task.status.state.is_settled(),
                Some(StreamEvent::Status(update)) => {
                    update.is_final || update.status.state.is_settled()
                }
                Some(StreamEvent::Message(_)) => true,
                Some(StreamEvent::Artifact(_)) | None => false,
            };
            self.apply_update(item.update.as_ref());
            let mut task = self.task.lock();
            // Missed events follow this snapshot, so the stream is read on even if the task has ended. If the agent has
            // open questions, they have to be answered first.
            let resumes = is_snapshot && self.card.develops && task.last_event.is_some();
            let ends = ends && (!resumes || task.has_questions());
            if item.id.is_some() {
                task.last_event = item.id;
            }
            if ends {
                return Ok(());
            }
        }
    }

    /// Applies an update. An update of an unknown kind changes nothing.
    fn apply_update(&mut self, update: Option<&StreamEvent>) {
        let Some(update) = update else { return };
        let id = {
            let mut task = self.task.lock();
            task.apply(update);
            task.id.clone()
        };
        self.id.send_if_modified(|known| {
            let other = *known != id;
            *known = id;
            other
        });
        let task = &self.task;
        self.progress.changed(|| task.lock().progress());
    }

    fn show(&mut self) {
        let task = &self.task;
        self.progress.show(|| task.lock().progress());
    }

    /// Waits until a question about a call has been answered at the agent, by another client. Waits for ever if the
    /// agent does not report such answers.
    pub(super) async fn answered_elsewhere(&self, call: &str) {
        if self.polls || !self.card.develops {
            return pending().await;
        }
        let Ok(Answer::Stream(mut stream)) = self.subscription().await else {
            return pending().await;
        };
        let mut task = RemoteTask::new(0);
        let mut asked = false;
        while let Ok(Some(item)) = stream.next().await {
            let Some(update) = item.update else { continue };
            task.apply(&update);
            if task.asks_about(call) {
                asked = true;
            } else if asked || matches!(update, StreamEvent::Task(_)) {
                return;
            }
        }
        pending::<()>().await;
    }

    /// Returns the handle that cancels the task at the agent, as soon as its id is known.
    pub(super) fn cancelling(&self) -> Cancelling {
        Cancelling {
            agent: Arc::clone(&self.agent),
            card: Arc::clone(&self.card),
            id: self.id.subscribe(),
        }
    }
}

/// Handle that cancels a task at the agent.
pub(super) struct Cancelling {
    agent: Arc<Agent>,
    card: Arc<CheckedCard>,
    id: watch::Receiver<Option<String>>,
}

impl Cancelling {
    /// Waits until the id of the task is known.
    pub(super) async fn known(&mut self) {
        let _ = self.id.wait_for(Option::is_some).await;
    }

    /// Cancels the task, if its id is known, in the background: the caller does not wait for the agent.
    pub(super) fn cancel(self) {
        let Some(id) = self.id.borrow().clone() else { return };
        let Self { agent, card, .. } = self;
        tokio::spawn(async move {
            let Ok(client) = agent.client() else { return };
            let params = CallParams::of_task(&id, None);
            let call = client.call(&card, Method::Cancel, &params, None);
            if let Ok(Err(why)) = timeout(CANCEL_TIMEOUT, call).await {
                tracing::info!(agent = agent.config.name, "not cancelled there: {why}");
            }
        });
    }
}

fn is_not_supported(failure: &RequestFailure) -> bool {
    matches!(failure, RequestFailure::Rpc { code, .. } if NOT_SUPPORTED.contains(code))
}
