//! The methods of JSON-RPC in both versions of A2A, each under its names in both.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use tokio::task::unconstrained;

use super::audit::blocking_for_client;
use super::context::{SessionContext, UnknownContext};
use super::contexts::visible::VisibleContexts;
use super::dialect::{Dialect, json as to_json};
use super::fields;
use super::follow::Follow;
use super::frames::StreamEnd;
use super::messages::{MessageEffect, MessageKey, MessageSender};
use super::orders::OrderedCall;
use super::read::{Configuration, MessageForm, ReceivedMessage, Sent, SentContent};
use super::requests::{
    self, Execute, GetTask, ListTasks, PushName, SessionId, SessionName, Subscribe, push_task,
    set_push, task_id,
};
use super::server::{A2aServer, CallOrigin};
use super::subscription::{Span, Streaming};
use super::turns::{MessageTarget, PromptReply};
use super::{card, commands, list, monitoring, turns};
use tandem_agent::session::{Event, Mode, Session, TurnId, TurnRecord};
use tandem_agent::sessions::Leased;
use tandem_serve::principals::{ANSWER, DRIVE, SessionRight, WATCH};
use tandem_wire::a2a::{Task, TaskState, error};
use tandem_wire::jsonrpc::Error;

/// A method, independent of the names that the versions give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Send,
    Stream,
    Get,
    Cancel,
    Subscribe,
    List,
    SetPush,
    GetPush,
    ListPush,
    DeletePush,
    ExtendedCard,
    Commands,
    Execute,
}

impl Method {
    /// Returns `true` if only the node that owns the session can carry the method out. Messages are not among
    /// them: [`A2aServer::stream`] itself looks for the owner.
    fn needs_owner(self) -> bool {
        match self {
            Self::Cancel
            | Self::SetPush
            | Self::GetPush
            | Self::ListPush
            | Self::DeletePush
            | Self::Commands
            | Self::Execute => true,
            Self::Send
            | Self::Stream
            | Self::Get
            | Self::Subscribe
            | Self::List
            | Self::ExtendedCard => false,
        }
    }
}

/// Returns the method and the version of a method name.
pub(super) fn named(name: &str) -> Option<(Method, Dialect)> {
    use Dialect::{V1, V03};
    Some(match name {
        "message/send" => (Method::Send, V03),
        "message/stream" => (Method::Stream, V03),
        "tasks/get" => (Method::Get, V03),
        "tasks/cancel" => (Method::Cancel, V03),
        "tasks/resubscribe" => (Method::Subscribe, V03),
        "tasks/list" => (Method::List, V03),
        "tasks/pushNotificationConfig/set" => (Method::SetPush, V03),
        "tasks/pushNotificationConfig/get" => (Method::GetPush, V03),
        "tasks/pushNotificationConfig/list" => (Method::ListPush, V03),
        "tasks/pushNotificationConfig/delete" => (Method::DeletePush, V03),
        "agent/getAuthenticatedExtendedCard" => (Method::ExtendedCard, V03),
        "commands/get" => (Method::Commands, V03),
        "command/execute" => (Method::Execute, V03),
        "SendMessage" => (Method::Send, V1),
        "SendStreamingMessage" => (Method::Stream, V1),
        "GetTask" => (Method::Get, V1),
        "CancelTask" => (Method::Cancel, V1),
        "SubscribeToTask" => (Method::Subscribe, V1),
        "ListTasks" => (Method::List, V1),
        "CreateTaskPushNotificationConfig" => (Method::SetPush, V1),
        "GetTaskPushNotificationConfig" => (Method::GetPush, V1),
        "ListTaskPushNotificationConfigs" => (Method::ListPush, V1),
        "DeleteTaskPushNotificationConfig" => (Method::DeletePush, V1),
        "GetExtendedAgentCard" => (Method::ExtendedCard, V1),
        _ => return None,
    })
}

/// Reply to a call.
pub(super) enum Reply {
    /// A single result.
    Value(Bytes),
    /// A stream of results.
    Stream(Streaming),
}

