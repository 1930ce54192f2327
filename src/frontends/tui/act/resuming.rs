//! The choice among the stored sessions, in the place of the line to type in.

use futures::FutureExt as _;

use super::super::picker::Picker;
use super::super::ui::{Quit, Ui};
use tandem_agent::session::Query;

impl Ui {
    /// Offers the stored sessions; what is typed with the command filters them.
    pub(super) fn offer_sessions(&mut self, filter: &str) {
        let Some(stored) = &self.sessions else {
            let why = if self.session.elsewhere().is_some() {
                "the sessions are where this one runs: `tandem attach --session ID` joins another"
            } else {
                "sessions are not stored: `TANDEM_SESSIONS` is empty"
            };
            return self.state.hint = Some(why.to_owned());
        };
        let current = self.session.session().map(|session| session.id().to_owned());
        let picker = Picker::new(&stored.directory, current, filter);
        let query = picker.first_query();
        self.state.picker = Some(picker);
        self.list_sessions(query);
    }

    /// Offers the sessions of all directories in place of those of this one, or the other way round.
    pub(super) fn change_scope(&mut self) {
        let Some(picker) = &mut self.state.picker else { return };
        picker.change_scope();
        let query = picker.first_query();
        self.list_sessions(query);
    }

    /// Reads stored sessions: first those that may be shown, then all.
    fn list_sessions(&mut self, query: Query) {
        let Some(stored) = &self.sessions else { return };
        let (store, asked) = (stored.store.clone(), query.clone());
        let listed = async move { store.list(&asked).await.map_err(|error| error.to_string()) };
        self.when(listed.boxed(), move |ui, listed| {
            let Some(picker) = &mut ui.state.picker else { return };
            if picker.read(&query, listed) {
                let all = picker.query();
                ui.list_sessions(all);
            }
        });
    }

    /// Takes the choice away, unless it was made.
    pub(super) fn leave_sessions(&mut self) {
        self.state.picker.take_if(|picker| !picker.opening);
    }

    /// Opens the marked session, and leaves this one for it.
    pub(super) fn open_session(&mut self) {
        let running = self.state.projection.running().is_some();
        let (Some(stored), Some(picker)) = (&self.sessions, &mut self.state.picker) else { return };
        if picker.opening {
            return;
        }
        let Some(id) = picker.marked().map(|marked| marked.head.id.clone()) else { return };
        if running {
            let why = "A turn runs here: wait for its end, or leave this with Esc and cancel it.";
            return picker.failure = Some(why.to_owned());
        }
        (picker.opening, picker.failure) = (true, None);
        self.when((stored.open)(id), |ui, opened| {
            let Err(why) = opened else { return ui.quits = Some(Quit::Opened) };
            if let Some(picker) = &mut ui.state.picker {
                (picker.opening, picker.failure) = (false, Some(format!("Not opened: {why}.")));
            }
        });
    }
}
