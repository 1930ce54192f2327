//! Notes for models of one family: what they are told beside the rules that all models get; and the rule on the calls
//! of an answer, which differs between families. The table with the reasons is `families.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use super::surroundings::ModelFacts;

static FAMILY_TABLE: LazyLock<FamilyTable> = LazyLock::new(|| {
    // The table is a part of the program, and a test checks that the table can be read. So the default is never used.
    toml::from_str(include_str!("families.toml")).unwrap_or_default()
});

/// Data of `families.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FamilyTable {
    /// Rule on the calls of an answer, for models whose family has none.
    calls: FamilyNote,
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
    /// `true` if all models that edit files by patches are of the family.
    #[serde(default)]
    patches: bool,
    /// Rule on the calls of an answer.
    calls: Option<FamilyNote>,
    notes: Vec<FamilyNote>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FamilyNote {
    text: String,
    #[serde(rename = "reason")]
    _reason: String,
}

/// Returns the notes for a model, as one line; empty if its family has none.
pub(super) fn notes(model: &ModelFacts) -> String {
    let notes = family(model).into_iter().flat_map(|family| &family.notes);
    notes.map(|note| note.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// Returns the rule on the calls of an answer for a model.
pub(super) fn calls(model: &ModelFacts) -> &'static str {
    let own = family(model).and_then(|family| family.calls.as_ref());
    &own.unwrap_or(&FAMILY_TABLE.calls).text
}

fn family(model: &ModelFacts) -> Option<&'static Family> {
    let id = model.id.to_ascii_lowercase();
    let fits = |family: &&Family| {
        (family.window && model.has_small_window)
            || (family.patches && model.edits_by_patch)
            || family.names.iter().any(|name| id.contains(name.as_str()))
    };
    FAMILY_TABLE.family.iter().find(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(id: &str, has_small_window: bool, edits_by_patch: bool, expected: &str) {
        let notes = notes(&ModelFacts { id: id.to_owned(), has_small_window, edits_by_patch });
        assert!(notes.contains(expected) && (notes.is_empty() == expected.is_empty()), "{notes}");
    }

    #[test]
    fn a_model_is_told_the_notes_of_its_family() {
        check("gpt-6.1-sol", false, true, "apply_patch");
        check("gpt-4o", false, false, "");
        check("bedrock:us.anthropic.claude-sonnet-5", false, false, "no files that were not asked");
        check("vertex:Claude-Opus-4-8", false, false, "no files that were not asked for");
        check("gemini-3.8-flash", false, false, "ends your turn");
        check("ollama:qwen3-coder:30b", false, false, "");
        check("ollama:qwen3:4b", true, false, "the part of a file that you need");
        check("gpt-oss:20b", true, true, "the part of a file that you need");
    }

    #[test]
    fn a_model_is_told_one_rule_on_the_calls_of_an_answer() {
        let rule = |has_small_window| {
            let id = "ollama:qwen3:4b".to_owned();
            calls(&ModelFacts { id, has_small_window, edits_by_patch: false })
        };
        assert!(rule(true).starts_with("Make one call in each answer"), "{}", rule(true));
        assert!(rule(false).starts_with("Make independent calls together"), "{}", rule(false));
    }

    #[test]
    fn names_in_the_table_are_in_small_letters() {
        assert!(FAMILY_TABLE.family.len() > 3);
        for name in FAMILY_TABLE.family.iter().flat_map(|family| &family.names) {
            assert_eq!(*name, name.to_lowercase());
        }
    }
}