impl A2aServer {
    /// Carries out a call, here or at the node that owns the session.
    pub(super) async fn call(
        self: &Arc<Self>,
        name: &str,
        params: Value,
        caller: &CallOrigin,
    ) -> Result<Reply, Error> {
        let Some((method, dialect)) = named(name) else {
            let message = format!("Method not found: {name}");
            return Err(Error::new(Error::METHOD_NOT_FOUND, message));
        };
        monitoring::note_method(name);
        let params = Value::Object(fields::object(params)?);
        let loaded = match method {
            // Messages name their session in other fields, and `list` reads the sessions that it needs.
            Method::Send | Method::Stream | Method::List | Method::ExtendedCard => Ok(None),
            _ => self.load(&caller.principal, &requests::named(&params)).await,
        };
        let open = loaded.map_err(|error| dialect.error(error))?;
        if let Some(followed) = open.as_ref().and_then(|context| context.followed())
            && method.needs_owner()
        {
            let call = OrderedCall::Method { name: name.to_owned(), params };
            return self.order(followed, call, caller).await?.value().map(Reply::Value);
        }
        if let Some(context) = open.as_ref().filter(|_| method.needs_owner()) {
            // An earlier message for the session may still be writing its files; this call must come after
            // it.
            drop(self.messages.beginning.lock(&context.id).await);
        }
        let reply = self.carry_out_here(method, dialect, params, caller).await;
        reply.map_err(|error| dialect.error(error))
    }

    /// Carries out a call that needs no other node.
    async fn carry_out_here(
        self: &Arc<Self>,
        method: Method,
        dialect: Dialect,
        params: Value,
        caller: &CallOrigin,
    ) -> Result<Reply, Error> {
        match method {
            Method::Send => {
                let message = self.received(MessageForm::Parameters, params)?;
                self.send(message, caller, dialect).await
            }
            Method::Stream => {
                let message = self.received(MessageForm::Parameters, params)?;
                self.stream(message, caller, dialect).await.map(Reply::Stream)
            }
            Method::Get => self.get(&GetTask::read(&params)?, caller, dialect).await,
            Method::Cancel => self.cancel(&task_id(&params)?, caller, dialect).await,
            Method::Subscribe => {
                self.subscribe(&Subscribe::read(&params)?, caller, dialect).await.map(Reply::Stream)
            }
            Method::List => {
                let request = ListTasks::read(&params)?;
                let contexts = self.contexts.of(&caller.principal);
                contexts.all_caught_up().await;
                list::tasks(contexts, &request, dialect).await.map(|page| value(&page))
            }
            Method::SetPush => {
                self.set_push(&set_push(&params)?, caller, dialect).await.map(Reply::Value)
            }
            Method::GetPush => {
                self.get_push(&PushName::read(&params)?, caller, dialect).map(Reply::Value)
            }
            Method::ListPush => {
                self.list_push(&push_task(&params)?, caller, dialect).map(Reply::Value)
            }
            Method::DeletePush => self
                .delete_push(&PushName::read(&params)?, caller)
                .await
                .map(|()| value(&Value::Null)),
            Method::Commands => {
                let known = self.known(&SessionName::read(&params)?, &caller.principal);
                let session = known.as_ref().and_then(|context| context.here());
                Ok(value(&commands::all(&self.commands, session)))
            }
            Method::Execute => {
                self.execute(&Execute::read(&params)?, caller).await.map(|found| value(&found))
            }
            Method::ExtendedCard => self.extended_card(dialect),
        }
    }

