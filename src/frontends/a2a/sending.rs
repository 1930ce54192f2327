//! Messages: the stages that a message passes, once each.
//!
//! 1. Parse: [`A2aServer::received`], which a transport calls.
//! 2. Locate: [`A2aServer::locate_message`]. A message for a session that another node owns goes to that node.
//! 3. Address: [`A2aServer::address`] finds the task that the message is for, or begins a session.
//! 4. Authorize: [`A2aServer::authorize`].
//! 5. Apply: [`A2aServer::begin_turn`] or [`A2aServer::answer`].
//! 6. Stream: [`Streaming`], the stream of the effects.

use std::sync::Arc;

use tokio::task::unconstrained;

use super::context::{SessionContext, UnknownContext};
use super::contexts::locate::{self, LocatedTask};
use super::dialect::Dialect;
use super::follow::Follow;
use super::messages::{MessageEffect, MessageKey, MessageSender};
use super::methods::Reply;
use super::orders::OrderedCall;
use super::read::{MessageForm, ReceivedMessage, Sent, SentContent};
use super::requests::SessionId;
use super::server::{A2aServer, CallOrigin};
use super::subscription::{Span, Streaming};
use super::turns::{self, MessageTarget, PromptReply};
use tandem_agent::session::{Mode, PromptPart, TurnId};
use tandem_agent::sessions::Leased;
use tandem_serve::audit::blocking_for_client;
use tandem_serve::principals::{ANSWER_RIGHT, DRIVE_RIGHT, SessionRight};
use tandem_wire::a2a::{Fields, MessageSendConfiguration, Task, TaskState, error};
use tandem_wire::development_tool::ToolCallConfirmation;
use tandem_wire::jsonrpc::Error;

/// A message and the session that it names.
struct LocatedMessage {
    sent: Sent,
    /// The located session; `None` if the message names no session, or an unknown session.
    located: Option<Leased<SessionContext>>,
}

/// Task that a message is for.
struct Address {
    context: Leased<SessionContext>,
    /// The turn, if the message names the task of a single turn.
    turn: Option<TurnId>,
    /// Outcome for the context that the message names, if it was not known.
    unknown: Option<UnknownContext>,
    /// `true` if a prompt's settings are still to be applied: the message names no task, and its session is not new.
    takes_settings: bool,
    dialect: Dialect,
}

impl Address {
    fn streaming(self, span: Span, caller: &CallOrigin) -> Streaming {
        let Self { context, unknown, dialect, .. } = self;
        Streaming { context, span, dialect, unknown, reader: caller.principal.clone() }
    }
}

/// Meaning of a message for the task that it is for.
enum MessageAct {
    Prompt(Vec<PromptPart>),
    Answers(Vec<ToolCallConfirmation>),
    /// The message is no answer although a question is open: the stream asks the question again.
    AskAgain(Span),
}

impl A2aServer {
    /// Parses a message.
    pub(super) fn received(
        &self,
        form: MessageForm,
        params: Fields,
    ) -> Result<ReceivedMessage, Error> {
        ReceivedMessage::read(form, params, self.options.attachment_chars)
    }

