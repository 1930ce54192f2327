//! The token of a login, which AWS's own tool keeps in a file. The token of an SSO session is renewed before it expires, and
//! written back, as AWS's own tool does.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Request, Url};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tandem_model::Error;

use super::super::ProfileFiles;
use super::super::profile::SsoLogin;
use crate::fetch::{self, FetchError, Network};
use crate::files;

/// Time before the expiry at which a token is renewed.
const RENEWAL_MARGIN: Duration = Duration::from_mins(5);

/// A file with a token. Members that are not known here are kept when the file is written again.
struct TokenFile {
    path: PathBuf,
    members: Map<String, Value>,
}

/// Answer of the service that renews tokens.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RenewedToken {
    access_token: String,
    /// Lifetime in seconds.
    expires_in: u64,
    /// The next token with which the token can be renewed.
    refresh_token: Option<String>,
}

/// Returns the token of a login, renewed if need be and possible; `None` if there is no valid one.
pub(super) async fn valid(files: &ProfileFiles, login: &SsoLogin) -> Result<Option<String>, Error> {
    let Some(mut file) = TokenFile::read(files, login).await else { return Ok(None) };
    if file.is_valid_for(RENEWAL_MARGIN) {
        return Ok(file.text("accessToken"));
    }
    let Some(request) = renewal(files, login, &file) else { return Ok(file.unexpired()) };
    match fetch::json(Network::Internet, request).await {
        Ok(renewed) => {
            file.renew(renewed);
            // The old token can be used no longer to renew the login, so the new one must not be lost.
            if let Err(error) = file.write().await {
                tracing::warn!(%error, path = %file.path.display(), "the renewed token cannot be kept");
            }
            Ok(file.text("accessToken"))
        }
        Err(error) => {
            let unexpired = file.unexpired();
            match (unexpired, error) {
                (None, error @ FetchError::Unreachable(_)) => {
                    Err(error.into_error("The renewal of the login at IAM Identity Center", ""))
                }
                (unexpired, error) => {
                    tracing::info!(?error, "the login at IAM Identity Center cannot be renewed");
                    Ok(unexpired)
                }
            }
        }
    }
}

impl TokenFile {
    async fn read(files: &ProfileFiles, login: &SsoLogin) -> Option<Self> {
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, login.cache_key.as_bytes());
        let name =
            hash.as_ref().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        let path = files.sso_cache.as_ref()?.join(format!("{name}.json"));
        let text = files::read(&path).await.ok()?;
        Some(Self { members: serde_json::from_str(&text).ok()?, path })
    }

    fn text(&self, member: &str) -> Option<String> {
        self.members.get(member)?.as_str().map(str::to_owned)
    }

    /// Returns `true` if the token is valid now, and after this time.
    fn is_valid_for(&self, time: Duration) -> bool {
        self.is_before("expiresAt", SystemTime::now() + time)
    }

    fn is_before(&self, member: &str, time: SystemTime) -> bool {
        let until = self.text(member).and_then(|at| at.parse::<jiff::Timestamp>().ok());
        until.is_some_and(|until| SystemTime::from(until) > time)
    }

    /// Returns the token, unless it has expired.
    fn unexpired(&self) -> Option<String> {
        self.text("accessToken").filter(|_| self.is_valid_for(Duration::ZERO))
    }

    fn renew(&mut self, renewed: RenewedToken) {
        let expires_at = SystemTime::now() + Duration::from_secs(renewed.expires_in);
        let expires_at = jiff::Timestamp::try_from(expires_at).unwrap_or_default();
        self.members.insert("accessToken".to_owned(), json!(renewed.access_token));
        self.members.insert("expiresAt".to_owned(), json!(format!("{expires_at:.0}")));
        if let Some(token) = renewed.refresh_token {
            self.members.insert("refreshToken".to_owned(), json!(token));
        }
    }

    async fn write(&self) -> std::io::Result<()> {
        let text = Value::Object(self.members.clone()).to_string();
        files::replace(Path::new(&self.path), text).await
    }
}

/// Returns the request that renews the token of an SSO session; `None` if the file has nothing to renew it with.
fn renewal(files: &ProfileFiles, login: &SsoLogin, file: &TokenFile) -> Option<Request> {
    let is_registered = file.is_before("registrationExpiresAt", SystemTime::now());
    if !login.is_renewable || !is_registered {
        return None;
    }
    let body = json!({
        "clientId": file.text("clientId")?,
        "clientSecret": file.text("clientSecret")?,
        "grantType": "refresh_token",
        "refreshToken": file.text("refreshToken")?,
    });
    let usual = || format!("https://oidc.{}.amazonaws.com", login.region);
    let base = files.sso_oidc_url.clone().unwrap_or_else(usual);
    let mut request = Request::new(Method::POST, Url::parse(&base).ok()?.join("/token").ok()?);
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *request.body_mut() = Some(body.to_string().into());
    Some(request)
}
