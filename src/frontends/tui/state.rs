//! What the screen shows, made from the session's events and the user's keys. Pure: it reaches
//! neither the terminal nor the session, and the time is given to it.

mod about;
mod short;

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

pub(super) use self::about::{About, Elsewhere};
use self::short::Short;
use super::clock::seconds;
use super::complete::Completion;
use super::dialog::Dialog;
use super::input::Input;
use super::item::{Body, Card, Item, Tone, explanation};
use super::markdown::Growing;
use super::notify::LONG;
use super::offer::{Offer, Then};
use crate::session::{
    CallStarted, Content, Event, Millis, ModelError, Origin, Retry, StopReason, Todo, TodoStatus,
    ToolOutcome, TurnId, Usage,
};

/// The turn that runs.
#[derive(Debug, Clone)]
pub(super) struct Running {
    pub(super) turn: TurnId,
    pub(super) since: Millis,
    /// Whether it was begun at this terminal.
    pub(super) own: bool,
    /// Origin of the turn, if it was not begun at this terminal and its origin is known.
    pub(super) by: Option<Origin>,
}

/// A prompt that waits.
#[derive(Debug, Clone)]
pub(super) struct Queued {
    pub(super) turn: TurnId,
    pub(super) text: String,
    /// Who said it, if it was not said at this terminal.
    pub(super) by: Option<Origin>,
}

/// A turn that took so long that it may have been left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum LongTurn {
    #[default]
    None,
    /// It has ended: when.
    Ended(Millis),
    /// It has ended, and no key has been pressed since.
    Unseen,
}

/// The model's last answer.
#[derive(Debug, Default)]
pub(super) struct LastAnswer {
    /// Markdown.
    pub(super) text: String,
    /// `true` if more of the answer may come.
    open: bool,
}

/// What the screen shows.
#[derive(Default)]
pub(super) struct State {
    pub(super) about: About,
    /// Who is at this terminal.
    me: Option<Origin>,
    /// What is not in the scrollback yet, in order.
    pub(super) items: VecDeque<Item>,
    pub(super) running: Option<Running>,
    pub(super) queued: Vec<Queued>,
    /// The questions that are open; the first is shown.
    pub(super) dialogs: VecDeque<Dialog>,
    /// The offer to log in, if it is made.
    pub(super) offer: Option<Offer>,
    /// A turn has ended because the key was refused: when, and what follows when there is another.
    pub(super) refused: Option<(Millis, Then)>,
    pub(super) todos: Vec<Todo>,
    /// Of the last request.
    pub(super) usage: Option<Usage>,
    /// Of all requests, without what was cached.
    pub(super) tokens: u64,
    /// A request that is tried again, and when.
    pub(super) retry: Option<(Retry, Millis)>,
    pub(super) input: Input,
    pub(super) completion: Option<Completion>,
    /// Whether everything is shown in full.
    pub(super) unfolded: bool,
    /// What has gone into the scrollback in short; the last ones.
    short: Short,
    pub(super) help: bool,
    /// Said once, beside the status line, until the next key.
    pub(super) hint: Option<String>,
    /// Whether the last thing that went into the history was a call.
    after_call: bool,
    /// Whether the status of the prompt that runs is a command's.
    pub(super) command: Option<String>,
    pub(super) long_turn: LongTurn,
    pub(super) answer: LastAnswer,
}

impl State {
    pub(super) fn new(about: About, me: Origin) -> Self {
        Self { about, me: Some(me), ..Self::default() }
    }

    /// Whether the session cannot be reached for now.
    pub(super) fn is_lost(&self) -> bool {
        self.about.elsewhere.as_ref().is_some_and(|elsewhere| elsewhere.lost)
    }

    /// Notes whether the session can be reached.
    pub(super) fn set_lost(&mut self, lost: bool) {
        if let Some(elsewhere) = &mut self.about.elsewhere {
            elsewhere.lost = lost;
        }
    }

