//! The sandbox's report on one command, separate from the output of the command.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

#[cfg(target_os = "linux")]
pub(crate) use self::writing::{add_started, begin, begin_bubblewrap, fail, shared};

/// Line that says that the helper has failed. The next line is the reason.
const FAILED_LINE: &str = "failed\n";

/// Line that the helper writes before it starts bubblewrap.
const BUBBLEWRAP_LINE: &str = "bubblewrap\n";

/// Line that the helper inside bubblewrap's sandbox writes before it becomes the command.
const STARTED_LINE: &str = "started\n";

/// Maximum number of bytes of a report that are read.
const MAX_BYTES: usize = 4096;

/// The sandbox's report on one command. The helper writes it into the file that held its order; the command has no
/// access to that file.
#[derive(Debug, Default)]
pub struct Report(Option<File>);

impl Report {
    #[cfg(target_os = "linux")]
    pub(crate) fn new(file: File) -> Self {
        Self(Some(file))
    }

    /// Returns the reason why the sandbox has failed. To be called if a command has exited by itself with a nonzero
    /// code. `None` means that the command itself has failed, as far as is known.
    pub fn failure(&self) -> Option<String> {
        let mut bytes = [0; MAX_BYTES];
        let read = self.0.as_ref()?.read_at(&mut bytes, 0).ok()?;
        let text = String::from_utf8_lossy(&bytes[..read]);
        if let Some((_, why)) = text.split_once(FAILED_LINE) {
            return Some(why.lines().next().unwrap_or_default().to_owned());
        }
        match text.strip_prefix(BUBBLEWRAP_LINE) {
            Some(STARTED_LINE) => None,
            Some(_) => Some("`bwrap` could not start the command".to_owned()),
            None if text.is_empty() => None,
            // The file still holds the order, so the helper has not even begun.
            None => Some("the helper could not be started".to_owned()),
        }
    }

    /// Returns whether bubblewrap was started and has made no sandbox, or a wrong one.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_without_sandbox(&self) -> bool {
        let mut bytes = [0; MAX_BYTES];
        let read = self.0.as_ref().and_then(|file| file.read_at(&mut bytes, 0).ok());
        let text = String::from_utf8_lossy(&bytes[..read.unwrap_or_default()]);
        text.strip_prefix(BUBBLEWRAP_LINE).is_some_and(|said| !said.starts_with(STARTED_LINE))
    }
}

#[cfg(target_os = "linux")]
mod writing {
    use std::fs::File;
    use std::io::{self, Seek as _, Write as _};
    use std::os::fd::OwnedFd;

    use rustix::io::{FdFlags, fcntl_setfd};

    use super::{BUBBLEWRAP_LINE, FAILED_LINE, STARTED_LINE};

    /// Empties the file, which held the order or an earlier report.
    pub(crate) fn begin(mut file: &File) -> io::Result<()> {
        file.set_len(0)?;
        file.rewind()
    }

    /// Writes that the helper has failed, and why.
    pub(crate) fn fail(mut file: &File, why: &io::Error) -> io::Result<()> {
        let why = why.to_string().replace('\n', " ");
        file.write_all(format!("{FAILED_LINE}{why}\n").as_bytes())
    }

    /// Writes that bubblewrap is started, for the first time or again, in place of an earlier report.
    pub(crate) fn begin_bubblewrap(mut file: &File) -> io::Result<()> {
        begin(file)?;
        file.write_all(BUBBLEWRAP_LINE.as_bytes())
    }

    /// Writes that bubblewrap has made the right sandbox.
    pub(crate) fn add_started(mut file: &File) -> io::Result<()> {
        file.write_all(STARTED_LINE.as_bytes())
    }

    /// Returns a descriptor of the report that stays open in other programs. The descriptors share the position in
    /// the file, so that each program writes after the text of the program before.
    pub(crate) fn shared(file: &File) -> io::Result<OwnedFd> {
        let shared = OwnedFd::from(file.try_clone()?);
        fcntl_setfd(&shared, FdFlags::empty())?;
        Ok(shared)
    }
}
