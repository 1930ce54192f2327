//! The approximate memory of an answer, and its bound.

use super::Error;
use super::retry::RequestFailure;

/// Approximate memory of one JSON value, in bytes. Parsed JSON takes up much more memory than its bytes on the wire.
const JSON_VALUE_BYTES: usize = 80;

/// Approximate memory of an answer, and the maximum of it, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AnswerSize {
    bytes: usize,
    max: usize,
}

impl AnswerSize {
    /// Returns the size of an empty answer that may take up `max` bytes.
    pub(super) fn new(max: usize) -> Self {
        Self { bytes: 0, max }
    }

    /// Returns the maximum in bytes.
    pub(super) fn max(self) -> usize {
        self.max
    }

    /// Adds received bytes, and the JSON values that they become. Returns an error if the answer is too big.
    pub(super) fn add(&mut self, bytes: usize, values: usize) -> Result<(), RequestFailure> {
        self.bytes = self.bytes.saturating_add(bytes + values * JSON_VALUE_BYTES);
        if self.bytes > self.max {
            return Err(RequestFailure::terminal(too_big(self.max)));
        }
        Ok(())
    }
}

/// Estimates the number of values in JSON text.
pub(super) fn json_values(json: &[u8]) -> usize {
    1 + memchr::memchr_iter(b',', json).count()
}

/// Returns the error for an answer that takes up more than `max` bytes.
pub(super) fn too_big(max: usize) -> Error {
    let mib = max.div_ceil(1 << 20);
    Error::BadAnswer(format!(
        "The model's answer is bigger than {mib} MiB, and was dropped. Ask for less at once, or allow more with \
         `--limit answer-bytes=BYTES`."
    ))
}
