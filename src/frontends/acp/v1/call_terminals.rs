//! The calls that an editor is shown, and the terminals of the editor that they run in.

use std::collections::HashMap;

use parking_lot::Mutex;

/// The calls that an editor is shown, and the terminals of the editor that they run in. A call and its
/// terminal come from two sides, in any order: the editor must know a call before its terminal.
#[derive(Default)]
pub(super) struct CallTerminals(Mutex<HashMap<String, CallTerminal>>);

#[derive(Default)]
struct CallTerminal {
    /// `true` if the editor knows the call.
    is_shown: bool,
    /// Id of the terminal.
    id: Option<String>,
}

impl CallTerminals {
    /// Shows a call, with its terminal if it has one already.
    pub(super) fn start(&self, call: &str, show: impl FnOnce(Option<&str>)) {
        let mut calls = self.0.lock();
        let terminal = calls.entry(call.to_owned()).or_default();
        terminal.is_shown = true;
        show(terminal.id.as_deref());
    }

    /// Gives a call its terminal, and shows the terminal if the editor knows the call.
    pub(super) fn set(&self, call: &str, id: &str, show: impl FnOnce()) {
        let mut calls = self.0.lock();
        let terminal = calls.entry(call.to_owned()).or_default();
        terminal.id = Some(id.to_owned());
        if terminal.is_shown {
            show();
        }
    }

    /// Returns whether a call has a terminal.
    pub(super) fn contains(&self, call: &str) -> bool {
        self.0.lock().get(call).is_some_and(|terminal| terminal.id.is_some())
    }

    /// Forgets the terminal of a call, unless the editor is shown it: that one stays visible.
    pub(super) fn release(&self, call: &str) {
        let mut calls = self.0.lock();
        if calls.get(call).is_some_and(|terminal| !terminal.is_shown) {
            calls.remove(call);
        }
    }

    /// Forgets a call that has ended; returns the id of the terminal that shows it, if one does.
    pub(super) fn finish(&self, call: &str) -> Option<String> {
        self.0.lock().remove(call)?.id
    }
}

#[cfg(test)]
mod tests {
    use super::CallTerminals;

    /// Terminals that the editor was shown in the call, with it and after it.
    #[derive(Debug, Default, PartialEq)]
    struct Shown {
        with_call: Option<String>,
        after_call: bool,
    }

    fn start(calls: &CallTerminals, shown: &mut Shown) {
        calls.start("call", |id| shown.with_call = id.map(str::to_owned));
    }

    #[test]
    fn a_terminal_is_shown_once_and_not_before_its_call() {
        let (calls, mut shown) = (CallTerminals::default(), Shown::default());
        start(&calls, &mut shown);
        calls.set("call", "t", || shown.after_call = true);
        assert_eq!(shown, Shown { with_call: None, after_call: true });

        let (calls, mut shown) = (CallTerminals::default(), Shown::default());
        calls.set("call", "t", || shown.after_call = true);
        start(&calls, &mut shown);
        assert_eq!(shown, Shown { with_call: Some("t".to_owned()), after_call: false });
    }

    #[test]
    fn a_released_terminal_stays_if_it_was_shown_and_else_never_is() {
        let (calls, mut shown) = (CallTerminals::default(), Shown::default());
        start(&calls, &mut shown);
        calls.set("call", "t", || ());
        calls.release("call");
        assert_eq!(calls.finish("call").as_deref(), Some("t"));
        assert_eq!(calls.finish("call"), None);

        calls.set("call", "t", || ());
        calls.release("call");
        start(&calls, &mut shown);
        assert_eq!(shown, Shown::default());
        assert_eq!(calls.finish("call"), None);
    }
}
