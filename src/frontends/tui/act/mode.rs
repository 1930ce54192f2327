//! Choice of the approval mode, which says which calls run without a question: the next mode, or a mode by its name.

use super::super::ui::Ui;
use tandem_agent::session::Mode;

/// Modes that Shift+Tab goes through. Yolo is not among them, so that a user does not get there by pressing the key
/// once too often.
const MODE_ROUND: [Mode; 3] = [Mode::Default, Mode::AutoEdit, Mode::Plan];

impl Ui {
    /// Changes to the next mode that the session allows.
    pub(super) fn cycle_mode(&mut self) {
        self.set_mode(after(self.state.about.mode, &self.session.modes()));
    }

    /// Changes to the mode with this name; without a name, shows the current mode.
    pub(super) fn name_mode(&mut self, name: &str) {
        let (mode, known) = (self.state.about.mode, self.session.modes());
        let known = if known.is_empty() { Mode::ALL.map(|(_, mode)| mode).to_vec() } else { known };
        let names = known.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match name.parse() {
            Ok(wanted) => self.set_mode(wanted),
            Err(_) if name.is_empty() => {
                self.state.hint = Some(format!("the mode is {mode}; /mode NAME: {names}"));
            }
            Err(_) => {
                let name = tandem_content::visible::visible_line(name);
                self.state.hint = Some(format!("Unknown mode `{name}`. Modes: {names}"));
            }
        }
    }

    /// Sets the mode on the screen at once. If the session refuses the change, the previous mode comes back.
    fn set_mode(&mut self, mode: Mode) {
        let before = std::mem::replace(&mut self.state.about.mode, mode);
        self.on_reply(self.session.set_mode(mode), move |ui, set| {
            if let Err(why) = set {
                ui.state.about.mode = before;
                ui.state.hint = Some(why);
            }
        });
    }
}

/// Returns the mode after `mode` in the round, out of the allowed `modes`; an empty list allows all.
fn after(mode: Mode, modes: &[Mode]) -> Mode {
    let next = MODE_ROUND.iter().position(|known| *known == mode).map_or(0, |at| at + 1);
    let mut others = MODE_ROUND.iter().cycle().skip(next).take(MODE_ROUND.len());
    *others.find(|mode| modes.is_empty() || modes.contains(mode)).unwrap_or(&mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_through_all_modes_but_the_one_without_questions() {
        let round = [Mode::Default, Mode::AutoEdit, Mode::Plan, Mode::Default];
        for pair in round.windows(2) {
            assert_eq!(after(pair[0], &[]), pair[1]);
            assert_eq!(after(pair[0], &round), pair[1]);
        }
        assert_eq!(after(Mode::Yolo, &[]), Mode::Default);
        assert_eq!(after(Mode::Default, &[Mode::Default, Mode::Plan]), Mode::Plan);
    }
}
