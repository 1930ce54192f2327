//! State of the screen, made from the session's updates and the user's keys. This module is pure: it calls neither the
//! terminal nor the session, and gets the current time as a parameter.

mod about;

use std::mem;
use std::sync::Arc;

pub(super) use self::about::{RemoteSessionInfo, StatusInfo};
use super::clock::seconds;
use super::complete::Completion;
use super::dialog::Dialog;
use super::draw;
use super::input::TextInput;
use super::item::{CallCard, ItemBody, Tone};
use super::keyboard::KeyPress;
use super::keys::Focus;
use super::markdown::Growing;
use super::model_menu::ModelMenu;
use super::offer::{LoginOffer, LoginStage, NextStep};
use super::picker::Picker;
use super::questions::QuestionDialogs;
use super::rewind::RewindMenu;
use super::transcript::TranscriptView;
use tandem_agent::session::{
    Activity, CallStarted, CallStatus, CallStep, EarlierPrompts, Entry, LastAnswer, Millis,
    ModelError, Origin, Projection, StopReason, ToolOutcome, TurnId, TurnRecord, TurnResult,
    Update, UpdateKind, explain_resumed, explain_retry, explain_stop,
};

/// Duration in milliseconds from which on the end of a turn is announced: the user may look at another window by then.
pub(super) const LONG_TURN_MILLIS: Millis = 10_000;

/// The running turn, as this terminal sees it.
#[derive(Debug, Clone)]
pub(super) struct RunningTurn {
    pub(super) turn: TurnId,
    /// `true` if the turn was begun at this terminal.
    pub(super) own: bool,
    /// Origin of the turn, if that is known and is not this terminal.
    pub(super) by: Option<Origin>,
}

/// State of the last turn if it took long. The user may look at another window during a long turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum LongTurn {
    #[default]
    None,
    /// The turn ended at this time, and the user has not been called yet.
    Ended(Millis),
    /// The user has been called after the end of the turn, and has pressed no key since.
    Unseen,
}

/// State of the screen.
#[derive(Default)]
pub(super) struct ScreenState {
    pub(super) about: StatusInfo,
    /// Origin of this terminal's prompts and answers.
    me: Option<Origin>,
    /// Projection of the log's entries that have been read.
    pub(super) projection: Projection,
    /// Items of the history.
    pub(super) transcript: TranscriptView,
    pub(super) questions: QuestionDialogs,
    /// Offer to log in, while it is open.
    pub(super) offer: Option<LoginOffer>,
    /// Time at which a turn ended because the provider refused the key, and the step that follows once there is another
    /// key.
    pub(super) refused: Option<(Millis, NextStep)>,
    /// Choice among the stored sessions, while it is open.
    pub(super) picker: Option<Picker>,
    /// Earlier prompts that the conversation can go back to.
    pub(super) earlier: EarlierPrompts,
    /// Menu of the earlier prompts, while it is open.
    pub(super) rewind: Option<RewindMenu>,
    /// Choice of a model or of its level of thinking, while it is open.
    pub(super) models: Option<ModelMenu>,
    /// Prompt to put into the line once the conversation has gone back to before that prompt's turn.
    pub(super) rewinding: Option<(TurnId, String)>,
    /// Line in which the user types.
    pub(super) input: TextInput,
    /// Completions of the word at the cursor, while they are offered.
    pub(super) completion: Option<Completion>,
    /// `true` while all keys are shown below the line.
    pub(super) help: bool,
    /// Hint above the status line, until the next key.
    pub(super) hint: Option<String>,
    /// State of the last turn if it took long, for calling the user.
    pub(super) long_turn: LongTurn,
    /// `true` if the last turn was interrupted or has failed, and can be continued.
    pub(super) can_go_on: bool,
    /// Last answer of the model, for `/copy`.
    pub(super) answer: LastAnswer,
}

impl ScreenState {
    pub(super) fn new(about: StatusInfo, me: Origin) -> Self {
        Self { about, me: Some(me), ..Self::default() }
    }

    /// Returns whether the session cannot be reached for now.
    pub(super) fn is_lost(&self) -> bool {
        self.about.elsewhere.as_ref().is_some_and(|elsewhere| elsewhere.lost)
    }

    /// Notes whether the connection to the session is lost.
    pub(super) fn set_lost(&mut self, lost: bool) {
        if let Some(elsewhere) = &mut self.about.elsewhere {
            elsewhere.lost = lost;
        }
    }

