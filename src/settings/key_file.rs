//! The file of stored keys. The key for a provider's usual address is under the provider's name, a key for another
//! server under the server's origin: `{"openai":{"api_key":"…","api_keys":{"https://gateway.example":"…"}}}`. Other
//! values in the file are left as they are.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

use super::endpoint::clean_key;
use super::owned_file;
use tandem_model::Secret;
use tandem_model::provider::Provider;

type Object = serde_json::Map<String, Value>;

/// Field with the key for a provider's usual address. In version 0.2.0, it had the key for any address.
const USUAL_KEY: &str = "api_key";

/// Field with the keys for other servers, by their origin.
const OTHER_KEYS: &str = "api_keys";

/// The server that a typed or stored key is for. The key is sent to no other server.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyScope {
    pub provider: Provider,
    /// Scheme, host and port of the server; `None` for the provider's usual address.
    pub origin: Option<String>,
}

/// Result of looking for a stored key.
#[derive(Default)]
pub(super) struct StoredKey {
    pub key: Option<Secret>,
    /// Keys of the provider that are not for the server; `None` if there are none, or if there is a key for the server.
    pub others: Option<OtherKeys>,
    /// A warning for the log, if other users may read or write the file.
    pub remark: Option<String>,
}

/// Stored keys of a provider that are not sent to a server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OtherKeys {
    /// Keys for other servers.
    OtherServers,
    /// A key without a record of its server.
    UnknownServer,
}

impl OtherKeys {
    /// Returns a sentence that says why the keys are not sent to a server.
    pub(super) fn why_not_sent(self, scope: &KeyScope) -> String {
        let provider = scope.provider.title();
        let server = scope.origin.as_deref().unwrap_or("the provider itself");
        let why = match self {
            Self::OtherServers => {
                "because the file does not say that it was entered for this server"
            }
            Self::UnknownServer => "because the file does not say for which server it was entered",
        };
        format!("The stored key of {provider} is not sent to {server}, {why}.")
    }
}

/// Reads the key for a server from the file; no key if there is no file.
pub(super) fn read(path: &Path, scope: &KeyScope) -> Result<StoredKey, String> {
    let Some((content, seen)) = load(path)? else {
        return Ok(StoredKey::default());
    };
    let provider = scope.provider;
    let of = content.get(provider.name());
    let (usual, others) =
        (of.and_then(|of| of.get(USUAL_KEY)), of.and_then(|of| of.get(OTHER_KEYS)));
    // A server that the settings name has no usual address.
    let is_unknown = matches!(provider, Provider::Named(_)) && usual.is_some();
    let (field, key) = match &scope.origin {
        None => (USUAL_KEY, usual),
        Some(origin) => (OTHER_KEYS, others.and_then(|others| others.get(origin))),
    };
    let wrong = |why: &str| {
        format!(
            "`{provider}.{field}` in {} {why}. Correct it, or run `tandem login`.",
            path.display()
        )
    };
    let key = match key {
        Some(Value::String(key)) => Some(clean_key(key).map_err(wrong)?),
        Some(_) => return Err(wrong("is not a string")),
        None => None,
    };
    let others = match &key {
        Some(_) => None,
        None if is_unknown => Some(OtherKeys::UnknownServer),
        None => usual.or(others).map(|_| OtherKeys::OtherServers),
    };
    let remark = seen.then(|| {
        let path = path.display();
        format!("{path} can be read or written by other users: run `chmod 600 {path}`.")
    });
    Ok(StoredKey { key, others, remark })
}

/// Writes the key for a server, and leaves everything else in the file as it is.
pub(super) fn write(path: &Path, scope: &KeyScope, key: &Secret) -> Result<(), String> {
    let provider = scope.provider;
    let mut content = load(path)?.map(|(content, _)| content).unwrap_or_default();
    let not_object = |name: &str| {
        format!("`{name}` in {} is not a JSON object: correct it, or remove it.", path.display())
    };
    let of = content.entry(provider.name()).or_insert_with(|| Object::new().into());
    let of = of.as_object_mut().ok_or_else(|| not_object(provider.name()))?;
    match &scope.origin {
        None => _ = of.insert(USUAL_KEY.to_owned(), key.expose().into()),
        Some(origin) => {
            let keys = of.entry(OTHER_KEYS).or_insert_with(|| Object::new().into());
            let keys = keys.as_object_mut();
            let keys = keys.ok_or_else(|| not_object(&format!("{provider}.{OTHER_KEYS}")))?;
            keys.insert(origin.clone(), key.expose().into());
            if matches!(provider, Provider::Named(_)) {
                // A key of an older version, which is not used any more.
                of.shift_remove(USUAL_KEY);
            }
        }
    }
    save(path, &content)
}

/// Removes all keys of a provider, and leaves everything else in the file as it is. Returns `true` if there were any.
/// Removes the file if nothing is left in it.
pub(super) fn remove(path: &Path, provider: Provider) -> Result<bool, String> {
    let Some((mut content, _)) = load(path)? else { return Ok(false) };
    let Some(of) = content.get_mut(provider.name()).and_then(Value::as_object_mut) else {
        return Ok(false);
    };
    let removed = [USUAL_KEY, OTHER_KEYS].map(|field| of.shift_remove(field));
    if removed.iter().all(Option::is_none) {
        return Ok(false);
    }
    if of.is_empty() {
        content.shift_remove(provider.name());
    }
    if content.is_empty() {
        let removed = fs::remove_file(path).or_else(|err| match err.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(err),
        });
        removed.map_err(|err| format!("{} cannot be removed: {err}.", path.display()))?;
    } else {
        save(path, &content)?;
    }
    Ok(true)
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

fn save(path: &Path, content: &Object) -> Result<(), String> {
    let text = serde_json::to_string_pretty(content).map_err(|err| err.to_string())?;
    owned_file::write(path, &format!("{text}\n")).map_err(|why| format!("{why}."))
}
