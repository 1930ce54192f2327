//! Reading of files with credentials.

use std::fs::{self, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use tandem_content::blocking::try_blocking;
use tandem_content::bounded;

/// Maximum size of a file with credentials, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Mode of a file that only its owner can read and write.
const OWNER_ONLY_MODE: u32 = 0o600;

/// Reads the text of a regular file; `None` if there is no file. Blocks.
pub(crate) fn read_if_exists(path: &Path) -> Result<Option<String>> {
    match text(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the text of a regular file on a thread for blocking work.
pub(crate) async fn read(path: &Path) -> Result<String> {
    let path = path.to_owned();
    try_blocking(move || text(&path)).await
}

/// Replaces a file with credentials on a thread for blocking work. Others never see a half of it, and other users never
/// see any of it.
pub(crate) async fn replace(path: &Path, text: String) -> Result<()> {
    let path = path.to_owned();
    try_blocking(move || {
        let beside = path.with_extension(format!("{}.tmp", std::process::id()));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(OWNER_ONLY_MODE).open(&beside)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| fs::rename(&beside, &path));
        written.inspect_err(|_| {
            // The error of the write is told, and not that of the removal.
            let _ = fs::remove_file(&beside);
        })
    })
    .await
}

fn text(path: &Path) -> Result<String> {
    let bytes = bounded::read(path, MAX_FILE_BYTES)?;
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it is no text"))
}
