//! The user's file of models, of which tandem itself writes only the default model.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::env::Env;
use super::owned_file;

/// Name of the file in the user's configuration directory.
const FILE_NAME: &str = "models.json";

/// Makes a model the one that new sessions begin with, and leaves everything else in the file as it is. Returns the path
/// of the file.
pub fn store_default_model(env: &Env, id: &str) -> Result<PathBuf, String> {
    let dir = env.config_dir().ok_or("The choice was not stored: set HOME.")?;
    // A link that leads to the file, as tools for dot files make, stays.
    let path = dir.join(FILE_NAME);
    let path = path.canonicalize().unwrap_or(path);
    let wrong = |why: &str| {
        format!("The choice was not stored: {} {why}. Correct the file.", path.display())
    };
    let file =
        owned_file::read(&path, owned_file::MAX_SMALL_FILE_KIB).map_err(|why| wrong(&why))?;
    let content = match file {
        Some(file) => serde_json::from_str(&file.text)
            .map_err(|error| wrong(&format!("is not valid JSON ({error})")))?,
        None => Value::Object(Map::new()),
    };
    let Value::Object(mut content) = content else { return Err(wrong("is not a JSON object")) };
    content.insert("default".to_owned(), id.into());
    let text = serde_json::to_string_pretty(&content).map_err(|error| wrong(&error.to_string()))?;
    owned_file::write(&path, &format!("{text}\n"))
        .map_err(|why| format!("The choice was not stored: {why}."))?;
    Ok(path)
}
