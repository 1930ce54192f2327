//! Control of the terminal: taking it over, giving it back in every case (also after a panic), and writing to it in a
//! thread of its own.

use std::io::{self, Write as _};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::oneshot;

/// Sequence that enables bracketed paste, so that pasted text arrives in one piece.
const ENABLE_PASTE: &str = "\x1b[?2004h";
/// Sequences that disable bracketed paste and synchronized output, reset the style and show the cursor.
const GIVE_BACK: &str = "\x1b[?2004l\x1b[?2026l\x1b[0m\x1b[?25h";

/// Sequences that ask the terminal to report keys such as Enter and Shift+Enter differently. The first asks by kitty's
/// keyboard protocol, which also reports the Latin letter of a key that types another letter, so that Ctrl+C is
/// recognised on every keyboard layout. The second asks by xterm's modifyOtherKeys, which tmux understands too. A
/// terminal ignores the sequence that it does not know.
const TELL_KEYS: &str = "\x1b[>5u\x1b[>4;1m";
/// Sequences that end both ways of reporting keys.
const TELL_KEYS_NO_MORE: &str = "\x1b[>4m\x1b[<u";

/// Sequence that saves the window's title on the terminal's own stack; `TITLE_BACK` restores the saved title.
const KEEP_TITLE: &str = "\x1b[22;2t";
const TITLE_BACK: &str = "\x1b[23;2t";

/// Time limit for the last write before the terminal is given back: a stopped terminal accepts no output.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_millis(500);

/// The terminal in raw mode. Dropping this value gives the terminal back.
pub(super) struct RawTerminal {
    /// Settings that the terminal had before it was taken over. `None` while the terminal is given back; in this
    /// state, the terminal is not written to.
    before: Option<Termios>,
    /// `true` if the screen will change the window's title. Then the previous title is saved and restored.
    titled: bool,
    /// Queue of the writer thread.
    jobs: mpsc::Sender<WriteJob>,
    /// Completion of the last queued write; `None` if no write is pending.
    writing: Option<oneshot::Receiver<()>>,
}

/// A text to write, and a callback for the writer thread to run once the text is written.
type WriteJob = (String, Box<dyn FnOnce() + Send>);

impl RawTerminal {
    /// Starts the writer thread and takes the terminal over. `titled`: the screen will change the window's title.
    pub(super) fn take_over(titled: bool) -> io::Result<Self> {
        let (jobs, waiting) = mpsc::channel();
        // A write to a stopped terminal blocks, and must not block the session, so a thread of its own writes.
        thread::Builder::new().name("terminal".to_owned()).spawn(move || work(&waiting))?;
        let mut terminal =
            Self { before: None, titled: titled && !is_console(), jobs, writing: None };
        terminal.take_again()?;
        Ok(terminal)
    }

    /// Takes the terminal over, also after it was given back.
    pub(super) fn take_again(&mut self) -> io::Result<()> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        self.before = Some(before);
        let tell_keys = if is_console() { "" } else { TELL_KEYS };
        let keep_title = if self.titled { KEEP_TITLE } else { "" };
        self.write(format!("{ENABLE_PASTE}{tell_keys}{keep_title}"));
        Ok(())
    }

    /// Writes `last`, and restores the terminal's settings. Does nothing if the terminal is given back already.
    pub(super) fn give_back(&mut self, last: &str) {
        let Some(before) = self.before.take() else { return };
        let tell_no_more = if is_console() { "" } else { TELL_KEYS_NO_MORE };
        let title_back = if self.titled { TITLE_BACK } else { "" };
        let (done, written) = mpsc::channel();
        // If the user has closed or stopped the terminal, this write does not end within the time limit. The user would
        // not see the text then, so nothing more is done about it.
        let tell = Box::new(move || _ = done.send(()));
        if self.jobs.send((format!("{last}{title_back}{tell_no_more}{GIVE_BACK}"), tell)).is_ok() {
            let _ = written.recv_timeout(LAST_WRITE_TIMEOUT);
        }
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }

    /// Queues a text for the writer thread, after all earlier texts. Does nothing while the terminal is given back.
    pub(super) fn write(&mut self, text: String) {
        if self.before.is_none() {
            return;
        }
        let (done, written) = oneshot::channel();
        let tell = Box::new(move || _ = done.send(()));
        self.writing = self.jobs.send((text, tell)).is_ok().then_some(written);
    }

    /// Returns whether a write is pending.
    pub(super) fn busy(&self) -> bool {
        self.writing.is_some()
    }

    /// Waits until all queued texts are written.
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

/// Runs the writer thread: writes the queued texts in order, until the sender is dropped.
fn work(jobs: &mpsc::Receiver<WriteJob>) {
    for (text, tell) in jobs {
        let mut stdout = io::stdout().lock();
        // Errors are ignored: the keyboard's reader notices when the terminal is gone.
        let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        drop(stdout);
        tell();
    }
}

/// Returns the terminal's columns and rows; 80 and 24 if the terminal does not tell its size.
pub(super) fn size() -> (usize, usize) {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

/// Checks that the terminal can change rows that it shows already, which a conversation needs.
pub(super) fn ensure_usable() -> anyhow::Result<()> {
    anyhow::ensure!(
        kind() != "dumb",
        "this terminal cannot redraw its rows (TERM=dumb), so it cannot show a conversation: use `tandem -p \
         PROMPT`"
    );
    Ok(())
}

/// Returns the kind of terminal that `TERM` names.
fn kind() -> String {
    std::env::var("TERM").unwrap_or_default()
}

/// Returns whether the terminal is Linux's own console, which mistakes some sequences that it does not know for others.
pub(super) fn is_console() -> bool {
    kind() == "linux"
}

/// Returns whether the terminal wraps its rows anew when it gets narrower, as most terminals do. The answer is guessed
/// from environment variables; the terminal itself is not asked.
pub(super) fn reflows(var: impl Fn(&str) -> Option<String>) -> bool {
    // This check comes first: inside tmux, `TERM` may name `screen`.
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
