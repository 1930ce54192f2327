//! Tokens of service accounts: a signed statement is exchanged for one.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::json;
use tandem_model::{Error, Secret};

use super::CLOUD_SCOPE;
use super::credentials_file::ServiceAccount;
use super::token::{TOKEN_URL, TokenAnswer, form};
use crate::cache::Expiring;
use crate::fetch::{self, Network};

/// Time for which a statement holds, in seconds: the longest that Google takes.
const STATEMENT_SECONDS: u64 = 3600;

/// Fetches a token of a service account.
pub(super) async fn fetch(
    path: &Path,
    account: &ServiceAccount,
) -> Result<Expiring<Secret>, Error> {
    let url = account.token_uri.as_deref().unwrap_or(TOKEN_URL);
    let statement = statement(account, url, SystemTime::now()).ok_or_else(|| {
        Error::NotAuthenticated(format!(
            "The private key in {} cannot be used. Create a new key of the service account.",
            path.display()
        ))
    })?;
    let fields = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
        ("assertion", statement.as_str()),
    ];
    let answer: Result<TokenAnswer, _> = fetch::json(Network::Internet, form(url, &fields)?).await;
    let answer = answer.map_err(|error| {
        error.into_error(
            "The request for a token of the service account",
            "Check that the account exists and that its key is valid, and that this machine's clock is right.",
        )
    })?;
    Ok(answer.into_token())
}

/// Writes the statement: a JWT that the account signs. Returns `None` if its key cannot sign.
fn statement(account: &ServiceAccount, audience: &str, now: SystemTime) -> Option<String> {
    let now = now.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let header = json!({ "alg": "RS256", "typ": "JWT", "kid": account.private_key_id });
    let claims = json!({ "iss": account.client_email, "scope": CLOUD_SCOPE, "aud": audience,
        "iat": now, "exp": now + STATEMENT_SECONDS });
    let parts = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
    let text = parts.join(".");
    let key = RsaKeyPair::from_pkcs8(&der(account.private_key.expose())?).ok()?;
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).ok()?;
    Some(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// Decodes a private key of the form PEM.
fn der(pem: &str) -> Option<Vec<u8>> {
    let (_, begun) = pem.split_once("-----BEGIN PRIVATE KEY-----")?;
    let (encoded, _) = begun.split_once("-----END PRIVATE KEY-----")?;
    let encoded: String = encoded.split_whitespace().collect();
    STANDARD.decode(encoded).ok()
}
