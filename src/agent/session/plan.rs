//! Plan mode, begun and ended by a command: whoever may give commands cannot have more allowed by it
//! than was before.

use super::Session;
use super::event::Event;
use crate::permission::Mode;

const BEGUN: &str = "\n\n[Plan mode is on: only calls that read are allowed, and all others are \
    refused. Explore, then answer with a plan of what you would change; it begins when the user ends \
    plan mode.]";
const ENDED: &str = "\n\n[Plan mode has ended: other calls than those that read are allowed again, or \
    the user is asked about them.]";

/// Returns whether a text tells the model that plan mode is on, if it is one that tells of plan mode.
pub(super) fn told(text: &str) -> Option<bool> {
    match text {
        BEGUN => Some(true),
        ENDED => Some(false),
        _ => None,
    }
}

impl Session {
    /// Changes how much is allowed without a question. What is being asked stays asked. An error
    /// says why the mode cannot be.
    pub fn set_mode(&self, mode: Mode) -> Result<(), String> {
        let _one_at_a_time = self.approvals.mode_changes.lock();
        self.change_mode(mode, None)
    }

    /// Tells the model that plan mode is on, or no longer, unless it knows.
    pub(super) fn tell_plan(&self) {
        let is_on = self.mode() == Mode::Plan;
        if self.state(|state| state.plan_told) != is_on {
            let told = if is_on { BEGUN } else { ENDED };
            self.log.append(Event::ToldNext(told.to_owned()));
        }
    }

    /// Begins plan mode; whether that was not on.
    pub(super) fn begin_plan(&self) -> Result<bool, String> {
        let _one_at_a_time = self.approvals.mode_changes.lock();
        let mode = self.mode();
        if mode == Mode::Plan {
            return Ok(false);
        }
        self.change_mode(Mode::Plan, Some(mode))?;
        Ok(true)
    }

    /// Goes back to the mode that plan mode was begun in, if a command has begun it and nobody has
    /// changed the mode since; which one.
    pub(super) fn end_plan(&self) -> Result<Option<Mode>, String> {
        let _one_at_a_time = self.approvals.mode_changes.lock();
        let before = self.state(|state| state.before_plan);
        if let Some(mode) = before {
            self.change_mode(mode, None)?;
        }
        Ok(before)
    }

    fn change_mode(&self, mode: Mode, before_plan: Option<Mode>) -> Result<(), String> {
        self.approvals.permissions.set_mode(mode)?;
        self.log.append(Event::ModeChanged { mode, before_plan });
        Ok(())
    }
}
