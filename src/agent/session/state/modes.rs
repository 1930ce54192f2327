//! The approval mode of a session. Commands can begin and end plan mode. The end of plan mode restores the mode before,
//! so that a client that may give commands cannot get more allowed than before.

use std::sync::Arc;

use super::session_state::CurrentState;
use crate::session::events::event::Event;
use crate::session::events::log::Log;
use parking_lot::Mutex;
use tandem_approval::{Mode, Permissions};

/// Text that tells the model that plan mode is on.
const PLAN_MODE_BEGUN: &str = "\n\n[Plan mode is on: only calls that read are allowed, and \
    all others are refused. Explore, then answer with a plan of what you would change; it begins when \
    the user ends plan mode.]";

/// Text that tells the model that plan mode has ended.
const PLAN_MODE_ENDED: &str = "\n\n[Plan mode has ended: other calls than those that read \
    are allowed again, or the user is asked about them.]";

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

    /// Tells the model that plan mode has begun or ended, if that differs from `was_on`, which the model was told last.
    pub(crate) fn tell_plan_mode(&self, was_on: bool) {
        let is_on = self.current() == Mode::Plan;
        if was_on != is_on {
            let told = if is_on { PLAN_MODE_BEGUN } else { PLAN_MODE_ENDED };
            self.log.append(Event::ToldNext(told.to_owned()));
        }
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

/// Returns `true` for a text that tells the model that plan mode is on, `false` for a text that plan mode has ended,
/// and `None` for any other text.
pub(crate) fn told_plan_mode(text: &str) -> Option<bool> {
    match text {
        PLAN_MODE_BEGUN => Some(true),
        PLAN_MODE_ENDED => Some(false),
        _ => None,
    }
}
