//! The terminal itself: taken over, given back whatever happens, written to without waiting.

use std::io::{self, Write as _};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::oneshot;

/// Pasted text comes in one piece.
const TAKE: &str = "\x1b[?2004h";
const GIVE_BACK: &str = "\x1b[?2004l\x1b[?2026l\x1b[0m\x1b[?25h";

/// Keys are told apart, such as Enter and Shift+Enter: by kitty's protocol, with the Latin letter of
/// a key that writes another one, so that Ctrl+C is known on every keyboard; and by xterm's
/// modifyOtherKeys, which tmux speaks too. Who knows one of them passes over the other.
const TELL_KEYS: &str = "\x1b[>5u\x1b[>4;1m";
const TELL_KEYS_NO_MORE: &str = "\x1b[>4m\x1b[<u";

/// The title that was there is kept, and comes back.
const KEEP_TITLE: &str = "\x1b[22;2t";
const TITLE_BACK: &str = "\x1b[23;2t";

/// Time limit for writing to a terminal that takes nothing when it is given back.
const PATIENCE: Duration = Duration::from_millis(500);

/// A terminal that is ours until this is dropped.
pub(super) struct RawTerminal {
    /// Settings that the terminal had before it was taken over. `None` while the terminal is given back: then nothing
    /// is written to it.
    before: Option<Termios>,
    /// `true` if the title will be changed, and so the one before is kept.
    titled: bool,
    jobs: mpsc::Sender<WriteJob>,
    /// Bytes that are being written.
    writing: Option<oneshot::Receiver<()>>,
}

/// Something to write, and whom to tell that it has been.
type WriteJob = (String, Box<dyn FnOnce() + Send>);

impl RawTerminal {
    /// Takes it over; and with it the title if it is to be another.
    pub(super) fn take(titled: bool) -> io::Result<Self> {
        let (jobs, waiting) = mpsc::channel();
        // A terminal may be stopped, and must not stop the session.
        thread::Builder::new().name("terminal".to_owned()).spawn(move || work(&waiting))?;
        let mut terminal =
            Self { before: None, titled: titled && !is_console(), jobs, writing: None };
        terminal.take_again()?;
        Ok(terminal)
    }

    /// Takes it over again, after it was given back.
    pub(super) fn take_again(&mut self) -> io::Result<()> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        self.before = Some(before);
        let tell_keys = if is_console() { "" } else { TELL_KEYS };
        let keep_title = if self.titled { KEEP_TITLE } else { "" };
        self.write(format!("{TAKE}{tell_keys}{keep_title}"));
        Ok(())
    }

    /// Gives it back for a while, as it was.
    pub(super) fn give_back(&mut self, last: &str) {
        let Some(before) = self.before.take() else { return };
        let tell_no_more = if is_console() { "" } else { TELL_KEYS_NO_MORE };
        let title_back = if self.titled { TITLE_BACK } else { "" };
        let (done, written) = mpsc::channel();
        // Who has closed or stopped the terminal sees nothing, and needs nothing.
        let tell = Box::new(move || _ = done.send(()));
        if self.jobs.send((format!("{last}{title_back}{tell_no_more}{GIVE_BACK}"), tell)).is_ok() {
            let _ = written.recv_timeout(PATIENCE);
        }
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }

    /// Writes, after all that is being written.
    pub(super) fn write(&mut self, text: String) {
        if self.before.is_none() {
            return;
        }
        let (done, written) = oneshot::channel();
        let tell = Box::new(move || _ = done.send(()));
        self.writing = self.jobs.send((text, tell)).is_ok().then_some(written);
    }

    /// Returns whether something is being written.
    pub(super) fn busy(&self) -> bool {
        self.writing.is_some()
    }

    /// Waits until all is written.
    pub(super) async fn written(&mut self) {
        if let Some(writing) = &mut self.writing {
            let _ = writing.await;
            self.writing = None;
        }
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        self.give_back("\r\n");
    }
}

/// Writes one thing after the other, until nobody has more.
fn work(jobs: &mpsc::Receiver<WriteJob>) {
    for (text, tell) in jobs {
        let mut stdout = io::stdout().lock();
        // A terminal that is gone is noticed where its keys are read.
        let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        drop(stdout);
        tell();
    }
}

/// Columns and rows, also of a terminal that does not tell.
pub(super) fn size() -> (usize, usize) {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

/// Checks that the terminal can show a conversation.
pub(super) fn ensure_usable() -> anyhow::Result<()> {
    anyhow::ensure!(
        kind() != "dumb",
        "this terminal has no rows that change (TERM=dumb), which a conversation needs: `tandem -p \
         PROMPT` does without"
    );
    Ok(())
}

/// Returns the kind of terminal that `TERM` names.
fn kind() -> String {
    std::env::var("TERM").unwrap_or_default()
}

/// Returns whether the terminal is Linux's own console, which takes some sequences that it does not
/// know for others.
pub(super) fn is_console() -> bool {
    kind() == "linux"
}

/// Returns whether a terminal breaks its rows anew when it gets narrower, as far as its variables
/// tell: nothing asks it. Most do.
pub(super) fn reflows(var: impl Fn(&str) -> Option<String>) -> bool {
    if var("TMUX").is_some() {
        return true;
    }
    let kind = var("TERM").unwrap_or_default();
    let cuts = |known: &&str| kind == *known || kind.starts_with(&format!("{known}-"));
    let known = ["screen", "linux", "st", "vt100", "vt220", "dumb", "cygwin"].iter().any(cuts);
    !known && var("XTERM_VERSION").is_none() && var("STY").is_none()
}

#[cfg(test)]
mod tests {
    use super::reflows;

    #[track_caller]
    fn check(vars: &[(&str, &str)], expected: bool) {
        let var = |name: &str| {
            let found = vars.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        assert_eq!(reflows(var), expected, "{vars:?}");
    }

    #[test]
    fn a_terminal_that_cuts_its_rows_is_known_by_its_variables() {
        check(&[("TERM", "xterm-256color")], true);
        check(&[("TERM", "xterm-256color"), ("XTERM_VERSION", "XTerm(390)")], false);
        check(&[("TERM", "screen.xterm-256color"), ("STY", "1.pts-0.host")], false);
        check(&[("TERM", "screen-256color"), ("TMUX", "/tmp/tmux")], true);
        check(&[("TERM", "st-256color")], false);
        check(&[("TERM", "linux")], false);
        check(&[], true);
    }
}
