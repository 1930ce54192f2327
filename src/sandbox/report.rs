//! The report on one command: what the sandbox itself says of it, apart from what the command writes.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

#[cfg(target_os = "linux")]
pub(crate) use self::writing::{add_started, begin, begin_bubblewrap, fail, shared};

/// Line of a helper that has failed; the reason follows, in one line.
const FAILED: &str = "failed\n";

/// Line before bubblewrap is started.
const BUBBLEWRAP: &str = "bubblewrap\n";

/// Line of the helper in bubblewrap's sandbox before it becomes the command.
const STARTED: &str = "started\n";

/// Maximum number of bytes of a report that are read.
const MAX_BYTES: usize = 4096;

/// Report on one command. The helper writes it into the file of its order; the command cannot.
#[derive(Debug, Default)]
pub struct Report(Option<File>);

impl Report {
    #[cfg(target_os = "linux")]
    pub(crate) fn new(file: File) -> Self {
        Self(Some(file))
    }

    /// Returns the reason why the sandbox has failed, of a command that has ended by itself and with another exit
    /// code than 0. `None`: it is the command that has failed, as far as is known.
    pub fn failure(&self) -> Option<String> {
        let mut bytes = [0; MAX_BYTES];
        let read = self.0.as_ref()?.read_at(&mut bytes, 0).ok()?;
        let text = String::from_utf8_lossy(&bytes[..read]);
        if let Some((_, why)) = text.split_once(FAILED) {
            return Some(why.lines().next().unwrap_or_default().to_owned());
        }
        match text.strip_prefix(BUBBLEWRAP) {
            Some(STARTED) => None,
            Some(_) => Some("`bwrap` could not start the command".to_owned()),
            None if text.is_empty() => None,
            // The order is still there.
            None => Some("the helper could not be started".to_owned()),
        }
    }

    /// Returns whether bubblewrap has made no sandbox, or one that is not the right one.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_without_sandbox(&self) -> bool {
        let mut bytes = [0; MAX_BYTES];
        let read = self.0.as_ref().and_then(|file| file.read_at(&mut bytes, 0).ok());
        let text = String::from_utf8_lossy(&bytes[..read.unwrap_or_default()]);
        text.strip_prefix(BUBBLEWRAP).is_some_and(|said| !said.starts_with(STARTED))
    }
}

#[cfg(target_os = "linux")]
mod writing {
    use std::fs::File;
    use std::io::{self, Seek as _, Write as _};
    use std::os::fd::OwnedFd;

    use rustix::io::{FdFlags, fcntl_setfd};

    use super::{BUBBLEWRAP, FAILED, STARTED};

    /// Empties the file for the report, which held the order or an earlier report.
    pub(crate) fn begin(mut file: &File) -> io::Result<()> {
        file.set_len(0)?;
        file.rewind()
    }

    /// Reports that the helper has failed.
    pub(crate) fn fail(mut file: &File, why: &io::Error) -> io::Result<()> {
        let why = why.to_string().replace('\n', " ");
        file.write_all(format!("{FAILED}{why}\n").as_bytes())
    }

    /// Reports that bubblewrap is started, for the first time or again.
    pub(crate) fn begin_bubblewrap(mut file: &File) -> io::Result<()> {
        begin(file)?;
        file.write_all(BUBBLEWRAP.as_bytes())
    }

    /// Reports that bubblewrap has made the right sandbox.
    pub(crate) fn add_started(mut file: &File) -> io::Result<()> {
        file.write_all(STARTED.as_bytes())
    }

    /// Returns a descriptor of the report for other programs, which write where the one before has ended.
    pub(crate) fn shared(file: &File) -> io::Result<OwnedFd> {
        let shared = OwnedFd::from(file.try_clone()?);
        fcntl_setfd(&shared, FdFlags::empty())?;
        Ok(shared)
    }
}
