//! Reading of files with credentials.

use std::io::{Error, ErrorKind, Result};
use std::path::Path;

use tandem_content::blocking::try_blocking;
use tandem_content::bounded;

/// Maximum size of a file with credentials, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

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

fn text(path: &Path) -> Result<String> {
    let bytes = bounded::read(path, MAX_FILE_BYTES)?;
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it is no text"))
}
