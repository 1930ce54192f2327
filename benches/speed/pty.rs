//! A program in a terminal, and the person in front of it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use memchr::memmem;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tempfile::TempDir;

/// Only a hang takes so long.
const HANG: Duration = Duration::from_mins(2);

/// The terminal, of 24 rows and 80 columns.
pub(crate) struct Pty {
    pub(crate) child: Child,
    terminal: File,
    /// Bytes that have come and have not been looked at.
    unseen: Vec<u8>,
    /// Number of bytes that have come in all.
    pub(crate) bytes: usize,
    _dirs: Vec<TempDir>,
}

impl Pty {
    pub(crate) fn start(mut command: Command, dirs: Vec<TempDir>) -> Self {
        let terminal: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let user = || Stdio::from(File::options().read(true).write(true).open(&name).unwrap());
        let child = command.stdin(user()).stdout(user()).stderr(user()).spawn().unwrap();
        let terminal = terminal.into();
        Self { child, terminal, unseen: Vec::new(), bytes: 0, _dirs: dirs }
    }

    /// The agent, in a home of its own.
    pub(crate) fn tandem(args: &[&str], vars: &[(&str, &str)]) -> Self {
        let (command, home) = crate::process::command(args, vars);
        Self::start(command, vec![home])
    }

    /// The agent with a replay script.
    pub(crate) fn scripted(script: &str, args: &[&str]) -> Self {
        let scripts = TempDir::new().unwrap();
        let path = scripts.path().join("script.jsonl");
        std::fs::write(&path, script).unwrap();
        let model = format!("replay:{}", path.display());
        let (command, home) = crate::process::command(&[&["--model", &model], args].concat(), &[]);
        Self::start(command, vec![home, scripts])
    }

    /// Returns a way to type while another thread reads.
    pub(crate) fn keyboard(&self) -> File {
        self.terminal.try_clone().unwrap()
    }

    pub(crate) fn keys(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until a text comes. What was before it is forgotten.
    pub(crate) fn until(&mut self, text: &str) {
        let begun = Instant::now();
        loop {
            if let Some(at) = memmem::find(&self.unseen, text.as_bytes()) {
                self.unseen.drain(..at + text.len());
                return;
            }
            // A text may come in two pieces.
            let old = self.unseen.len().saturating_sub(text.len());
            self.unseen.drain(..old);
            assert!(begun.elapsed() < HANG, "{text:?} does not come");
            self.read(Duration::from_millis(100));
        }
    }

    /// Reads until the screen shows a text, or no longer shows the text.
    pub(crate) fn until_screen(&mut self, screen: &mut vt100::Parser, text: &str, shown: bool) {
        let begun = Instant::now();
        loop {
            screen.process(&self.unseen);
            self.unseen.clear();
            if screen.screen().contents().contains(text) == shown {
                return;
            }
            let contents = screen.screen().contents();
            assert!(
                begun.elapsed() < HANG,
                "{text:?} shown: {}, on the screen:\n{contents}",
                !shown
            );
            self.read(Duration::from_millis(100));
        }
    }

    /// Reads for so long, and forgets it.
    pub(crate) fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            self.read(left);
            self.unseen.clear();
        }
    }

    fn read(&mut self, patience: Duration) {
        let mut ready = [PollFd::new(&self.terminal, PollFlags::IN)];
        if poll(&mut ready, Some(&Timespec::try_from(patience).unwrap())).unwrap() > 0 {
            let mut buffer = [0; 16 << 10];
            let read = self.terminal.read(&mut buffer).unwrap();
            self.unseen.extend_from_slice(&buffer[..read]);
            self.bytes += read;
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