    /// Returns the origin, unless it is this terminal.
    pub(super) fn other(&self, origin: &Origin) -> Option<Origin> {
        Some(origin).filter(|origin| self.me.as_ref() != Some(origin)).cloned()
    }

    /// Returns the running turn.
    pub(super) fn running(&self) -> Option<RunningTurn> {
        let (turn, _) = self.projection.running()?;
        let origin = self.projection.turn(turn).and_then(|turn| turn.origin.as_ref());
        let by = origin.and_then(|origin| self.other(origin));
        Some(RunningTurn { turn, own: origin.is_some() && by.is_none(), by })
    }

    /// Returns the part of the screen that keys go to.
    pub(super) fn focus(&self, now: Millis) -> Focus {
        match self.questions.shown() {
            Some(dialog) if dialog.saying.is_some() => Focus::Saying,
            Some(dialog) if dialog.reading => Focus::Reader,
            Some(dialog) if dialog.ready(now) => Focus::Question,
            _ => match self.logging_in(now).map(|offer| &offer.stage) {
                Some(LoginStage::Providers | LoginStage::Choosing) => Focus::Offer,
                Some(LoginStage::Typing(_)) => Focus::Key,
                Some(LoginStage::Checking | LoginStage::Browser(_)) => Focus::Waiting,
                None if self.picker.is_some() => Focus::Picker,
                None if self.rewind.is_some() => Focus::Rewind,
                None if self.models.is_some() => Focus::Models,
                None => Focus::Input {
                    empty: self.input.is_empty(),
                    completing: self.completion.is_some(),
                },
            },
        }
    }

    /// Returns the offer to log in if keys go to it.
    fn logging_in(&self, now: Millis) -> Option<&LoginOffer> {
        self.offer.as_ref().filter(|offer| offer.ready(now))
    }

    /// Returns whether Ctrl+D quits: either no typed text would be lost, or the session runs in another process and
    /// goes on.
    pub(super) fn leaves(&self, focus: Focus) -> bool {
        let dialog = self.questions.shown();
        let is_empty = |text: Option<&TextInput>| text.is_none_or(TextInput::is_empty);
        let nothing_is_typed = match focus {
            Focus::Picker | Focus::Rewind | Focus::Models => false,
            Focus::Saying => is_empty(dialog.and_then(|dialog| dialog.saying.as_ref())),
            Focus::Key => is_empty(self.offer.as_ref().and_then(LoginOffer::typed)),
            _ => true,
        };
        let kept = focus != Focus::Picker && !self.input.is_empty();
        (nothing_is_typed && !kept) || self.about.elsewhere.is_some()
    }

    /// Restarts the grace period of an open question or offer while the user types elsewhere, so that no key answers it
    /// by mistake.
    pub(super) fn defer_dialog(&mut self, focus: Focus, now: Millis) {
        let is_elsewhere =
            matches!(focus, Focus::Input { .. } | Focus::Picker | Focus::Rewind | Focus::Models);
        if !is_elsewhere {
            return;
        }
        match (self.questions.shown_mut(), &mut self.offer) {
            (Some(dialog), _) => dialog.shown_at(now),
            (None, Some(offer)) => offer.shown_at(now),
            (None, None) => {}
        }
    }

    /// Takes in the next entry of the log.
    pub(super) fn apply(&mut self, entry: &Entry) {
        self.earlier.apply(entry);
        if let Some(update) = self.projection.apply(entry) {
            self.show(update);
        }
    }

