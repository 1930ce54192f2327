//! Files on the disk: read whole, but no more than is good.

use std::fs;
use std::path::Path;

use super::ToolError;

/// The bytes of a regular file of at most `max` bytes.
pub(super) fn read(path: &Path, max: u64) -> Result<Vec<u8>, ToolError> {
    let fail = |kind, why: &str| Err(ToolError::new(kind, format!("{}: {why}", path.display())));
    match fs::metadata(path) {
        Err(_) => fail("file_not_found", "not found"),
        Ok(found) if found.is_dir() => fail("is_directory", "is a directory"),
        Ok(found) if !found.is_file() => fail("not_a_regular_file", "is not a regular file"),
        Ok(found) if found.len() > max => fail("file_too_large", "is too large"),
        Ok(_) => fs::read(path).or_else(|err| fail("read_content_failure", &err.to_string())),
    }
}
