//! Plan mode, begun and ended by a command: whoever may give commands cannot have more allowed by it
//! than was before.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Session;
use super::event::Event;
use crate::permission::Mode;
use crate::sync::Mutex;

/// The mode that a command's plan mode was begun in, if it is on.
#[derive(Default)]
pub(super) struct Before(Mutex<Option<Mode>>);

/// Flag, set if the model was told last that plan mode is on.
#[derive(Default)]
pub(super) struct PlanTold(AtomicBool);

const BEGUN: &str = "\n\n[Plan mode is on: only calls that read are allowed, and all others are \
    refused. Explore, then answer with a plan of what you would change; it begins when the user ends \
    plan mode.]";
const ENDED: &str = "\n\n[Plan mode has ended: other calls than those that read are allowed again, or \
    the user is asked about them.]";

impl Session {
    /// Changes how much is allowed without a question. What is being asked stays asked. An error
    /// says why the mode cannot be.
    pub fn set_mode(&self, mode: Mode) -> Result<(), String> {
        let mut before = self.before_plan.0.lock();
        self.change_mode(mode)?;
        *before = None;
        Ok(())
    }

    /// Tells the model that plan mode is on, or no longer, unless it knows.
    pub(super) fn tell_plan(&self) {
        let is_on = self.mode() == Mode::Plan;
        if self.plan_told.0.swap(is_on, Ordering::Relaxed) != is_on {
            let told = if is_on { BEGUN } else { ENDED };
            self.log.append(Event::ToldNext(told.to_owned()));
        }
    }

    /// Lets the model, which may have lost it, be told again that plan mode is on.
    pub(super) fn tell_plan_again(&self) {
        self.plan_told.0.store(false, Ordering::Relaxed);
    }

    /// Begins plan mode; whether that was not on.
    pub(super) fn begin_plan(&self) -> Result<bool, String> {
        let mut before = self.before_plan.0.lock();
        let mode = self.mode();
        if mode == Mode::Plan {
            return Ok(false);
        }
        self.change_mode(Mode::Plan)?;
        *before = Some(mode);
        Ok(true)
    }

    /// Goes back to the mode that plan mode was begun in, if a command has begun it and nobody has
    /// changed the mode since; which one.
    pub(super) fn end_plan(&self) -> Result<Option<Mode>, String> {
        let mut before = self.before_plan.0.lock();
        if let Some(mode) = *before {
            self.change_mode(mode)?;
        }
        Ok(before.take())
    }

    fn change_mode(&self, mode: Mode) -> Result<(), String> {
        self.permissions.set_mode(mode)?;
        self.log.append(Event::ModeChanged { mode });
        Ok(())
    }
}
