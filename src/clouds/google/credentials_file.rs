//! The files in which Google's own tools keep credentials.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use tandem_model::{Error, Secret};

use crate::files;

/// Types of credentials in files.
const KNOWN_TYPES: [&str; 4] =
    ["service_account", "authorized_user", "external_account", "impersonated_service_account"];

/// Credentials of a file, by their type.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum CredentialsFile {
    /// A program of its own, with a key that signs.
    ServiceAccount(ServiceAccount),
    /// A person who has logged in with `gcloud`.
    AuthorizedUser(AuthorizedUser),
    /// An identity of another service, such as a CI.
    ExternalAccount(ExternalAccount),
    /// A service account that other credentials may act for.
    ImpersonatedServiceAccount(ImpersonatedAccount),
}

/// Key of a service account.
#[derive(Deserialize)]
pub(super) struct ServiceAccount {
    pub(super) client_email: String,
    #[serde(deserialize_with = "secret")]
    pub(super) private_key: Secret,
    pub(super) private_key_id: Option<String>,
    pub(super) token_uri: Option<String>,
    project_id: Option<String>,
}

/// Login of a person.
#[derive(Deserialize)]
pub(super) struct AuthorizedUser {
    pub(super) client_id: String,
    #[serde(deserialize_with = "secret")]
    pub(super) client_secret: Secret,
    #[serde(deserialize_with = "secret")]
    pub(super) refresh_token: Secret,
    pub(super) token_uri: Option<String>,
    quota_project_id: Option<String>,
}

/// Way to exchange the token of another service.
#[derive(Deserialize)]
pub(super) struct ExternalAccount {
    pub(super) audience: String,
    pub(super) subject_token_type: String,
    pub(super) token_url: String,
    pub(super) credential_source: CredentialSource,
    pub(super) service_account_impersonation_url: Option<String>,
    quota_project_id: Option<String>,
}

/// Place of the token of the other service.
#[derive(Deserialize)]
pub(super) struct CredentialSource {
    pub(super) file: Option<PathBuf>,
    pub(super) url: Option<String>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    pub(super) format: Option<TokenFormat>,
}

/// Form of the token of the other service: text, or a field of JSON.
#[derive(Deserialize)]
pub(super) struct TokenFormat {
    pub(super) subject_token_field_name: Option<String>,
}

/// Service account, and the credentials that act for the account.
#[derive(Deserialize)]
pub(super) struct ImpersonatedAccount {
    pub(super) service_account_impersonation_url: String,
    pub(super) source_credentials: Box<CredentialsFile>,
    #[serde(default)]
    pub(super) delegates: Vec<String>,
    quota_project_id: Option<String>,
}

impl CredentialsFile {
    /// Returns the project that pays for requests, if the file names one.
    pub(super) fn quota_project(&self) -> Option<&str> {
        match self {
            Self::ServiceAccount(_) => None,
            Self::AuthorizedUser(user) => user.quota_project_id.as_deref(),
            Self::ExternalAccount(account) => account.quota_project_id.as_deref(),
            Self::ImpersonatedServiceAccount(account) => account.quota_project_id.as_deref(),
        }
    }

    /// Returns the project that the file names.
    pub(super) fn project(&self) -> Option<String> {
        match self {
            Self::ServiceAccount(account) => account.project_id.clone(),
            file => file.quota_project().map(str::to_owned),
        }
    }
}

/// Reads credentials; `None` if there is no file.
pub(super) fn read(path: &Path) -> Result<Option<CredentialsFile>, Error> {
    let wrong = |why: &str| {
        Error::NotAuthenticated(format!(
            "{} has no credentials of Google that can be used: {why}",
            path.display()
        ))
    };
    let text = files::read_if_exists(path);
    let text = text.map_err(|error| wrong(&format!("the file cannot be read ({error}).")))?;
    let Some(text) = text else { return Ok(None) };
    let json: Value =
        serde_json::from_str(&text).map_err(|_| wrong("the file is no valid JSON."))?;
    let kind = json.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !KNOWN_TYPES.contains(&kind.as_str()) {
        let known = KNOWN_TYPES.join("`, `");
        return Err(wrong(&format!("their type is `{kind}`. Known types: `{known}`.")));
    }
    // The parser's message may repeat a value, and so a part of a secret.
    serde_json::from_value(json).map(Some).map_err(|_| {
        wrong(&format!("a field of the type `{kind}` is missing. Create the file anew."))
    })
}

/// Reads a secret text.
fn secret<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
    String::deserialize(from).map(|text| Secret::new(&text))
}
