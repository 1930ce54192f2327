//! Actions of the user: each key changes the screen's state or calls the session.

mod completing;
mod login;
mod mode;
mod models;
mod question;
mod resuming;
mod rewinding;

use futures::FutureExt as _;
use futures::future::join_all;

use self::login::GO_ON;
use super::clock::now;
use super::input::{Edit, TextInput};
use super::item::{HistoryItem, ItemBody};
use super::keyboard::KeyPress;
use super::keys::{self, Focus, Intent};
use super::local::{self, Local};
use super::offer::{LoginOffer, NextStep, OfferReason};
use super::signals::{TerminalSignal, TerminalSignals};
use super::ui::{Quit, Ui};
use super::{clipboard, editor, markdown, prompt, signals};

impl Ui {
    pub(super) async fn key(&mut self, key: KeyPress) -> anyhow::Result<()> {
        let focus = self.state.focus(now());
        if self.is_hasty(key, focus) {
            return Ok(());
        }
        let Some(intent) = keys::intent(key, focus, self.state.leaves(focus)) else {
            self.state.keep_begun(key);
            return Ok(());
        };
        self.state.defer_dialog(focus, now());
        let had_help = self.state.help;
        self.state.unhint();
        match intent {
            Intent::Edit(edit) => self.edit(&edit),
            Intent::Enter => return self.enter(focus).await,
            Intent::Up | Intent::Down => self.vertical(intent == Intent::Down, focus),
            Intent::Complete if focus == Focus::Picker => self.change_scope(),
            Intent::Complete => self.complete(),
            Intent::Escape => self.escape(focus, had_help),
            Intent::Interrupt if matches!(focus, Focus::Picker | Focus::Rewind | Focus::Models) => {
                self.escape(focus, had_help);
            }
            Intent::Interrupt => self.interrupt(),
            Intent::Quit => self.quits = Some(Quit::Wanted),
            Intent::Suspend => return self.suspend(),
            Intent::Search if focus == Focus::Picker => self.search_sessions(),
            Intent::Search => self.search_prompts(),
            Intent::CycleMode => self.cycle_mode(),
            Intent::Unfold => self.unfold(),
            Intent::UnfoldAll => self.unfold_all(),
            Intent::Help => self.state.help = !had_help,
            Intent::Editor => return self.edit_prompt().await,
            Intent::Redraw => self.display.resized().await,
            Intent::Choose(key) if focus == Focus::Offer => {
                let choice = self.state.offer.as_ref().and_then(|offer| offer.chosen(key));
                if let Some(choice) = choice {
                    self.choose_login(choice);
                }
            }
            Intent::Choose('/') if self.state.about.elsewhere.is_some() => {
                self.state.questions.begin_saying("/");
            }
            Intent::Choose(key) => {
                let choice = self.state.questions.shown().and_then(|dialog| dialog.chosen(key));
                if let Some(choice) = choice {
                    return self.choose(choice).await;
                }
            }
            Intent::Scroll(scroll) => {
                self.state.questions.shown_mut().into_iter().for_each(|it| it.scroll(scroll));
            }
            Intent::Read => self.state.questions.read(focus != Focus::Reader),
        }
        Ok(())
    }

    /// Offers the earlier prompts that have the typed text in them.
    fn search_prompts(&mut self) {
        self.state.completion = self.sources.search(&self.state.input);
        if self.state.completion.is_none() {
            self.state.hint = Some("no earlier prompt has this text".to_owned());
        }
    }

    /// Returns whether to drop a key, and sets a hint that says why.
    fn is_hasty(&mut self, key: KeyPress, focus: Focus) -> bool {
        let Some(hint) = self.recent_keys.drop_reason(key, focus, &self.state) else {
            return false;
        };
        self.state.defer_dialog(focus, now());
        self.state.unhint();
        self.state.hint = Some(hint.to_owned());
        true
    }

    pub(super) fn pasted(&mut self, text: String) {
        let focus = self.state.focus(now());
        self.state.defer_dialog(focus, now());
        match focus {
            Focus::Question | Focus::Reader | Focus::Offer | Focus::Rewind | Focus::Waiting => {}
            Focus::Saying | Focus::Key | Focus::Picker | Focus::Models | Focus::Input { .. } => {
                self.edit(&Edit::Insert(text));
            }
        }
    }

