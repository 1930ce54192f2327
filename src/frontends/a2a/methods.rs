//! The JSON-RPC methods of both versions, each under its names.

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
use tandem_serve::principals::{ANSWER, DRIVE, SessionRight, WATCH};
use tandem_wire::a2a::{Task, TaskState, error};
use tandem_wire::jsonrpc::Error;

/// A method, whatever it is called.
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
    /// Returns `true` if only the node that has the session carries the method out. Messages are looked at
    /// where they are read.
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

/// Returns the method and the version that a name stands for.
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

/// Result or results of a call.
pub(super) enum Reply {
    /// One result.
    Value(Bytes),
    /// One after the other.
    Stream(Streaming),
}

impl A2aServer {
    /// Carries out a call.
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
            // Messages name it elsewhere, and a list reads what it needs.
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
            // A message that came before may still have its files written.
            drop(self.messages.beginning.lock(&context.id).await);
        }
        let reply = self.carry_out_here(method, dialect, params, caller).await;
        reply.map_err(|error| dialect.error(error))
    }

    /// Carries out a call of a session that this node has, or of none.
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

    /// Begins what a message asks for, and gives all that comes of it, when that outlives the
    /// process. What was sent before has begun already.
    pub(super) async fn stream(
        self: &Arc<Self>,
        message: ReceivedMessage,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Streaming, Error> {
        let ReceivedMessage { form, mut params, mut sent } = message;
        let text_only = sent.configuration.text_only;
        // By its id, it begins nothing twice.
        let mut may_come_again = sent.id.is_some() && caller.order.is_none();
        loop {
            let visible = self.contexts.of(&caller.principal);
            // Another node that passes a call on names the session because it has recognized the message.
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
                let (context, reader) = (Arc::clone(context), caller.principal.clone());
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
            // Another node has begun the session at the same moment, or has just taken it over.
            may_come_again = false;
            ReceivedMessage { params, sent, .. } = self.received(form, params)?;
        }
    }

    /// Begins what a message asks for after the messages that came before for the same session. `id`: of the session,
    /// if there is one already. Files of the message are written off the runtime's thread.
    async fn begin_in_order(
        self: &Arc<Self>,
        id: Option<String>,
        sent: Sent,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Streaming, Error> {
        let order = match id.as_ref().or(sent.context.as_ref()) {
            // Unconstrained: a message that waited for its task's budget would be overtaken by the next one.
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

    /// Begins what a message asks for, unless it was sent before. Waits for nothing, so that it is
    /// done as a whole although the client may go.
    fn begin(&self, sent: Sent, caller: &CallOrigin, dialect: Dialect) -> Result<Streaming, Error> {
        let Some(id) = sent.id.clone() else {
            return self.carry_out(sent, caller, dialect).map(|(streaming, _)| streaming);
        };
        let scope = match (&sent.task, &sent.context, &sent.begins) {
            (Some(task), ..) => self.contexts.of(&caller.principal).task(task, WATCH)?.0.id.clone(),
            // In 0.3, clients of a shared session may name another context.
            (None, Some(id), _) => self.contexts.shared().map_or(id, |shared| &shared.id).clone(),
            (None, None, begins) => begins.clone().unwrap_or_default(),
        };
        let content = sent.content.clone();
        let retry = (!sent.names_session()).then_some(self.options.retry);
        let key = MessageKey { sender: &caller.sender(), scope: &scope, id: &id, retry };
        self.messages.once(&key, (&content, &caller.principal), dialect, || {
            let (streaming, began) = self.carry_out(sent, caller, dialect)?;
            // A message that was not taken may be sent again.
            let effect = (!streaming.span.asked_back).then(|| MessageEffect::of(&streaming, began));
            Ok((streaming, effect))
        })
    }

    /// Does what a message asks for. Also returns whether it began a turn, rather than answered what
    /// one asks.
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
            // Clients that know text only answer in words.
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
        let (context, turn) = (Arc::clone(&streaming.context), streaming.span.turn);
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

    /// The context that a message is for; and its turn, if it names the task of one.
    fn addressed(
        &self,
        sent: &Sent,
        contexts: VisibleContexts<'_>,
        dialect: Dialect,
    ) -> Result<(Arc<SessionContext>, Option<TurnId>), Error> {
        let Some(id) = &sent.task else {
            // In 1.0 the id that a client names is kept, or refused (section 3.4.1); in 0.3 ids are
            // the server's, and the answer has the one that counts.
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
            // An answer begins nothing.
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
                    // The session's task can be cancelled once.
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
                // What it has seen is not read again.
                let earlier = match (named, after) {
                    (None, Some(seen)) => earlier(&context, turn, seen),
                    _ => BTreeSet::new(),
                };
                let first = if earlier.is_empty() { queued } else { 0 };
                let from = after.map_or(queued, |(index, _)| first.max(index));
                let since = Span::since(&context, turn, from);
                Span { first: described, earlier, after, again: true, to_the_end: true, ..since }
            }
            // Nothing runs: how it stands is all there is.
            _ => Span { first: described, over: true, ..Span::begun(TurnId(0), 0, None) },
        };
        let reader = caller.principal.clone();
        Ok(Streaming { context, span, dialect, unknown: None, reader })
    }

    /// Returns the card for those who have the token, if there is a token.
    fn extended_card(&self, dialect: Dialect) -> Result<Reply, Error> {
        if self.principals.are_asked() {
            return Ok(value(&card::card(self, dialect == Dialect::V1)));
        }
        // 1.0, section 3.1.11: another error for what the card does not offer.
        let code = match dialect {
            Dialect::V1 => error::UNSUPPORTED_OPERATION,
            _ => error::EXTENDED_CARD_NOT_CONFIGURED,
        };
        let message = "there is no extended card: this server knows its callers by no token";
        Err(Error::new(code, message))
    }

    /// Refuses a message whose notifications could not be sent, before anything begins.
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

/// Returns a function that returns `true` for a turn whose questions the text of a message may answer: the message names
/// the session, or its sender was told of the turn.
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

/// Returns the sender of a message in a shared session that names another context than that of the session.
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

/// The task that a message was for, as it stands.
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

/// Returns the turn of a task that has ended since a client saw this event; of the session's task (0.3), the last.
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

/// Returns the turns of the session's task (0.3) before this one that had not ended when a client saw this event.
fn earlier(context: &SessionContext, turn: TurnId, seen: (usize, usize)) -> BTreeSet<TurnId> {
    context.story(|story| {
        let ended_later = |it: &&TurnRecord| it.ended.as_ref().is_some_and(|it| it.0 >= seen.0);
        let turns = story.turns().filter(|it| it.id < turn && !story.is_own_task(it.id));
        turns.filter(ended_later).map(|it| it.id).collect()
    })
}

/// The place that an `eventId` names.
fn place(id: &str) -> Result<(usize, usize), Error> {
    let place =
        id.split_once('.').and_then(|(index, n)| Some((index.parse().ok()?, n.parse().ok()?)));
    place.ok_or_else(|| error::invalid_params(format!("`{id}` is no `eventId`")))
}

fn value(value: &impl Serialize) -> Reply {
    Reply::Value(to_json(value))
}
