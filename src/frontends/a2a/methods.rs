//! The functions of the methods about tasks, and of the card.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use super::card;
use super::context::SessionContext;
use super::contexts::locate::LocatedTask;
use super::dialect::{Dialect, json as to_json};
use super::follow::Follow;
use super::frames::{FramePosition, StreamEnd};
use super::requests::GetTask;
use super::server::{A2aServer, CallOrigin};
use super::subscription::{Span, Streaming};
use tandem_agent::session::{Event, Session, TurnId, TurnRecord};
use tandem_wire::a2a::{TaskIdParams, TaskState, error};
use tandem_wire::jsonrpc::Error;

/// Reply to a call.
pub(super) enum Reply {
    /// A single result.
    Value(Bytes),
    /// A stream of results.
    Stream(Streaming),
}

impl A2aServer {
    pub(super) async fn get(
        request: &GetTask,
        LocatedTask { context, turn }: &LocatedTask,
        dialect: Dialect,
    ) -> Reply {
        value(&dialect.task(&context.task(*turn, request.history).await))
    }

    pub(super) async fn cancel(
        &self,
        id: &str,
        LocatedTask { context, turn }: &LocatedTask,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Reply, Error> {
        let turn = *turn;
        self.audit.act("cancel", caller.acting_in(context), |_| {});
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
                let last = context.records(|records| {
                    records.projection().latest().map_or(TurnId(0), |turn| turn.id)
                });
                if context.state(None) == TaskState::Canceled
                    || !context.cancel_ended(session, last).await
                {
                    return Err(ended());
                }
            }
        }
        Ok(value(&dialect.task(&context.task(turn, None).await)))
    }

    pub(super) async fn subscribe(
        request: &TaskIdParams,
        LocatedTask { context, turn: named }: &LocatedTask,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Streaming, Error> {
        let (id, named) = (&request.id, *named);
        if dialect == Dialect::V1 && context.state(named).is_terminal() {
            let message = format!("task {id} has ended: there is nothing to subscribe to");
            return Err(Error::new(error::UNSUPPORTED_OPERATION, message));
        }
        let seen = request.last_event();
        let after = seen.or(caller.last_event.as_deref()).map(place).transpose()?;
        let turn = match (named.or_else(|| context.running()), after) {
            (None, Some(after)) => missed(context, named, after).await,
            (turn, _) => turn,
        };
        let snapshot = context.standing(named).await;
        let described = Some(dialect.first(&snapshot));
        let queued =
            turn.and_then(|id| context.records(|records| Some(records.turn(id)?.queued.0)));
        let span = match (turn, queued) {
            (Some(turn), Some(queued)) => {
                // Events that the client has seen are not read again.
                let earlier = match (named, after) {
                    (None, Some(seen)) => earlier(context, turn, seen),
                    _ => BTreeSet::new(),
                };
                let first = if earlier.is_empty() { queued } else { 0 };
                let from = after.map_or(queued, |after| first.max(after.index));
                let since = Span::since(context, turn, from);
                Span { first: described, earlier, after, again: true, to_the_end: true, ..since }
            }
            // No turn runs: the current task is the whole stream.
            _ => Span { first: described, over: true, ..Span::begun(TurnId(0), 0, None) },
        };
        let (context, reader) = (context.clone(), caller.principal.clone());
        Ok(Streaming { context, span, dialect, unknown: None, reader })
    }

    /// Returns the extended card, if clients have to show a token.
    pub(super) fn extended_card(&self, dialect: Dialect) -> Result<Reply, Error> {
        if self.principals.are_asked() {
            return Ok(Reply::Value(card::card(self, dialect == Dialect::V1)));
        }
        // 1.0 (section 3.1.11) demands another error code for operations that the card does not offer.
        let code = match dialect {
            Dialect::V1 => error::UNSUPPORTED_OPERATION,
            _ => error::EXTENDED_CARD_NOT_CONFIGURED,
        };
        let message =
            "there is no extended card: this server has no tokens by which it knows its callers";
        Err(Error::new(code, message))
    }
}

/// Waits until a turn has ended.
async fn ending(session: &Arc<Session>, turn: TurnId) {
    let mut log = session.events(session.position());
    while session.turns().is_pending(turn) {
        let event = tokio::select! {
            event = log.next() => event,
            () = session.wait_fenced() => return,
        };
        if matches!(&*event, Event::TurnFinished { turn: ended, .. } if *ended == turn) {
            break;
        }
    }
    session.wait_durable().await;
}

/// Returns the turn whose end a client has missed since it saw the event `seen`: for the session's task
/// (0.3), the last turn; `None` if there is no such turn.
async fn missed(
    context: &Arc<SessionContext>,
    named: Option<TurnId>,
    seen: FramePosition,
) -> Option<TurnId> {
    let (turn, end) = context.records(|records| {
        let turn = match named {
            Some(turn) => records.turn(turn),
            None => records.turns().rfind(|turn| !records.is_own_task(turn.id)),
        }?;
        Some((turn.id, turn.ended.as_ref()?.0))
    })?;
    let mut since = Follow::new(context, seen.index.max(end), Dialect::V03);
    while let Some(frame) = since.next_past().await
        && frame.index == end
    {
        if frame.turn == turn && frame.end == StreamEnd::Turn {
            return (frame.position() > seen).then_some(turn);
        }
    }
    None
}

/// Returns the turns of the session's task (0.3) before `turn` that had not ended when a client saw the event
/// `seen`.
fn earlier(context: &SessionContext, turn: TurnId, seen: FramePosition) -> BTreeSet<TurnId> {
    context.records(|records| {
        let ended_later = |it: &&TurnRecord| it.ended.as_ref().is_some_and(|it| it.0 >= seen.index);
        let turns = records.turns().filter(|it| it.id < turn && !records.is_own_task(it.id));
        turns.filter(ended_later).map(|it| it.id).collect()
    })
}

/// Parses an `eventId`: the index of a log entry, and the number of the frame made from it.
fn place(id: &str) -> Result<FramePosition, Error> {
    let place = id.split_once('.').and_then(|(index, n)| {
        Some(FramePosition { index: index.parse().ok()?, n: n.parse().ok()? })
    });
    place.ok_or_else(|| error::invalid_params(format!("`{id}` is not an `eventId`")))
}

/// Returns the reply of a single result.
pub(super) fn value(value: &impl Serialize) -> Reply {
    Reply::Value(to_json(value))
}