    fn show(&mut self, update: Update<'_>) {
        let Update { at, turn, kind, .. } = update;
        self.answer.apply(&kind);
        match kind {
            UpdateKind::TurnStarted => self.begin(turn),
            UpdateKind::Output(text) | UpdateKind::CommandFailed(text) => {
                self.transcript.close();
                self.transcript.push(ItemBody::Said(Growing::new(text.to_owned())));
                self.transcript.close();
            }
            UpdateKind::Text(more) => self.transcript.grow(more, false),
            UpdateKind::Thought(more) => self.transcript.grow(more, true),
            UpdateKind::Retry { retry, restarts } => {
                if restarts {
                    self.transcript.take_back();
                }
                self.transcript.note(Tone::Aside, explain_retry(retry, restarts));
            }
            UpdateKind::TurnResumed { restarts } => {
                if restarts {
                    self.transcript.take_back();
                }
                self.transcript.note(Tone::Aside, explain_resumed(restarts));
            }
            UpdateKind::CommandReplied(text) => self.transcript.note(Tone::Aside, text.to_owned()),
            UpdateKind::Note { text, .. } => self.transcript.note(Tone::Aside, text.into_owned()),
            UpdateKind::AnswerFinished(_) => self.transcript.close(),
            UpdateKind::Call(started, step) => self.call(&started, step, at),
            UpdateKind::TurnFinished(reason) => self.end(turn, reason, at),
            UpdateKind::ModelChanged(model) => {
                model.clone_into(&mut self.about.model);
                self.about.input_limit = None;
            }
            UpdateKind::ThinkingChanged(level) => {
                self.about.thinking = level.map(ToOwned::to_owned);
            }
            UpdateKind::ModeChanged(mode) => self.about.mode = mode,
            UpdateKind::Rewound(turn) => self.rewound(turn),
            UpdateKind::SessionRenamed(title) => self.about.title = Some(title.to_owned()),
            UpdateKind::TurnQueued(_)
            | UpdateKind::CommandStarted(_)
            | UpdateKind::CommandAsked
            | UpdateKind::Forgotten => {}
        }
    }

    /// Puts the prompt that the conversation has gone back to into the line, if this terminal asked for that.
    fn rewound(&mut self, turn: TurnId) {
        if let Some((_, prompt)) = self.rewinding.take_if(|(wanted, _)| *wanted == turn)
            && self.input.is_empty()
        {
            self.input.set(&prompt);
        }
    }

    fn begin(&mut self, turn: Option<TurnId>) {
        self.transcript.close();
        self.can_go_on = false;
        let begun = turn.and_then(|turn| self.projection.turn(turn));
        if let Some(TurnRecord { prompt, origin: Some(origin), .. }) = begun {
            let prompt = ItemBody::Prompt(prompt.clone(), self.other(origin));
            self.transcript.push(prompt);
        }
    }

    fn end(&mut self, turn: Option<TurnId>, reason: &StopReason, at: Millis) {
        let Some(ended) = turn.and_then(|turn| self.projection.turn(turn)) else { return };
        let Some(since) = ended.started else {
            // A queued prompt whose turn never started leaves no item behind. If the agent's process ended before that,
            // the prompt is lost, so the user is told.
            if *reason == StopReason::Interrupted {
                let prompt = ended.prompt.clone();
                self.transcript.close();
                self.transcript.note(
                    Tone::Error,
                    format!("This prompt was not sent, because the agent ended first: {prompt}"),
                );
            }
            return;
        };
        let is_cut_off = matches!(reason, StopReason::Interrupted | StopReason::Failed(_));
        let can_go_on = is_cut_off && !ended.prompt.starts_with('!');
        let own = ended.origin.as_ref().is_some_and(|origin| self.other(origin).is_none());
        self.can_go_on = can_go_on;
        self.transcript.close();
        if at - since >= LONG_TURN_MILLIS && !matches!(reason, StopReason::Cancelled { .. }) {
            self.long_turn = LongTurn::Ended(at);
        }
        if let Some(why) = explain_stop(reason) {
            let cancelled = TurnResult::from_reason(reason) == TurnResult::Cancelled;
            self.transcript.note(if cancelled { Tone::Aside } else { Tone::Error }, why);
        }
        if matches!(reason, StopReason::Failed(ModelError::NotAuthenticated(_))) {
            self.refused = Some((at, if own { NextStep::GoOn } else { NextStep::Nothing }));
        }
    }

    fn call(&mut self, started: &Arc<CallStarted>, step: CallStep<'_>, at: Millis) {
        let id = &started.call.id;
        match step {
            CallStep::Started => self.start_call(started, at),
            CallStep::Progress(output) => {
                self.transcript
                    .card(id)
                    .into_iter()
                    .for_each(|card| output.clone_into(&mut card.output));
            }
            CallStep::QuestionClosed(answer) => {
                self.questions.close(id, at);
                let status = CallStatus::of_answer(answer.map(|(answer, _)| answer));
                let answer = answer.map(|(answer, by)| (answer.clone(), self.other(by)));
                if let Some(card) = self.transcript.card(id) {
                    (card.status, card.answer) = (status, answer);
                }
            }
            CallStep::Finished(outcome) => self.finish_call(id, outcome),
        }
    }