    /// Who somebody is, unless they are at this terminal.
    fn other(&self, origin: &Origin) -> Option<Origin> {
        Some(origin).filter(|origin| self.me.as_ref() != Some(origin)).cloned()
    }

    /// Takes in what happened, and when.
    pub(super) fn apply(&mut self, event: &Event, at: Millis) {
        if !matches!(event, Event::Retry(_) | Event::TurnQueued { .. }) {
            self.retry = None;
        }
        match event {
            Event::TurnQueued { turn, prompt, origin } => {
                let text = prompt.iter().map(ToString::to_string).collect();
                self.queued.push(Queued { turn: *turn, text, by: self.other(origin) });
            }
            Event::TurnStarted { turn } => self.begin(*turn, at),
            Event::CommandStarted { name } => self.command = Some(name.clone()),
            Event::Output(text) | Event::CommandFailed(text) => {
                self.close();
                self.push(Body::Said(Growing::new(text.clone())));
                self.close();
            }
            Event::Text(more) => self.say(more),
            Event::Thought(more) => self.grow(more, true),
            Event::Retry(retry) => self.retry(retry, at),
            Event::Notice(notice) => self.note(Tone::Aside, notice.clone()),
            Event::Compressed(short) => {
                self.note(Tone::Aside, short.to_string());
                self.spent(&short.usage);
                self.usage = Some(Usage { input: short.after, ..Usage::default() });
            }
            Event::AnswerFinished { usage, .. } => self.answered(usage),
            Event::CallStarted(started) => self.call(started, at),
            Event::CallProgress { call, output } => {
                self.card(call).into_iter().for_each(|card| card.output.clone_from(output));
            }
            Event::QuestionClosed { call, answer } => {
                self.close_dialog(call, at);
                let answer = answer.as_ref().map(|(answer, by)| (answer.clone(), self.other(by)));
                if let Some(card) = self.card(call) {
                    card.asked = false;
                    card.since = at;
                    card.answer = answer;
                }
            }
            Event::CallFinished { call, outcome } => self.called(call, outcome),
            Event::TurnFinished { turn, reason } => self.end(*turn, reason, at),
            Event::Forgotten => {
                self.usage = None;
                self.todos.clear();
            }
            Event::ModelChanged { model } => {
                self.about.model.clone_from(model);
                self.about.input_limit = None;
            }
            Event::ModeChanged { mode } => self.about.mode = *mode,
            Event::Asked(_)
            | Event::Told { .. }
            | Event::ToldNext(_)
            | Event::FileChanged { .. }
            | Event::Masked(_)
            | Event::FileRestored { .. } => {}
        }
    }

    /// Takes in more of an answer.
    fn say(&mut self, more: &str) {
        if !mem::replace(&mut self.answer.open, true) {
            self.answer.text.clear();
        }
        self.answer.text.push_str(more);
        self.grow(more, false);
    }

    fn begin(&mut self, turn: TurnId, at: Millis) {
        self.close();
        self.answer.open = false;
        let mut running = Running { turn, since: at, own: false, by: None };
        if let Some(place) = self.queued.iter().position(|queued| queued.turn == turn) {
            let Queued { text, by, .. } = self.queued.remove(place);
            running.own = by.is_none();
            running.by.clone_from(&by);
            self.push(Body::Prompt(text, by));
        }
        self.running = Some(running);
    }

    fn end(&mut self, turn: TurnId, reason: &StopReason, at: Millis) {
        self.queued.retain(|queued| queued.turn != turn);
        let Some(ended) = self.running.take_if(|running| running.turn == turn) else { return };
        self.close();
        self.command = None;
        if at - ended.since >= LONG && !matches!(reason, StopReason::Cancelled { .. }) {
            self.long_turn = LongTurn::Ended(at);
        }
        if let Some((tone, why)) = explanation(reason) {
            self.note(tone, why);
        }
        if matches!(reason, StopReason::Failed(ModelError::NotAuthenticated(_))) {
            self.refused = Some((at, if ended.own { Then::GoOn } else { Then::Nothing }));
        }
        if !self.todos.iter().any(open) {
            self.todos.clear();
        }
    }