    fn edit(&mut self, edit: &Edit) {
        if let Some(saying) = self.state.questions.saying_mut() {
            return saying.edit(edit);
        }
        if self.state.focus(now()) == Focus::Key
            && let Some(key) = self.state.offer.as_mut().and_then(LoginOffer::typing)
        {
            return key.edit(edit);
        }
        if let Some(picker) = &mut self.state.picker {
            return picker.edit(edit);
        }
        if let Some(menu) = &mut self.state.models {
            return menu.edit(edit);
        }
        let searches = self.state.completion.as_ref().is_some_and(|it| it.searches);
        self.state.input.edit(edit);
        self.sources.history.leave();
        if searches {
            self.state.completion = self.sources.search(&self.state.input);
        } else {
            self.offer();
        }
    }

    async fn enter(&mut self, focus: Focus) -> anyhow::Result<()> {
        match focus {
            Focus::Question => {
                let marked = self.state.questions.shown().and_then(super::dialog::Dialog::marked);
                if let Some(choice) = marked {
                    return self.choose(choice).await;
                }
            }
            Focus::Saying => {
                let saying = self.state.questions.saying_mut();
                if !saying.is_some_and(TextInput::continue_line) {
                    self.say();
                }
            }
            Focus::Offer => {
                let marked = self.state.offer.as_ref().and_then(LoginOffer::marked);
                if let Some(choice) = marked {
                    self.choose_login(choice);
                }
            }
            Focus::Key => self.check_key(),
            Focus::Picker => self.open_session(),
            Focus::Rewind => self.choose_rewind(),
            Focus::Models => self.choose_model(),
            Focus::Reader | Focus::Waiting => {}
            Focus::Input { .. } => {
                if self.state.input.continue_line() {
                    self.state.completion = None;
                    return Ok(());
                }
                if let Some(completion) = self.state.completion.take()
                    && completion.accept(&mut self.state.input)
                {
                    return Ok(());
                }
                self.submit();
            }
        }
        Ok(())
    }

    fn submit(&mut self) {
        let parts = prompt::parts(self.state.input.text());
        if parts.is_empty() {
            let is_empty = self.state.input.text().trim().is_empty();
            if is_empty
                && self.state.can_go_on
                && self.state.running().is_none()
                && !self.state.is_lost()
            {
                self.state.can_go_on = false;
                self.send(GO_ON);
            }
            return;
        }
        let local = local::parse_command(self.state.input.text());
        let local = local.filter(|(local, _)| self.sessions.is_some() || !local.goes_over());
        let local = local.filter(|(local, _)| self.session.session().is_some() || !local.is_menu());
        let local = local.map(|(local, more)| (local, more.to_owned()));
        if local.is_none() && self.state.is_lost() {
            return self.state.hint = Some("not sent: the connection is lost".to_owned());
        }
        let typed = self.state.take_input();
        self.sources.history.add(typed.trim());
        match local {
            Some((Local::Auth, _)) => {
                self.offer_login(OfferReason::Wanted, None, NextStep::Nothing);
            }
            Some((Local::Copy, what)) => self.copy(&what),
            Some((Local::Fork, _)) => self.fork_session(&typed),
            Some((Local::ResumeCheckpoint, tag)) => self.resume_checkpoint(&tag, &typed),
            Some((Local::Help, _)) => {
                self.state.transcript.aside(HistoryItem::new(ItemBody::Help(local::names())));
            }
            Some((Local::Mode, name)) => self.name_mode(&name),
            Some((Local::Model, _)) => self.offer_models(),
            Some((Local::Thinking, _)) => self.offer_levels(&typed),
            Some((Local::Resume, filter)) => self.offer_sessions(&filter),
            Some((Local::Rewind, _)) => self.offer_rewind(),
            Some((Local::Quit, _)) => self.quits = Some(Quit::Wanted),
            None if self.no_key(&parts) => {
                self.offer_login(OfferReason::Missing, None, NextStep::Say(typed));
            }
            None => self.send(&typed),
        }
    }