    /// Begins the turn of a message, or gives its answers, and returns the stream of the effects as soon as the
    /// beginning is durable. A message that was sent before begins nothing new: the stream of its first effect is
    /// returned.
    ///
    /// Steps, repeated once if another node turns out to have the session:
    ///
    /// 1. Recognize a message that names no session and was sent before.
    /// 2. Load the session. If another node owns it, leave the message for that node.
    /// 3. Begin the turn of the message, or give its answers, after earlier messages for the session.
    /// 4. Wait until the beginning is durable.
    pub(super) async fn stream(
        self: &Arc<Self>,
        message: ReceivedMessage,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Streaming, Error> {
        let ReceivedMessage { form, mut params, mut sent } = message;
        let text_only = sent.configuration.text_only;
        // With an id, the message can be handed in a second time and still begins nothing twice.
        let mut may_come_again = sent.id.is_some() && caller.order.is_none();
        loop {
            let visible = self.contexts.of(&caller.principal);
            // An order names the session only because the other node has recognized the message, not because
            // the client did.
            let is_known = sent.names_session() && caller.order.is_none();
            let (sender, window) = (caller.sender(), self.options.retry);
            visible.recognize(&mut params, &mut sent, &sender, window).await?;
            let named = SessionId { task: sent.task.as_deref(), context: sent.context.as_deref() };
            let open = self.load(&caller.principal, &named).await?;
            if let Some(context) = open.as_ref().filter(|_| is_known) {
                context.note_known(caller.sender(), None);
            }
            if let Some(context) = &open
                && let Some(followed) = context.followed()
            {
                let dialect_name = dialect.name().to_owned();
                let call = OrderedCall::Message { form, params, dialect: dialect_name };
                let (span, unknown) = self.order(followed, call, caller).await?.stream()?;
                let (context, reader) = (context.clone(), caller.principal.clone());
                return Ok(Streaming { context, span, dialect, unknown, reader });
            }
            let id = open.as_ref().or_else(|| self.contexts.shared()).map(|it| it.id.clone());
            let named = sent.context.clone();
            let mut begun = self.begin_in_order(id, sent, caller, dialect).await?;
            if let Some(sender) = foreign_sender(begun.unknown, named.as_deref(), caller) {
                begun.context.note_known(sender, Some(begun.span.turn));
            }
            begun.span.text_only = text_only;
            let begun = begun.promised().await;
            begun.context.check_saved()?;
            if !may_come_again || !begun.context.has_moved() {
                return Ok(begun);
            }
            // Another node began the session at the same moment, or has just taken it over: hand the message
            // to that node.
            may_come_again = false;
            ReceivedMessage { params, sent, .. } = self.received(form, params)?;
        }
    }

    /// Carries out a message, after the earlier messages for the same session. `id`: id of the session, if
    /// there is one already. A message with files is carried out off the runtime's thread, since its files
    /// are written then.
    async fn begin_in_order(
        self: &Arc<Self>,
        id: Option<String>,
        sent: Sent,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Streaming, Error> {
        let order = match id.as_ref().or(sent.context.as_ref()) {
            // Without `unconstrained`, a message whose task has used up its budget would yield here, and the
            // next message would overtake it.
            Some(id) => Some(unconstrained(self.messages.beginning.lock(id)).await),
            None => None,
        };
        if sent.files.is_empty() {
            return self.begin(sent, caller, dialect);
        }
        let (server, caller) = (Arc::clone(self), caller.clone());
        let begin = move || {
            let _order = order;
            server.begin(sent, &caller, dialect)
        };
        blocking_for_client(begin).await.map_err(Error::internal)?
    }

    /// Carries out a message, unless it was sent before. Does not await, so that the message is carried out
    /// as a whole even if the client disconnects.
    fn begin(&self, sent: Sent, caller: &CallOrigin, dialect: Dialect) -> Result<Streaming, Error> {
        let Some(id) = sent.id.clone() else {
            return self.carry_out(sent, caller, dialect).map(|(streaming, _)| streaming);
        };
        let scope = match (&sent.task, &sent.context, &sent.begins) {
            (Some(task), ..) => self.contexts.of(&caller.principal).task(task, WATCH)?.0.id.clone(),
            // In 0.3, a message may name another context than the shared session's. The message is for the shared
            // session nevertheless.
            (None, Some(id), _) => self.contexts.shared().map_or(id, |shared| &shared.id).clone(),
            (None, None, begins) => begins.clone().unwrap_or_default(),
        };
        let content = sent.content.clone();
        let retry = (!sent.names_session()).then_some(self.options.retry);
        let key = MessageKey { sender: &caller.sender(), scope: &scope, id: &id, retry };
        self.messages.once(&key, (&content, &caller.principal), dialect, || {
            let (streaming, began) = self.carry_out(sent, caller, dialect)?;
            // A message that was not taken has no effect to remember, so that the client may send it again.
            let effect = (!streaming.span.asked_back).then(|| MessageEffect::of(&streaming, began));
            Ok((streaming, effect))
        })
    }

    /// Carries out a message. Also returns `true` if the message began a turn, and `false` if it answered a
    /// question.
    ///
    /// Steps:
    ///
    /// 1. Refuse an unusable push configuration, and a new prompt while the server is ending.
    /// 2. Find or create the context.
    /// 3. Decide if a text is a prompt, or an answer to an open question.
    /// 4. Check the sender's right, give the answers or begin the turn, and record the act in the audit log.
    /// 5. Start the push notifications that the message asks for.
    fn carry_out(
        &self,
        sent: Sent,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<(Streaming, bool), Error> {
        let keys = sent.keys(self.contexts.shared().is_some());
        let retry = (!sent.names_session()).then(|| (caller.sender(), self.options.retry));
        let push = &sent.configuration;
        self.check_push(push)?;
        if matches!(sent.content, SentContent::Prompt(_)) && sent.task.is_none() {
            self.check_open()?;
        }
        let named = sent.context.as_deref().filter(|_| sent.task.is_none());
        let contexts = self.contexts.of(&caller.principal);
        let unknown = contexts.unknown(named);
        let (context, turn) = self.addressed(&sent, contexts, dialect)?;
        if let Some(config) = &push.push {
            contexts.check(&context, SessionRight::Own)?;
            Self::check_room(&context, config, dialect)?;
        }
        let reader = caller.principal.clone();
        let may_answer = may_answer(&context, &sent, unknown, caller);
        let said = match sent.content {
            // Clients that know only text answer questions in words.
            SentContent::Prompt(prompt) => {
                match turns::read_reply(&context, turn, &prompt, may_answer)? {
                    PromptReply::Prompt => SentContent::Prompt(prompt),
                    PromptReply::Answer(answer) => SentContent::Answers(vec![answer]),
                    PromptReply::Unanswered(span) => {
                        contexts.check(&context, DRIVE)?;
                        return Ok((Streaming { context, span, dialect, unknown, reader }, false));
                    }
                }
            }
            answers @ SentContent::Answers(_) => answers,
        };
        let by = (&caller.principal, &caller.origin);
        match said {
            SentContent::Answers(answers) => {
                contexts.check(&context, ANSWER)?;
                context.check_saved()?;
                let span = turns::answer(&context, &answers, by, &self.audit)?;
                self.push_with(&context, &span, push, dialect)?;
                Ok((Streaming { context, span, dialect, unknown: None, reader }, false))
            }
            SentContent::Prompt(prompt) => {
                contexts.check(&context, DRIVE)?;
                self.check_open()?;
                if let Some(span) = turns::begun_before(&context, &keys, &prompt, retry)? {
                    return Ok((Streaming { context, span, dialect, unknown, reader }, true));
                }
                context.check_saved()?;
                let _room = contexts.check_turn(&context, &prompt)?;
                let text = self.audit.text(&prompt);
                let key = keys.into_iter().next();
                let target = MessageTarget { task: sent.task.is_some(), key };
                let prompt = turns::attach(context.session()?, prompt, &sent.files);
                let mut span = turns::begin(&context, prompt, &caller.origin, &target, dialect)?;
                let asks =
                    context.here().is_some_and(|session| session.modes().current() != Mode::Yolo);
                span.auto_execute_refused = sent.settings.auto_execute && asks;
                self.audit.prompted(by, &context, span.turn, text);
                self.push_with(&context, &span, push, dialect)?;
                Ok((Streaming { context, span, dialect, unknown, reader }, true))
            }
        }
    }

    async fn send(
        self: &Arc<Self>,
        message: ReceivedMessage,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Reply, Error> {
        let Configuration { history, at_once, text_only, .. } = message.sent.configuration;
        let streaming = self.stream(message, caller, dialect).await?;
        let (context, turn) = (streaming.context.clone(), streaming.span.turn);
        let unknown = streaming.unknown;
        let (asked_back, auto_execute_refused) =
            (streaming.span.asked_back, streaming.span.auto_execute_refused);
        if !at_once {
            streaming.subscribe().end().await;
        }
        context.check_own()?;
        let mut task = if asked_back && context.state(Some(turn)) == TaskState::InputRequired {
            context.task_asked_back(dialect, turn, history).await
        } else {
            of_turn(&context, turn, dialect, history).await
        };
        if text_only {
            task = task.in_text();
        }
        task.unknown_context = unknown;
        task.auto_execute_refused = auto_execute_refused;
        Ok(Reply::Value(dialect.first(&task)))
    }

    /// Returns the context that a message is for, and the turn if the message names the task of a single
    /// turn.
    fn addressed(
        &self,
        sent: &Sent,
        contexts: VisibleContexts<'_>,
        dialect: Dialect,
    ) -> Result<(Leased<SessionContext>, Option<TurnId>), Error> {
        let Some(id) = &sent.task else {
            // In 1.0, the server must use the id that a client names, or refuse it (section 3.4.1). In 0.3
            // the server chooses the ids, and its answer has the id that is valid.
            if dialect == Dialect::V1
                && let (Some(id), Some(shared)) = (&sent.context, self.contexts.shared())
                && *id != shared.id
            {
                return Err(error::invalid_params(format!(
                    "context {id} is not known, and this agent begins no other: leave `contextId` \
                     out, or send {}",
                    shared.id
                )));
            }
            // An answer needs an existing session; it must not begin one.
            if matches!(sent.content, SentContent::Answers(_)) {
                let context = contexts.find(sent.context.as_deref()).ok_or_else(|| {
                    error::invalid_params("an answer needs the `taskId` of the question")
                })?;
                return Ok((context, None));
            }
            let context = contexts.context(
                sent.context.as_deref(),
                sent.begins.as_deref(),
                &sent.settings,
            )?;
            return Ok((context, None));
        };
        let (context, turn) = contexts.task(id, WATCH)?;
        if sent.context.as_ref().is_some_and(|other| *other != context.id) {
            let message =
                format!("task {id} is not in context {}", sent.context.as_deref().unwrap_or(""));
            return Err(error::invalid_params(message));
        }
        if dialect == Dialect::V1 && turn.is_some() && context.state(turn).is_terminal() {
            let message = format!("task {id} has ended: send a message without a task id");
            return Err(Error::new(error::UNSUPPORTED_OPERATION, message));
        }
        Ok((context, turn))
    }

    async fn get(
        &self,
        request: &GetTask,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Reply, Error> {
        let (context, turn) = self.contexts.of(&caller.principal).task(&request.id, WATCH)?;
        Ok(value(&dialect.task(&context.task(turn, request.history).await)))
    }

    async fn cancel(
        &self,
        id: &str,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Reply, Error> {
        let (context, turn) = self.contexts.of(&caller.principal).task(id, DRIVE)?;
        self.audit.act("cancel", (&caller.principal, &caller.origin), &context, |_| {});
        context.note_known(caller.sender(), turn);
        let session = context.session()?;
        let ended = || {
            let message = format!("Task cannot be canceled: {id} has ended");
            Error::new(error::TASK_NOT_CANCELABLE, message)
        };
        match turn.or_else(|| session.turns().running()) {
            Some(running) if session.cancel(running) => {
                ending(session, running).await;
                context.check_own()?;
                if turn.is_none() {
                    // The cancellation is recorded so that the session's task cannot be cancelled a second time.
                    context.cancel_ended(session, running).await;
                }
            }
            Some(_) => return Err(ended()),
            None => {
                let last = context
                    .story(|story| story.projection().latest().map_or(TurnId(0), |turn| turn.id));
                if context.state(None) == TaskState::Canceled
                    || !context.cancel_ended(session, last).await
                {
                    return Err(ended());
                }
            }
        }
        Ok(value(&dialect.task(&context.task(turn, None).await)))
    }

    async fn subscribe(
        &self,
        request: &Subscribe,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Streaming, Error> {
        let id = &request.id;
        let (context, named) = self.contexts.of(&caller.principal).task(id, WATCH)?;
        if dialect == Dialect::V1 && context.state(named).is_terminal() {
            let message = format!("task {id} has ended: there is nothing to subscribe to");
            return Err(Error::new(error::UNSUPPORTED_OPERATION, message));
        }
        let seen = request.last_event.as_deref();
        let after = seen.or(caller.last_event.as_deref()).map(place).transpose()?;
        let turn = match (named.or_else(|| context.running()), after) {
            (None, Some(after)) => missed(&context, named, after).await,
            (turn, _) => turn,
        };
        let snapshot = context.standing(named).await;
        let described = Some(dialect.first(&snapshot));
        let queued = turn.and_then(|id| context.story(|story| Some(story.turn(id)?.queued.0)));
        let span = match (turn, queued) {
            (Some(turn), Some(queued)) => {
                // Events that the client has seen are not read again.
                let earlier = match (named, after) {
                    (None, Some(seen)) => earlier(&context, turn, seen),
                    _ => BTreeSet::new(),
                };
                let first = if earlier.is_empty() { queued } else { 0 };
                let from = after.map_or(queued, |(index, _)| first.max(index));
                let since = Span::since(&context, turn, from);
                Span { first: described, earlier, after, again: true, to_the_end: true, ..since }
            }
            // No turn runs: the current task is the whole stream.
            _ => Span { first: described, over: true, ..Span::begun(TurnId(0), 0, None) },
        };
        let reader = caller.principal.clone();
        Ok(Streaming { context, span, dialect, unknown: None, reader })
    }

    /// Returns the extended card, if clients have to show a token.
    fn extended_card(&self, dialect: Dialect) -> Result<Reply, Error> {
        if self.principals.are_asked() {
            return Ok(value(&card::card(self, dialect == Dialect::V1)));
        }
        // 1.0 (section 3.1.11) demands another error code for operations that the card does not offer.
        let code = match dialect {
            Dialect::V1 => error::UNSUPPORTED_OPERATION,
            _ => error::EXTENDED_CARD_NOT_CONFIGURED,
        };
        let message = "there is no extended card: this server knows its callers by no token";
        Err(Error::new(code, message))
    }

    /// Refuses a message whose push notifications could not be sent, before anything is begun.
    fn check_push(&self, configuration: &Configuration) -> Result<(), Error> {
        configuration.push.as_ref().map_or(Ok(()), |push| self.check_config(push).map(drop))
    }

    fn push_with(
        &self,
        context: &Arc<SessionContext>,
        span: &Span,
        configuration: &Configuration,
        dialect: Dialect,
    ) -> Result<(), Error> {
        let Some(push) = &configuration.push else { return Ok(()) };
        let turn = (dialect == Dialect::V1).then_some(span.turn);
        self.add_push(context, (turn, span.from), push, dialect).map(drop)
    }
}

/// Returns a predicate: `true` for a turn whose questions the text of a message may answer, because the
/// message names the session, or because its sender was told of the turn.
fn may_answer(
    context: &Arc<SessionContext>,
    sent: &Sent,
    unknown: Option<UnknownContext>,
    caller: &CallOrigin,
) -> impl Fn(TurnId) -> bool + use<> {
    let context = Arc::clone(context);
    let foreign = foreign_sender(unknown, sent.context.as_deref(), caller);
    let names_session = sent.names_session();
    move |turn| foreign.as_ref().map_or(names_session, |sender| context.is_known_to(sender, turn))
}

/// Returns the sender of a message in a shared session, if the message names another context than the
/// session's.
fn foreign_sender(
    unknown: Option<UnknownContext>,
    named: Option<&str>,
    caller: &CallOrigin,
) -> Option<MessageSender> {
    let named = named.filter(|_| unknown == Some(UnknownContext::Shared))?;
    Some(caller.sender().naming(named))
}

/// Waits until a turn has ended.
async fn ending(session: &Arc<Session>, turn: TurnId) {
    let mut log = session.events(session.position());
    while session.turns().is_pending(turn) {
        let event = tokio::select! {
            event = log.next() => event,
            () = session.abandoned() => return,
        };
        if matches!(&*event, Event::TurnFinished { turn: ended, .. } if *ended == turn) {
            break;
        }
    }
    session.synced().await;
}

/// Returns the current task that a message was for.
async fn of_turn(
    context: &SessionContext,
    turn: TurnId,
    dialect: Dialect,
    history: Option<usize>,
) -> Task {
    if dialect == Dialect::V1 {
        return context.task(Some(turn), history).await;
    }
    context.task_for(turn, history).await
}

/// Returns the turn whose end a client has missed since it saw the event `seen`: for the session's task
/// (0.3), the last turn; `None` if there is no such turn.
async fn missed(
    context: &Arc<SessionContext>,
    named: Option<TurnId>,
    seen: (usize, usize),
) -> Option<TurnId> {
    let (turn, end) = context.story(|story| {
        let turn = match named {
            Some(turn) => story.turn(turn),
            None => story.turns().rfind(|turn| !story.is_own_task(turn.id)),
        }?;
        Some((turn.id, turn.ended.as_ref()?.0))
    })?;
    let mut since = Follow::new(context, seen.0.max(end), Dialect::V03);
    while let Some(frame) = since.next_past().await
        && frame.index == end
    {
        if frame.turn == turn && frame.end == StreamEnd::Turn {
            return ((frame.index, frame.n) > seen).then_some(turn);
        }
    }
    None
}

/// Returns the turns of the session's task (0.3) before `turn` that had not ended when a client saw the event
/// `seen`.
fn earlier(context: &SessionContext, turn: TurnId, seen: (usize, usize)) -> BTreeSet<TurnId> {
    context.story(|story| {
        let ended_later = |it: &&TurnRecord| it.ended.as_ref().is_some_and(|it| it.0 >= seen.0);
        let turns = story.turns().filter(|it| it.id < turn && !story.is_own_task(it.id));
        turns.filter(ended_later).map(|it| it.id).collect()
    })
}

/// Parses an `eventId`: the index of a log entry, and the number of the frame made from it.
fn place(id: &str) -> Result<(usize, usize), Error> {
    let place =
        id.split_once('.').and_then(|(index, n)| Some((index.parse().ok()?, n.parse().ok()?)));
    place.ok_or_else(|| error::invalid_params(format!("`{id}` is no `eventId`")))
}

fn value(value: &impl Serialize) -> Reply {
    Reply::Value(to_json(value))
}