    fn retry(&mut self, retry: &Retry, at: Millis) {
        let until = at.saturating_add(Millis::try_from(retry.delay.as_millis()).unwrap_or(0));
        if retry.discard {
            self.answer.text.clear();
            self.items.retain(|item| item.done || !matches!(item.body, Body::Said(_)));
        }
        let again = if retry.discard { "; the answer begins again" } else { "" };
        self.note(Tone::Aside, format!("{retry}{again}"));
        self.retry = Some((retry.clone(), until));
    }

    fn call(&mut self, started: &Arc<CallStarted>, at: Millis) {
        self.close();
        let asked = started.question.is_some();
        self.push(Body::Call(Card {
            started: Arc::clone(started),
            since: at,
            asked,
            output: String::new(),
            answer: None,
            outcome: None,
        }));
        if asked {
            let elsewhere = self.about.elsewhere.is_some();
            self.dialogs.push_back(Dialog::new(Arc::clone(started), at, elsewhere));
        }
    }

    fn called(&mut self, call: &str, outcome: &ToolOutcome) {
        if let ToolOutcome::Done(output) = outcome
            && let Some(Content::Todos(todos)) = &output.shown
        {
            self.todos.clone_from(todos);
        }
        self.dialogs.retain(|dialog| dialog.call() != call);
        let ended = self.items.iter_mut().find(|item| is_call(item, call));
        if let Some(Item { body: Body::Call(card), done, .. }) = ended {
            card.outcome = Some(outcome.clone());
            card.output.clear();
            *done = true;
        }
    }

    /// Takes a question away. What comes up in its place has not been read yet.
    pub(super) fn close_dialog(&mut self, call: &str, at: Millis) -> Option<Dialog> {
        let shown = self.dialogs.front().map(|dialog| dialog.call().to_owned());
        let place = self.dialogs.iter().position(|dialog| dialog.call() == call);
        let closed = place.and_then(|place| self.dialogs.remove(place));
        if let Some(next) =
            self.dialogs.front_mut().filter(|next| shown.as_deref() != Some(next.call()))
        {
            next.shown_at(at);
        }
        closed
    }

    /// Brings a question back whose answer was not taken, unless it is closed by now.
    pub(super) fn ask_again(&mut self, mut dialog: Dialog, at: Millis) {
        if self.card(dialog.call()).is_some_and(|card| card.asked) {
            dialog.shown_at(at);
            self.dialogs.push_front(dialog);
        }
    }

    fn card(&mut self, call: &str) -> Option<&mut Card> {
        self.items.iter_mut().find_map(|item| match &mut item.body {
            Body::Call(card) if card.started.call.id == call && !item.done => Some(card),
            _ => None,
        })
    }

    fn answered(&mut self, usage: &Usage) {
        self.close();
        self.answer.open = false;
        self.spent(usage);
        // Of an answer that was cut off nobody knows.
        if usage.input > 0 {
            self.usage = Some(*usage);
        }
    }

    fn spent(&mut self, usage: &Usage) {
        self.tokens += usage.input.saturating_sub(usage.cached) + usage.output + usage.thoughts;
    }

    /// More of what is being said or thought.
    fn grow(&mut self, more: &str, thinks: bool) {
        if let Some(Item { body, done: false, .. }) = self.items.back_mut() {
            match body {
                Body::Said(said) if !thinks => return said.text.push_str(more),
                Body::Thought(said) if thinks => return said.text.push_str(more),
                _ => {}
            }
        }
        self.close();
        if thinks {
            self.push(Body::Thought(Growing::new(more.to_owned())));
        } else if !more.trim().is_empty() {
            self.push(Body::Said(Growing::new(more.trim_start_matches('\n').to_owned())));
        }
    }

    /// Something of this screen alone. It does not break what is being said in two.
    pub(super) fn aside(&mut self, item: Item) {
        let place = self.items.iter().position(|item| !item.done).unwrap_or(self.items.len());
        self.items.insert(place, item);
        match self.items.get_mut(place + 1) {
            Some(next) => next.apart = true,
            None => self.after_call = false,
        }
    }