    fn start_call(&mut self, started: &Arc<CallStarted>, at: Millis) {
        self.transcript.close();
        let status = CallStatus::of_start(started);
        self.transcript.push(ItemBody::Call(CallCard {
            started: Arc::clone(started),
            status,
            output: String::new(),
            answer: None,
            outcome: None,
        }));
        if status == CallStatus::AwaitingAnswer {
            self.questions.open.push_back(Dialog::new(Arc::clone(started), at));
        }
    }

    fn finish_call(&mut self, call: &str, outcome: &ToolOutcome) {
        self.questions.open.retain(|dialog| dialog.call() != call);
        self.transcript.finish_call(call, outcome);
    }

    /// Shows a question again whose answer did not reach the session, unless the question is closed by now.
    pub(super) fn ask_again(&mut self, mut dialog: Dialog, at: Millis) {
        let asked = |card: &mut CallCard| card.status == CallStatus::AwaitingAnswer;
        if self.transcript.card(dialog.call()).is_some_and(asked) {
            dialog.shown_at(at);
            self.questions.open.push_front(dialog);
        }
    }

    /// Returns the queued prompts of this terminal.
    pub(super) fn own_queued(&self) -> impl DoubleEndedIterator<Item = &TurnRecord> {
        self.projection.queued().filter(|turn| turn.origin == self.me)
    }

    /// Puts prompts that were taken back from the queue into the line, before the text that is typed there.
    pub(super) fn put_back(&mut self, prompts: &[String]) {
        let typed = self.input.text().to_owned();
        let typed = Some(typed).filter(|typed| !typed.trim().is_empty());
        let lines: Vec<_> = prompts.iter().cloned().chain(typed).collect();
        self.input.set(&lines.join("\n"));
    }

    /// Returns the last queued prompt of this terminal.
    pub(super) fn last_queued(&self) -> Option<&TurnRecord> {
        self.own_queued().next_back()
    }

    /// Describes the current activity and its duration; `None` without an activity.
    pub(super) fn activity(&self, now: Millis) -> Option<String> {
        let activity = self.projection.activity();
        if self.is_lost() || matches!(activity, Activity::Idle) {
            return None;
        }
        if let (Some(dialog), false) =
            (self.questions.shown(), matches!(activity, Activity::Retrying(..)))
        {
            let shown = dialog.ready(now) || self.input.is_empty();
            let waits = if shown {
                "waiting for an answer"
            } else {
                "there is a question: stop typing to see it"
            };
            return Some(waits.to_owned());
        }
        let for_so_long = |what: &str, since| Some(format!("{what}, {}", seconds(now - since)));
        match activity {
            Activity::Idle => None,
            Activity::Retrying(retry, until) => {
                let wait = seconds(until - now + 999);
                Some(format!("retrying in {wait}: {}", retry.reason))
            }
            Activity::AwaitingAnswer(call) | Activity::Calling(call) => {
                for_so_long(draw::title(&call.started), call.since)
            }
            Activity::Answering(since) => for_so_long("answering", since),
            Activity::Thinking(since) => for_so_long("thinking", since),
            Activity::Command(command, since) => for_so_long(command, since),
            Activity::AwaitingModel(since) => for_so_long("waiting for the model", since),
        }
    }

    /// Returns whether the spinner turns.
    pub(super) fn turns(&self) -> bool {
        self.projection.running().is_some() || self.offer.as_ref().is_some_and(LoginOffer::busy)
    }

    /// Removes the hint, the help and the mark of an unseen long turn, which are shown only until the next key.
    pub(super) fn unhint(&mut self) {
        self.long_turn = LongTurn::None;
        self.hint = None;
        self.help = false;
    }

    /// Sets the hint that sessions of Gemini CLI can be imported, unless the user types already.
    pub(super) fn offer_import(&mut self) {
        if self.input.is_empty() && self.hint.is_none() {
            let offer =
                "Gemini CLI has sessions of this directory: `tandem sessions import` imports them";
            self.hint = Some(offer.to_owned());
        }
    }

    /// Sets the hint that says why Ctrl+D does not quit. Called for keys without a meaning.
    pub(super) fn keep_begun(&mut self, key: KeyPress) {
        if key.is_control('d') {
            self.hint =
                Some("your unfinished prompt is kept; press Ctrl+C twice to quit".to_owned());
        }
    }

    /// Empties the line and returns its text.
    pub(super) fn take_input(&mut self) -> String {
        self.completion = None;
        mem::take(&mut self.input).into_text()
    }
}