    /// Carries out a message, and returns the task that comes of it.
    pub(super) async fn send(
        self: &Arc<Self>,
        message: ReceivedMessage,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Reply, Error> {
        let configuration = &message.sent.configuration;
        let (history, at_once) = (configuration.history_length, configuration.returns_at_once);
        let text_only = configuration.accepts_only_text();
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
        task.metadata.unknown_context = unknown;
        task.metadata.auto_execute = auto_execute_refused.then_some(false);
        Ok(Reply::Value(dialect.first(&task)))
    }

    /// Carries out a message, and returns the stream of the effects as soon as the beginning is durable. A message that
    /// was sent before begins nothing new: the stream of its first effect is returned. The stages are repeated once if
    /// another node turns out to have the session.
    pub(super) async fn stream(
        self: &Arc<Self>,
        message: ReceivedMessage,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Streaming, Error> {
        let ReceivedMessage { form, mut params, mut sent } = message;
        let text_only = sent.configuration.accepts_only_text();
        // A message with an id can be sent to another node later: the id prevents a second turn. An order that came
        // from another node is not sent on.
        let mut may_come_again = sent.id.is_some() && caller.order.is_none();
        loop {
            let located = self.locate_message(&mut params, &mut sent, caller).await?;
            if let Some(context) = &located
                && let Some(followed) = context.followed()
            {
                let dialect_name = dialect.name().to_owned();
                let call = OrderedCall::Message { form, params, dialect: dialect_name };
                let (span, unknown) = self.order(followed, call, caller).await?.stream()?;
                let (context, reader) = (context.clone(), caller.principal.clone());
                return Ok(Streaming { context, span, dialect, unknown, reader });
            }
            let named = sent.context.clone();
            let message = LocatedMessage { sent, located };
            let mut begun = self.carry_out_in_order(message, caller, dialect).await?;
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

    /// Locates the session of a message, after recognizing a message that names no session and was sent before.
    async fn locate_message(
        &self,
        params: &mut Fields,
        sent: &mut Sent,
        caller: &CallOrigin,
    ) -> Result<Option<Leased<SessionContext>>, Error> {
        // An order is a message that another node has forwarded. That node has filled in the session, so the order does
        // not show that the client knew the session.
        let is_known = sent.names_session() && caller.order.is_none();
        let (sender, window) = (caller.sender(), self.options.retry);
        self.contexts.of(&caller.principal).recognize(params, sent, &sender, window).await?;
        let named = SessionId::of(sent.task.as_deref(), sent.context.as_deref());
        let located = self.open(&caller.principal, named).await?;
        if let Some(context) = located.as_ref().filter(|_| is_known) {
            context.note_known(caller.sender(), None);
        }
        Ok(located)
    }

    /// Carries out a message, after the earlier messages for the same session. A message with files is carried out off
    /// the runtime's thread, since its files are written then.
    async fn carry_out_in_order(
        self: &Arc<Self>,
        message: LocatedMessage,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Streaming, Error> {
        let LocatedMessage { sent, located } = &message;
        let context = located.as_ref().or_else(|| self.contexts.shared());
        let order = match context.map(|context| &context.id).or(sent.context.as_ref()) {
            // Without `unconstrained`, a message whose task has used up its budget would yield here, and the
            // next message would overtake it.
            Some(id) => Some(unconstrained(self.messages.beginning.lock(id)).await),
            None => None,
        };
        if sent.files.is_empty() {
            return self.carry_out_once(message, caller, dialect);
        }
        let (server, caller) = (Arc::clone(self), caller.clone());
        let carry_out = move || {
            let _order = order;
            server.carry_out_once(message, &caller, dialect)
        };
        blocking_for_client(carry_out).await.map_err(Error::internal)?
    }

    /// Carries out a message, unless it was sent before. Does not await, so that the message is carried out
    /// as a whole even if the client disconnects.
    fn carry_out_once(
        &self,
        message: LocatedMessage,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Streaming, Error> {
        let LocatedMessage { sent, located } = &message;
        let Some(id) = sent.id.clone() else {
            return self.carry_out(message, caller, dialect).map(|(streaming, _)| streaming);
        };
        let scope = match (&sent.task, &sent.context, &sent.begins) {
            (Some(task), ..) => locate::task(located.clone(), task)?.context.id.clone(),
            // In 0.3, a message may name another context than the shared session's. The message is for the shared
            // session nevertheless.
            (None, Some(id), _) => self.contexts.shared().map_or(id, |shared| &shared.id).clone(),
            (None, None, begins) => begins.clone().unwrap_or_default(),
        };
        let content = sent.content.clone();
        let retry = (!sent.names_session()).then_some(self.options.retry);
        let key = MessageKey { sender: &caller.sender(), scope: &scope, id: &id, retry };
        let again = |effect: &MessageEffect| effect.again(dialect, &caller.principal);
        self.messages.once(&key, &content, again, || {
            let (streaming, began) = self.carry_out(message, caller, dialect)?;
            // A message that was not taken has no effect to remember, so that the client may send it again.
            let effect = (!streaming.span.asked_back).then(|| MessageEffect::of(&streaming, began));
            Ok((streaming, effect))
        })
    }

    /// Carries out a message. Also returns `true` if the message began a turn, and `false` if it answered a
    /// question.
    fn carry_out(
        &self,
        message: LocatedMessage,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<(Streaming, bool), Error> {
        let LocatedMessage { sent, located } = message;
        self.check_push(&sent.configuration)?;
        let address = self.address(&sent, located, caller, dialect)?;
        let act = meaning(&address, &sent, caller)?;
        self.authorize(&address, &act, &sent, caller)?;
        if let Some(config) = &sent.configuration.push {
            Self::check_room(&address.context, config, dialect)?;
        }
        match act {
            MessageAct::AskAgain(span) => Ok((address.streaming(span, caller), false)),
            MessageAct::Answers(answers) => {
                let span = self.answer(&address.context, &answers, caller)?;
                self.push_with(&address.context, &span, &sent.configuration, dialect)?;
                let address = Address { unknown: None, ..address };
                Ok((address.streaming(span, caller), false))
            }
            MessageAct::Prompt(prompt) => {
                let span = self.begin_turn(&address, prompt, &sent, caller)?;
                Ok((address.streaming(span, caller), true))
            }
        }
    }

    /// Returns the task that a message is for. A prompt that names no task may begin a session.
    fn address(
        &self,
        sent: &Sent,
        located: Option<Leased<SessionContext>>,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Address, Error> {
        let Some(id) = &sent.task else {
            return self.address_context(sent, located, caller, dialect);
        };
        let LocatedTask { context, turn } = locate::task(located, id)?;
        if let Some(other) = sent.context.as_ref().filter(|other| **other != context.id) {
            return Err(error::invalid_params(format!("task {id} is not in context {other}")));
        }
        if dialect == Dialect::V1 && turn.is_some() && context.state(turn).is_terminal() {
            let message = format!("task {id} has ended: send a message without a task id");
            return Err(Error::new(error::UNSUPPORTED_OPERATION, message));
        }
        Ok(Address { context, turn, unknown: None, takes_settings: false, dialect })
    }

    /// Returns the context that a message without a task is for.
    fn address_context(
        &self,
        sent: &Sent,
        located: Option<Leased<SessionContext>>,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Address, Error> {
        let named = sent.context.as_deref();
        let contexts = self.contexts.of(&caller.principal);
        let unknown = named.filter(|_| located.is_none()).map(|_| contexts.unknown());
        if matches!(sent.content, SentContent::Prompt(_)) {
            self.check_open()?;
        }
        // In 1.0, the server must use the id that a client names, or refuse it (section 3.4.1). In 0.3
        // the server chooses the ids, and its answer has the id that is valid.
        if dialect == Dialect::V1
            && let (Some(id), Some(shared)) = (named, self.contexts.shared())
            && *id != shared.id
        {
            return Err(error::invalid_params(format!(
                "there is no context {id}, and this agent has one context only: leave `contextId` out, or send {}",
                shared.id
            )));
        }
        // An answer needs an existing session; it must not begin one.
        if matches!(sent.content, SentContent::Answers(_)) {
            let context = located.or_else(|| contexts.shared()).ok_or_else(|| {
                error::invalid_params("an answer needs the `taskId` of the question")
            })?;
            return Ok(Address { context, turn: None, unknown, takes_settings: false, dialect });
        }
        let (begins, settings) = (sent.begins.as_deref(), &sent.settings);
        let (context, is_new) = contexts.prompted(located, named, begins, settings)?;
        // Another message may have begun the session meanwhile.
        let unknown = unknown.filter(|unknown| *unknown != UnknownContext::New || is_new);
        Ok(Address { context, turn: None, unknown, takes_settings: !is_new, dialect })
    }

    /// Checks the right that a message needs.
    fn authorize(
        &self,
        address: &Address,
        act: &MessageAct,
        sent: &Sent,
        caller: &CallOrigin,
    ) -> Result<(), Error> {
        let contexts = self.contexts.of(&caller.principal);
        if sent.configuration.push.is_some() {
            contexts.check(&address.context, SessionRight::Own)?;
        }
        let need = match act {
            MessageAct::Answers(_) => ANSWER_RIGHT,
            MessageAct::Prompt(_) | MessageAct::AskAgain(_) => DRIVE_RIGHT,
        };
        contexts.check(&address.context, need)
    }

    /// Answers the questions of a session, and returns the stream of the events that follow.
    fn answer(
        &self,
        context: &Leased<SessionContext>,
        answers: &[ToolCallConfirmation],
        caller: &CallOrigin,
    ) -> Result<Span, Error> {
        context.check_saved()?;
        turns::answer(context, answers, caller, &self.audit)
    }

    /// Begins the turn of a prompt, unless the session's log has the message already. Starts the push notifications
    /// that the message asks for.
    fn begin_turn(
        &self,
        Address { context, takes_settings, dialect, .. }: &Address,
        prompt: Vec<PromptPart>,
        sent: &Sent,
        caller: &CallOrigin,
    ) -> Result<Span, Error> {
        self.check_open()?;
        let keys = sent.keys(self.contexts.shared().is_some());
        let retry = (!sent.names_session()).then(|| (caller.sender(), self.options.retry));
        if let Some(span) = turns::begun_before(context, &keys, &prompt, retry)? {
            return Ok(span);
        }
        context.check_saved()?;
        let contexts = self.contexts.of(&caller.principal);
        let _room = contexts.check_turn(context, &prompt)?;
        if *takes_settings {
            contexts.apply_settings(context, &sent.settings)?;
        }
        let text = self.audit.text(&prompt);
        let target = MessageTarget { task: sent.task.is_some(), key: keys.into_iter().next() };
        let prompt = turns::attach(context.session()?, prompt, &sent.files);
        let mut span = turns::begin(context, prompt, &caller.origin, &target, *dialect)?;
        let asks = context.here().is_some_and(|session| session.modes().current() != Mode::Yolo);
        span.auto_execute_refused = sent.settings.auto_execute && asks;
        self.audit.prompted(caller.acting_in(context), span.turn, text);
        self.push_with(context, &span, &sent.configuration, *dialect)?;
        Ok(span)
    }

    /// Refuses a message whose push notifications could not be sent, before anything is begun.
    fn check_push(&self, configuration: &MessageSendConfiguration) -> Result<(), Error> {
        configuration.push.as_ref().map_or(Ok(()), |push| self.check_config(push).map(drop))
    }

    fn push_with(
        &self,
        context: &Arc<SessionContext>,
        span: &Span,
        configuration: &MessageSendConfiguration,
        dialect: Dialect,
    ) -> Result<(), Error> {
        let Some(push) = &configuration.push else { return Ok(()) };
        let turn = (dialect == Dialect::V1).then_some(span.turn);
        let follow = Follow::new(context, span.from, dialect);
        self.add_push(follow, turn, push).map(drop)
    }
}

/// Returns the meaning of a message. Clients that know only text answer questions in words.
fn meaning(address: &Address, sent: &Sent, caller: &CallOrigin) -> Result<MessageAct, Error> {
    let prompt = match &sent.content {
        SentContent::Answers(answers) => return Ok(MessageAct::Answers(answers.clone())),
        SentContent::Prompt(prompt) => prompt,
    };
    let Address { context, turn, unknown, .. } = address;
    let may_answer = may_answer(context, sent, *unknown, caller);
    Ok(match turns::read_reply(context, *turn, prompt, may_answer)? {
        PromptReply::Prompt => MessageAct::Prompt(prompt.clone()),
        PromptReply::Answer(answer) => MessageAct::Answers(vec![answer]),
        PromptReply::Unanswered(span) => MessageAct::AskAgain(span),
    })
}

/// Returns a predicate on turns: `true` if the text of a message may answer the turn's questions, because the
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