    fn note(&mut self, tone: Tone, text: String) {
        self.close();
        self.push(Body::Note(tone, text));
    }

    fn push(&mut self, body: Body) {
        let call = matches!(body, Body::Call(_));
        let apart = !(call && self.after_call);
        self.after_call = call;
        self.items.push_back(Item { apart, ..Item::new(body) });
    }

    /// What is being said or thought has been.
    fn close(&mut self) {
        for item in &mut self.items {
            if matches!(item.body, Body::Said(_) | Body::Thought(_)) {
                item.done = true;
            }
        }
    }

    /// Takes out what has its last form and nothing unfinished above it.
    pub(super) fn take_finished(&mut self) -> Vec<Item> {
        let mut finished = Vec::new();
        while let Some(item) = self.items.pop_front_if(|item| item.done) {
            finished.push(item);
        }
        if let Some(first) = self.items.front_mut() {
            finished.extend(first.settle(self.unfolded));
        }
        finished
    }

    /// The prompts of this terminal that wait.
    pub(super) fn own_queued(&self) -> impl Iterator<Item = &Queued> {
        self.queued.iter().filter(|queued| queued.by.is_none())
    }

    /// Puts prompts that were taken back before what is typed.
    pub(super) fn put_back(&mut self, prompts: &[String]) {
        let typed = self.input.text().to_owned();
        let typed = Some(typed).filter(|typed| !typed.trim().is_empty());
        let lines: Vec<_> = prompts.iter().cloned().chain(typed).collect();
        self.input.set(&lines.join("\n"));
    }

    /// The last prompt of this terminal that waits.
    pub(super) fn last_queued(&self) -> Option<&Queued> {
        self.own_queued().last()
    }

    /// What is going on, if anything is; and since when.
    pub(super) fn activity(&self, now: Millis) -> Option<String> {
        let running = self.running.as_ref().filter(|_| !self.is_lost())?;
        if let Some((retry, until)) = &self.retry {
            let wait = seconds(until - now + 999);
            return Some(format!("retrying in {wait}: {}", retry.reason));
        }
        if let Some(dialog) = self.dialogs.front() {
            let shown = dialog.ready(now) || self.input.is_empty();
            let waits =
                if shown { "waiting for an answer" } else { "a question: stop typing to see it" };
            return Some(waits.to_owned());
        }
        let card = self.items.iter().rev().find_map(|item| match &item.body {
            Body::Call(card) if !item.done => Some(card),
            _ => None,
        });
        if let Some(card) = card {
            let label = &card.started.summary.label;
            return Some(format!("{label}, {}", seconds(now - card.since)));
        }
        let since = seconds(now - running.since);
        Some(match (self.items.back().map(|item| (&item.body, item.done)), &self.command) {
            (Some((Body::Said(_), false)), _) => format!("answering, {since}"),
            (Some((Body::Thought(_), false)), _) => format!("thinking, {since}"),
            (_, Some(command)) => format!("{command}, {since}"),
            _ => format!("waiting for the model, {since}"),
        })
    }

    /// Whether something turns while time goes by.
    pub(super) fn turns(&self) -> bool {
        self.running.is_some() || self.offer.as_ref().is_some_and(Offer::busy)
    }

    /// Forgets what was said once.
    pub(super) fn unhint(&mut self) {
        self.long_turn = LongTurn::None;
        self.hint = None;
        self.help = false;
    }

    /// What is typed so far, which is then gone.
    pub(super) fn take_input(&mut self) -> String {
        self.completion = None;
        mem::take(&mut self.input).into_text()
    }
}

fn is_call(item: &Item, id: &str) -> bool {
    matches!(&item.body, Body::Call(card) if card.started.call.id == id)
}

fn open(todo: &Todo) -> bool {
    !matches!(todo.status, TodoStatus::Completed | TodoStatus::Cancelled)
}