    /// Puts the last answer, or its last block of code, on the clipboard.
    fn copy(&mut self, what: &str) {
        let answer = &self.state.answer.text;
        let (what, text) = match what {
            "" => ("answer", Some(answer.trim().to_owned()).filter(|text| !text.is_empty())),
            "code" => ("code block", markdown::last_code(answer)),
            _ => return self.state.hint = Some("/copy, or /copy code".to_owned()),
        };
        let copied = match text {
            Some(text) => clipboard::copies(&text, self.in_tmux).map(|bytes| (bytes, text.len())),
            None => Err(format!("not copied: there is no {what} yet")),
        };
        self.state.hint = Some(match copied {
            Ok((bytes, length)) => {
                self.display.terminal.write(bytes);
                let tmux = if self.in_tmux { "; tmux needs `set-clipboard on` for it" } else { "" };
                format!("the last {what} is sent to the clipboard ({length} bytes){tmux}")
            }
            Err(why) => why,
        });
    }

    /// Sends a prompt in the user's name. If the session refuses it, the text comes back into the line.
    fn send(&mut self, text: &str) {
        let typed = text.to_owned();
        self.on_reply(self.session.prompt(prompt::parts(text)), move |ui, taken| {
            if let Err(why) = taken {
                ui.state.hint = Some(why);
                if ui.state.input.is_empty() {
                    ui.state.input.set(&typed);
                }
            }
        });
    }

    /// Shows the newest shortened item in full.
    fn unfold(&mut self) {
        if !self.state.transcript.unfold(self.display.columns()) {
            self.state.hint = Some("nothing else is shown in short".to_owned());
        }
    }

    fn unfold_all(&mut self) {
        self.state.transcript.unfolded = !self.state.transcript.unfolded;
        let what = if self.state.transcript.unfolded { "in full" } else { "in short" };
        self.state.hint = Some(format!("thoughts and outputs are shown {what} from now on"));
    }

    fn vertical(&mut self, down: bool, focus: Focus) {
        if let (Focus::Question, Some(dialog)) = (focus, self.state.questions.shown_mut()) {
            return dialog.select(down);
        }
        if let (Focus::Offer, Some(offer)) = (focus, &mut self.state.offer) {
            return offer.select(down);
        }
        if let (Focus::Picker, Some(picker)) = (focus, &mut self.state.picker) {
            return picker.select(down);
        }
        if let (Focus::Rewind, Some(menu)) = (focus, &mut self.state.rewind) {
            return menu.select(down);
        }
        if let (Focus::Models, Some(menu)) = (focus, &mut self.state.models) {
            return menu.select(down);
        }
        if let Some(completion) = &mut self.state.completion {
            return completion.select(down);
        }
        let input = &mut self.state.input;
        if down {
            if !input.on_last_line() {
                input.edit(&Edit::Down);
            } else if let Some(text) = self.sources.history.next() {
                input.set(&text);
            }
        } else if !input.on_first_line() {
            input.edit(&Edit::Up);
        } else if !self.take_back() {
            let typed = self.state.input.text().to_owned();
            if let Some(text) = self.sources.history.previous(&typed) {
                self.state.input.set(&text);
            }
        }
    }

    /// Takes the last queued prompt back into the line, if the line is empty. Returns `false` if there is no such
    /// prompt or the line is not empty.
    fn take_back(&mut self) -> bool {
        let Some(queued) = self.state.last_queued().filter(|_| self.state.input.is_empty()) else {
            return false;
        };
        let (turn, text) = (queued.id, queued.prompt.clone());
        self.on_reply(self.session.take_back(turn), move |ui, taken| {
            if taken == Ok(true) && ui.state.input.is_empty() {
                ui.state.input.set(&text);
            }
        });
        true
    }

