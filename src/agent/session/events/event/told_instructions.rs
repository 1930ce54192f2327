//! The instructions and surroundings that the model knows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The instructions and surroundings that the model knows. Texts of files and servers are kept as digests: the texts
/// themselves are in the events that told them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToldInstructions {
    /// `true` if the system instruction told all of them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_system: bool,
    /// The memory files, in the order in which they were read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ToldFile>,
    /// Directories below the workspace's roots that have memory files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<String>,
    /// Digests of the texts of MCP servers, by the servers' names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub servers: BTreeMap<String, String>,
    /// The lines on the surroundings, by their subjects.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub surroundings: BTreeMap<String, String>,
}

/// A memory file, as the model knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToldFile {
    /// Absolute path.
    pub path: String,
    /// Digest of the text, or of the reason why the model is not told the text.
    pub digest: String,
    /// `true` if the model was told the text.
    pub told: bool,
}

impl ToldInstructions {
    /// Returns the memory file at a path.
    pub(crate) fn file(&self, path: &str) -> Option<&ToldFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// Returns the digest of a text (FNV-1a of 64 bits, after the text's length). The digest only tells changes from
/// unchanged texts; it is no protection against a text that is made to look unchanged.
pub(crate) fn digest(text: &str) -> String {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const FNV_PRIME: u64 = 0x0100_0000_01b3;
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
    format!("{:x}-{:016x}", text.len(), text.bytes().fold(OFFSET_BASIS, step))
}

#[cfg(test)]
mod tests {
    use super::digest;

    #[test]
    fn a_digest_is_the_same_in_every_version() {
        assert_eq!(digest(""), "0-cbf29ce484222325");
        assert_eq!(digest("foobar"), "6-85944171f73967e8");
    }
}
