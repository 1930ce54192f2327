//! Notes for models of one family: what they are told beside the rules that all models get. The table with the reasons
//! is `families.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

static FAMILY_TABLE: LazyLock<FamilyTable> = LazyLock::new(|| {
    // A test reads the table, so a table that cannot be read is not built.
    toml::from_str(include_str!("families.toml")).unwrap_or_default()
});

/// Data of `families.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FamilyTable {
    family: Vec<Family>,
}

/// A family of models.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Family {
    #[serde(rename = "name")]
    _name: String,
    /// Parts of a model's id, in small letters.
    #[serde(default)]
    names: Vec<String>,
    /// `true` if all models with a small context window are of the family.
    #[serde(default)]
    window: bool,
    notes: Vec<FamilyNote>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FamilyNote {
    text: String,
    #[serde(rename = "reason")]
    _reason: String,
}

/// Returns the notes for a model, as one line; empty if its family has none. `is_small`: its context window is small.
pub(super) fn notes(model: &str, is_small: bool) -> String {
    let id = model.to_ascii_lowercase();
    let fits = |family: &&Family| {
        (family.window && is_small) || family.names.iter().any(|name| id.contains(name.as_str()))
    };
    let family = FAMILY_TABLE.family.iter().find(fits);
    let notes: Vec<_> =
        family.iter().flat_map(|family| &family.notes).map(|note| note.text.as_str()).collect();
    notes.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(model: &str, is_small: bool, expected: &str) {
        let notes = notes(model, is_small);
        assert!(notes.contains(expected) && (notes.is_empty() == expected.is_empty()), "{notes}");
    }

    #[test]
    fn a_model_is_told_the_notes_of_its_family() {
        check("gpt-6.1-sol", false, "apply_patch");
        check("openai:gpt-5.1", false, "apply_patch");
        check("bedrock:us.anthropic.claude-sonnet-5", false, "no files that were not asked for");
        check("vertex:Claude-Opus-4-8", false, "no files that were not asked for");
        check("gemini-3.8-flash", false, "ends your turn");
        check("ollama:qwen3-coder:30b", false, "");
        check("ollama:qwen3:4b", true, "one call in each answer");
        check("gpt-oss:20b", true, "one call in each answer");
    }

    #[test]
    fn names_in_the_table_are_in_small_letters() {
        assert!(FAMILY_TABLE.family.len() > 3);
        for name in FAMILY_TABLE.family.iter().flat_map(|family| &family.names) {
            assert_eq!(*name, name.to_lowercase());
        }
    }
}
