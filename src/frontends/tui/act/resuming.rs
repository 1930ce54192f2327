//! Choice among the stored sessions, which takes the place of the line. This module also carries out `/fork` and `/chat
//! resume`.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::super::news::Reply;
use super::super::picker::Picker;
use super::super::ui::{Quit, Ui};
use tandem_agent::session::{NOT_STORED, Query};
use tandem_agent::sessions::{find_checkpoint, fork_ended};

impl Ui {
    /// Offers the stored sessions that match the text typed with the command.
    pub(super) fn offer_sessions(&mut self, filter: &str) {
        let Some(stored) = &self.sessions else {
            let why = if self.session.elsewhere().is_some() {
                "this session runs elsewhere, and so do the others: `tandem attach --session ID` joins another one"
            } else {
                NOT_STORED
            };
            return self.state.hint = Some(why.to_owned());
        };
        let current = self.session.session().map(|session| session.id().to_owned());
        let picker = Picker::new(&stored.directory, current, filter);
        let query = picker.first_query();
        self.state.picker = Some(picker);
        self.list_sessions(query);
    }

    /// Offers an import of other agents' sessions if `importable` finds some before the first prompt.
    pub(in super::super) fn look_for_importable(
        &mut self,
        importable: Option<BoxFuture<'static, bool>>,
    ) {
        let Some(importable) = importable else { return };
        self.on_reply(importable.map(Ok).boxed(), |ui, found| {
            let is_new = ui.session.session().is_some_and(|session| !session.has_turns());
            if is_new && found == Ok(true) {
                ui.state.offer_import();
            }
        });
    }

    /// Switches between the sessions of this directory and the sessions of all directories.
    pub(super) fn change_scope(&mut self) {
        let Some(picker) = &mut self.state.picker else { return };
        picker.change_scope();
        let query = picker.first_query();
        self.list_sessions(query);
    }

    /// Lists stored sessions: first as many as the screen may show, then all.
    fn list_sessions(&mut self, query: Query) {
        let Some(stored) = &self.sessions else { return };
        let listed = stored.list(&query);
        self.on_reply(listed, move |ui, listed| {
            let Some(picker) = &mut ui.state.picker else { return };
            if picker.read(&query, listed) {
                let all = picker.query();
                ui.list_sessions(all);
            }
        });
    }

    /// Searches the prompts and answers of the sessions for the typed text.
    pub(super) fn search_sessions(&mut self) {
        let (Some(stored), Some(picker)) = (&self.sessions, &mut self.state.picker) else { return };
        let Some(text) = picker.begin_search() else { return };
        let found = stored.search(&picker.query(), &text);
        self.on_reply(found, move |ui, found| {
            if let Some(picker) = &mut ui.state.picker {
                picker.set_search_results(&text, found);
            }
        });
    }

    /// Closes the choice, unless a chosen session is being opened.
    pub(super) fn leave_sessions(&mut self) {
        self.state.picker.take_if(|picker| !picker.opening);
    }

    /// Opens the marked session and leaves the current session.
    pub(super) fn open_session(&mut self) {
        let running = self.state.projection.running().is_some();
        let (Some(stored), Some(picker)) = (&self.sessions, &mut self.state.picker) else { return };
        if running {
            let why =
                "A turn runs here: wait for its end, or press Esc to go back and cancel the turn.";
            return picker.failure = Some(why.to_owned());
        }
        let Some(id) = picker.begin_opening() else { return };
        self.on_reply((stored.open)(id), |ui, opened| {
            let Err(why) = opened else { return ui.quits = Some(Quit::Opened) };
            ui.state.picker.iter_mut().for_each(|picker| picker.not_opened(&why));
        });
    }

    /// Copies the current session, and opens the copy.
    pub(super) fn fork_session(&mut self, typed: &str) {
        let Some(session) = self.session.session().cloned() else { return };
        let copy = async move {
            let store = session.wait_stored().await?;
            let copy = fork_ended(&*store, session.id(), None).await;
            copy.map(|head| head.id).map_err(|error| error.to_string())
        };
        self.go_over(copy.boxed(), typed);
    }

    /// Opens the session of a checkpoint in place of the current session.
    pub(super) fn resume_checkpoint(&mut self, tag: &str, typed: &str) {
        let (Some(stored), Some(session)) = (&self.sessions, self.session.session()) else {
            return;
        };
        let (store, tag) = (Arc::clone(&stored.store), tag.to_owned());
        // A tag belongs to the session's directory, which may be another than that of this process.
        let directory = session.roots().first().unwrap_or(&stored.directory).clone();
        let find = async move {
            let listed = find_checkpoint(&*store, &directory, &tag).await;
            listed.map(|listed| listed.head.id).map_err(|error| error.to_string())
        };
        self.go_over(find.boxed(), typed);
    }

    /// Leaves the current session for another, whose id the future `id` returns. If the other session cannot be
    /// opened, the typed command comes back into the line.
    fn go_over(&mut self, id: Reply<String>, typed: &str) {
        let Some(stored) = &self.sessions else { return };
        if self.state.projection.running().is_some() {
            self.state.hint =
                Some("a turn runs here: wait for its end, or cancel the turn".to_owned());
            return self.state.put_back(&[typed.to_owned()]);
        }
        let open = Arc::clone(&stored.open);
        let opened = async move { open(id.await?).await };
        let typed = typed.to_owned();
        self.on_reply(opened.boxed(), move |ui, opened| match opened {
            Ok(()) => ui.quits = Some(Quit::Opened),
            Err(why) => {
                ui.state.hint = Some(format!("this session stays open: {why}"));
                ui.state.put_back(&[typed]);
            }
        });
    }
}
