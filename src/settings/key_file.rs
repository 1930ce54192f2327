//! The file of stored keys, each under its provider's name: `{"gemini":{"api_key":"…"}}`. Other values in the file are
//! left as they are.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

use super::endpoint::clean_key;
use super::owned_file;
use tandem_model::Secret;
use tandem_model::provider::Provider;

type Object = serde_json::Map<String, Value>;

/// Result of looking for a stored key.
#[derive(Default)]
pub(super) struct StoredKey {
    pub key: Option<Secret>,
    /// A warning for the log, if other users may read or write the file.
    pub remark: Option<String>,
}

/// Reads a provider's key from the file; no key if there is no file.
pub(super) fn read(path: &Path, provider: Provider) -> Result<StoredKey, String> {
    let Some((content, seen)) = load(path)? else {
        return Ok(StoredKey::default());
    };
    let wrong = |why: &str| {
        format!(
            "`{provider}.api_key` in {} {why}. Correct it, or run `tandem login`.",
            path.display()
        )
    };
    let key = match content.get(provider.name()).and_then(|of| of.get("api_key")) {
        Some(Value::String(key)) => Some(clean_key(key).map_err(wrong)?),
        Some(_) => return Err(wrong("is not a string")),
        None => None,
    };
    let remark = seen.then(|| {
        let path = path.display();
        format!("{path} can be read or written by other users: run `chmod 600 {path}`.")
    });
    Ok(StoredKey { key, remark })
}

/// Writes a provider's key, or removes it, and leaves everything else in the file as it is. Removes the file if nothing
/// is left in it.
pub(super) fn write(path: &Path, provider: Provider, key: Option<&Secret>) -> Result<(), String> {
    let mut content = load(path)?.map(|(content, _)| content).unwrap_or_default();
    let of = content.entry(provider.name()).or_insert_with(|| Object::new().into());
    let Some(of) = of.as_object_mut() else {
        return Err(format!(
            "`{provider}` in {} is not a JSON object: correct it, or remove it.",
            path.display()
        ));
    };
    match key {
        Some(key) => of.insert("api_key".to_owned(), key.expose().into()),
        None => of.shift_remove("api_key"),
    };
    if of.is_empty() {
        content.shift_remove(provider.name());
    }
    if content.is_empty() {
        return remove(path).map_err(|err| format!("{} cannot be removed: {err}.", path.display()));
    }
    let text = serde_json::to_string_pretty(&content).map_err(|err| err.to_string())?;
    owned_file::write(path, &format!("{text}\n")).map_err(|why| format!("{why}."))
}

/// Reads the file's content, which must be an object. Returns the content with `true` if other users may read or write
/// the file. The error does not repeat the content, which holds secrets.
fn load(path: &Path) -> Result<Option<(Object, bool)>, String> {
    let wrong = |why: String| {
        format!("{} {why}: correct it, or remove it and run `tandem login`.", path.display())
    };
    let Some(file) = owned_file::read(path, owned_file::MAX_SMALL_FILE_KIB).map_err(wrong)? else {
        return Ok(None);
    };
    let content: Value = serde_json::from_str(&file.text)
        .map_err(|err| wrong(format!("is not valid JSON ({err})")))?;
    match content {
        Value::Object(content) => Ok(Some((content, file.others_may_touch()))),
        _ => Err(wrong("is not a JSON object".to_owned())),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
