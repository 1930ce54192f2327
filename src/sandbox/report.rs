//! The report on one command: what the sandbox itself says of it, apart from what the command writes.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

#[cfg(target_os = "linux")]
pub(crate) use self::writing::{begin, begin_bubblewrap, fail, shared};

/// Beginning of the report of a helper that has failed; the reason follows, in one line. What bubblewrap adds does
/// not count.
const FAILED: &str = "failed\n";

/// Beginning of the report where bubblewrap goes on with it.
const BUBBLEWRAP: &str = "bubblewrap\n";

/// Bubblewrap's word for the end of a command that it has started.
const EXIT_CODE: &str = "\"exit-code\"";

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
        if text.is_empty() {
            return None;
        }
        if let Some(why) = text.strip_prefix(FAILED) {
            return Some(why.lines().next().unwrap_or_default().to_owned());
        }
        match text.strip_prefix(BUBBLEWRAP) {
            Some(said) if said.contains(EXIT_CODE) => None,
            Some(_) => Some("`bwrap` could not start the command".to_owned()),
            // The order is still there.
            None => Some("the helper could not be started".to_owned()),
        }
    }
}

#[cfg(target_os = "linux")]
mod writing {
    use std::fs::File;
    use std::io::{self, Seek as _, Write as _};
    use std::os::fd::OwnedFd;

    use rustix::io::{FdFlags, fcntl_setfd};

    use super::{BUBBLEWRAP, FAILED};

    /// Begins the report, in the file of an order that has been read.
    pub(crate) fn begin(mut file: &File) -> io::Result<()> {
        file.set_len(0)?;
        file.rewind()
    }

    /// Reports that the helper has failed.
    pub(crate) fn fail(mut file: &File, why: &io::Error) -> io::Result<()> {
        begin(file)?;
        let why = why.to_string().replace('\n', " ");
        file.write_all(format!("{FAILED}{why}\n").as_bytes())
    }

    /// Begins the report with which bubblewrap goes on.
    pub(crate) fn begin_bubblewrap(mut file: &File) -> io::Result<()> {
        file.write_all(BUBBLEWRAP.as_bytes())
    }

    /// Returns a descriptor of the report for other programs, which write where the one before has ended.
    pub(crate) fn shared(file: &File) -> io::Result<OwnedFd> {
        let shared = OwnedFd::from(file.try_clone()?);
        fcntl_setfd(&shared, FdFlags::empty())?;
        Ok(shared)
    }
}