    fn escape(&mut self, focus: Focus, had_help: bool) {
        if focus == Focus::Saying {
            self.state.questions.leave_saying();
        } else if focus == Focus::Reader {
            self.state.questions.read(false);
        } else if matches!(focus, Focus::Offer | Focus::Key | Focus::Waiting) {
            self.leave_login();
        } else if focus == Focus::Picker {
            self.leave_sessions();
        } else if focus == Focus::Rewind {
            self.leave_rewind();
        } else if focus == Focus::Models {
            self.leave_models();
        } else if self.state.completion.take().is_none() && !had_help && !self.cancel("Esc") {
            self.escape_idle();
        }
    }

    /// Cancels the running turn, and takes this terminal's queued prompts back into the line; returns `false` if no
    /// turn runs. A turn of another client is cancelled only when the key is pressed twice.
    fn cancel(&mut self, key: &str) -> bool {
        let Some(running) = self.state.running() else { return false };
        let turn = running.turn;
        let confirmed = self.recent_keys.take_confirmed(turn);
        if !running.own && !confirmed {
            let who = running.by.as_ref().map_or("somebody else".to_owned(), ToString::to_string);
            self.state.hint =
                Some(format!("{who} began this turn: press {key} again to cancel it"));
            self.recent_keys.ask_to_confirm(turn);
            return true;
        }
        // The queued prompts are taken back first: otherwise the next of them would begin when the turn ends.
        self.take_all_back();
        self.on_reply(self.session.cancel(turn), |ui, cancelled| {
            if let Err(why) = cancelled {
                ui.state.hint = Some(why);
            }
        });
        true
    }

    /// Removes this terminal's prompts from the queue, and puts them back into the input line.
    fn take_all_back(&mut self) {
        let waiting = self.state.own_queued().map(|queued| (queued.id, queued.prompt.clone()));
        let taken = waiting.map(|(turn, text)| {
            let taken = self.session.take_back(turn);
            taken.map(|taken| (taken == Ok(true)).then_some(text))
        });
        let taken = join_all(taken.collect::<Vec<_>>());
        self.on_reply(taken.map(Ok).boxed(), |ui, texts| {
            let texts: Vec<_> = texts.unwrap_or_default().into_iter().flatten().collect();
            if !texts.is_empty() {
                ui.state.put_back(&texts);
            }
        });
    }

    fn interrupt(&mut self) {
        let others = self.state.running().is_some_and(|running| !running.own);
        if others && !self.state.is_lost() {
            self.recent_keys.forget_interrupt();
            self.cancel("Ctrl+C");
            return;
        }
        if self.recent_keys.interrupt() {
            self.quits = Some(Quit::Wanted);
            return;
        }
        if !self.cancel("Ctrl+C") {
            self.state.take_input();
        }
        self.state.hint = Some("press Ctrl+C again to quit".to_owned());
    }

    /// Lets the user edit the prompt in the external editor.
    async fn edit_prompt(&mut self) -> anyhow::Result<()> {
        let text = self.state.input.text().to_owned();
        if let Some(text) = self.edit_externally(&text, ".md").await? {
            self.state.input.set(text.trim_end());
        }
        Ok(())
    }

    /// Lets the user edit a text in the external editor and returns the result; `None`, and a hint with the reason, if
    /// that fails.
    async fn edit_externally(
        &mut self,
        text: &str,
        suffix: &str,
    ) -> anyhow::Result<Option<String>> {
        self.display.terminal.written().await;
        self.display.leave();
        let edited = self.until_edited(text, suffix).await;
        // Signals that came meanwhile were meant for the editor, so they are dropped.
        self.signals = TerminalSignals::listen()?;
        self.display.come_back()?;
        match edited {
            Ok(text) => Ok(Some(text)),
            Err(err) => {
                self.state.hint = Some(format!("not edited: {err:#}"));
                Ok(None)
            }
        }
    }

    /// Waits until the editor has ended. Signals of the terminal are the editor's meanwhile; only a stop (Ctrl+Z) stops
    /// this process too.
    async fn until_edited(&mut self, text: &str, suffix: &str) -> anyhow::Result<String> {
        let edited = editor::edit(&self.editor, text, suffix);
        tokio::pin!(edited);
        loop {
            tokio::select! {
                edited = &mut edited => return edited,
                came = self.signals.next() => {
                    if came == TerminalSignal::Stop {
                        signals::stop();
                    }
                }
            }
        }
    }
}
