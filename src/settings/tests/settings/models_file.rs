//! The default model in the user's `models.json`.

use std::fs;

use serde_json::{Value, json};
use tandem_settings::store_default_model;

use super::credentials::Place;

const FILE: &str = "home/.config/tandem/models.json";

/// Stores a default model, and returns the content of the file.
fn stored(place: &Place) -> Result<Value, String> {
    let path = store_default_model(place.credentials(&[]).env(), "ollama:qwen3:8b")?;
    assert_eq!(path, fs::canonicalize(place.path(FILE)).unwrap());
    Ok(serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap())
}

#[test]
fn the_default_is_stored_and_everything_else_stays() {
    let place = Place::new();
    assert_eq!(stored(&place), Ok(json!({ "default": "ollama:qwen3:8b" })));
    let models = json!([{ "id": "ollama:qwen3*", "inputTokens": 65_536 }]);
    let before = json!({ "models": models, "default": "x", "aliases": { "auto": "gemini-9" } });
    let place = place.with(FILE, &before.to_string());
    let mut expected = before;
    expected["default"] = "ollama:qwen3:8b".into();
    assert_eq!(stored(&place), Ok(expected));
}

#[test]
fn a_file_that_is_not_understood_stays_as_it_is() {
    for (content, expected) in [("{ x", "is not valid JSON"), ("[]", "is not a JSON object")] {
        let place = Place::new().with(FILE, content);
        let error = stored(&place).unwrap_err();
        assert!(error.starts_with("The choice was not stored:"), "{error}");
        assert!(error.contains(expected), "{error}");
        assert_eq!(fs::read_to_string(place.path(FILE)).unwrap(), content);
    }
}

#[test]
fn a_link_to_the_file_stays_a_link() {
    let place = Place::new().with("home/dotfiles/models.json", "{}");
    fs::create_dir_all(place.path(FILE).parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(place.path("home/dotfiles/models.json"), place.path(FILE)).unwrap();
    assert_eq!(stored(&place), Ok(json!({ "default": "ollama:qwen3:8b" })));
    assert!(fs::symlink_metadata(place.path(FILE)).unwrap().is_symlink());
}
