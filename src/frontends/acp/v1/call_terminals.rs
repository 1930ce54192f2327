//! Tool calls that an editor shows, and the terminals of the editor in which they run.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Tool calls that an editor shows, by their ids, with the terminals of the editor in which they run. The view reports
/// a call and the editor's answer reports its terminal, in either order, but the editor must know a call before it is
/// shown the call's terminal. So messages about either are sent while the lock is held.
#[derive(Default)]
pub(super) struct CallTerminals(Mutex<HashMap<String, CallTerminal>>);

#[derive(Default)]
struct CallTerminal {
    /// `true` if the editor knows the call.
    is_shown: bool,
    /// Id of the call's terminal, once there is one.
    id: Option<String>,
}

impl CallTerminals {
    /// Records that the editor knows a call, and calls `show` with the call's terminal if there is one already.
    pub(super) fn start(&self, call: &str, show: impl FnOnce(Option<&str>)) {
        let mut calls = self.0.lock();
        let terminal = calls.entry(call.to_owned()).or_default();
        terminal.is_shown = true;
        show(terminal.id.as_deref());
    }

    /// Records the terminal of a call, and calls `show` if the editor knows the call.
    pub(super) fn set(&self, call: &str, id: &str, show: impl FnOnce()) {
        let mut calls = self.0.lock();
        let terminal = calls.entry(call.to_owned()).or_default();
        terminal.id = Some(id.to_owned());
        if terminal.is_shown {
            show();
        }
    }

    /// Returns `true` if a call has a terminal.
    pub(super) fn contains(&self, call: &str) -> bool {
        self.0.lock().get(call).is_some_and(|terminal| terminal.id.is_some())
    }

    /// Forgets the terminal of a call, unless the editor knows the call: the editor then goes on to show the terminal.
    pub(super) fn release(&self, call: &str) {
        let mut calls = self.0.lock();
        if calls.get(call).is_some_and(|terminal| !terminal.is_shown) {
            calls.remove(call);
        }
    }

    /// Removes a call that has ended. Returns the id of the call's terminal, if it has one.
    pub(super) fn finish(&self, call: &str) -> Option<String> {
        self.0.lock().remove(call)?.id
    }
}

#[cfg(test)]
mod tests {
    use super::CallTerminals;

    /// Terminal that the editor was shown together with the call, and a mark if it was shown a terminal after the call.
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
