//! How much is allowed without a question: the next mode, and the next.

use super::super::Ui;
use crate::session::Mode;

impl Ui {
    /// The next mode that there can be. If it is refused, whatever the reason, the one before stays.
    pub(super) fn cycle_mode(&mut self) {
        let before = self.state.about.mode;
        let next = after(before, &self.session.modes());
        self.state.about.mode = next;
        self.when(self.session.set_mode(next), move |ui, set| {
            if let Err(why) = set {
                ui.state.about.mode = before;
                ui.state.hint = Some(why);
            }
        });
    }
}

/// The mode that follows this one, of those that there can be; of all, if that is not known.
fn after(mode: Mode, modes: &[Mode]) -> Mode {
    let all = Mode::ALL.map(|(_, mode)| mode);
    let at = all.iter().position(|known| *known == mode).unwrap_or(0);
    let mut others = all.iter().cycle().skip(at + 1).take(all.len());
    *others.find(|mode| modes.is_empty() || modes.contains(mode)).unwrap_or(&mode)
}
