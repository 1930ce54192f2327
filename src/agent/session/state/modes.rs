//! The approval mode of a session. Commands can begin and end plan mode. The end of plan mode restores the mode before,
//! so that a client that may give commands cannot get more allowed than before.

use std::sync::Arc;

use super::session_state::CurrentState;
use crate::session::events::event::Event;
use crate::session::events::log::Log;
use parking_lot::Mutex;
use tandem_approval::{Mode, Permissions};

/// The approval mode, and its changes.
pub struct Modes {
    permissions: Arc<Permissions>,
    log: Log,
    state: CurrentState,
    /// Lock that is held while the mode is read and then changed.
    changes: Mutex<()>,
}

impl Modes {
    pub(crate) fn new(permissions: Arc<Permissions>, log: Log, state: CurrentState) -> Self {
        Self { permissions, log, state, changes: Mutex::default() }
    }

    /// Returns the approval mode.
    pub fn current(&self) -> Mode {
        self.permissions.mode()
    }

    /// Returns the approval modes that the policy allows.
    pub fn allowed(&self) -> Vec<Mode> {
        self.permissions.modes().collect()
    }

    /// Sets the approval mode: how much is allowed without a question. Open questions stay open. The error says why the
    /// mode is not available.
    pub fn set(&self, mode: Mode) -> Result<(), String> {
        let _one_at_a_time = self.changes.lock();
        self.change(mode, None)
    }

    /// Begins plan mode. Returns `false` if it was on.
    pub(crate) fn begin_plan(&self) -> Result<bool, String> {
        let _one_at_a_time = self.changes.lock();
        let mode = self.current();
        if mode == Mode::Plan {
            return Ok(false);
        }
        self.change(Mode::Plan, Some(mode))?;
        Ok(true)
    }

    /// Ends plan mode: returns to the mode in which a command has begun it, unless the mode has changed since. Returns
    /// that mode, or `None` if the mode stays.
    pub(crate) fn end_plan(&self) -> Result<Option<Mode>, String> {
        let _one_at_a_time = self.changes.lock();
        let before = self.state.with_state(|state| state.before_plan);
        if let Some(mode) = before {
            self.change(mode, None)?;
        }
        Ok(before)
    }

    fn change(&self, mode: Mode, before_plan: Option<Mode>) -> Result<(), String> {
        self.permissions.set_mode(mode)?;
        self.log.append(Event::ModeChanged { mode, before_plan });
        Ok(())
    }
}
