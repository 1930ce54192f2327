//! The principals of a server: identification of callers by a token, or by a trusted proxy.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::oidc::{Oidc, OidcError, OidcOptions};
use super::proxy::TrustedProxy;
use super::tokens::{self, FileStamp, PrincipalRole, TOKEN_PREFIX, TokenList};
use tandem_agent::session::{PrincipalId, SessionAccess, ShareRole};
use tandem_content::blocking::blocking;

/// Interval between two checks of the token file while there are no requests.
const TOKEN_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Ways in which callers of a server can show their identity. Without any of them, every caller counts as the
/// user of the machine.
#[derive(Debug, Default)]
pub struct AccessOptions {
    /// Token of the server's operator, if any.
    pub token: Option<String>,
    /// File with the tokens of people and services. It takes effect once it exists.
    pub tokens: Option<PathBuf>,
    /// Proxy that is trusted to name the users of its requests. It authenticates with the operator's token,
    /// which then stands for the proxy alone.
    pub proxy: Option<TrustedProxy>,
    /// Issuer whose tokens (JWTs) are accepted.
    pub oidc: Option<OidcOptions>,
}

impl AccessOptions {
    /// Returns `true` if callers must show their identity.
    pub fn are_callers_asked(&self) -> bool {
        let has_file = self.tokens.as_ref().is_some_and(|file| file.exists());
        self.token.is_some() || self.proxy.is_some() || self.oidc.is_some() || has_file
    }
}

/// Caller of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Principal {
    /// Any caller of a server without authentication. It counts as the user of the machine.
    Anyone,
    /// The operator of the server, who has a token of its own.
    Operator,
    /// A person or a service that the server knows by name.
    Named(Arc<NamedPrincipal>),
}

/// A person or a service that the server knows by name.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedPrincipal {
    /// Tenant and name.
    pub id: PrincipalId,
    pub(super) role: PrincipalRole,
    #[serde(skip)]
    credential: Credential,
}

/// Proof of a named principal's identity.
#[derive(Debug, Default, PartialEq, Eq)]
enum Credential {
    /// A token from the token file, by its hash.
    Token { sha256: String },
    /// The word of the trusted proxy, or of the node that a client has called.
    #[default]
    Proxy,
    /// A token of the issuer, valid until the time given.
    Jwt { until: Instant },
}

/// Right of a principal in a session. Each right includes the rights before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionRight {
    /// Right of a member with whom the session is shared, by the role of the share.
    Shared(ShareRole),
    /// Right of the owner.
    Own,
}

/// Right to read a shared session.
pub const WATCH_RIGHT: SessionRight = SessionRight::Shared(ShareRole::Watch);
/// Right to answer questions of a shared session.
pub const ANSWER_RIGHT: SessionRight = SessionRight::Shared(ShareRole::Answer);
/// Right to prompt and cancel in a shared session.
pub const DRIVE_RIGHT: SessionRight = SessionRight::Shared(ShareRole::Drive);

impl Principal {
    /// Returns the tenant and the name of a named principal; `None` for others.
    pub fn id(&self) -> Option<&PrincipalId> {
        match self {
            Self::Anyone | Self::Operator => None,
            Self::Named(named) => Some(&named.id),
        }
    }

    /// Returns the principal's name, for logs and people.
    pub fn name(&self) -> &str {
        match self {
            Self::Anyone => "anyone",
            Self::Operator => "operator",
            Self::Named(named) => &named.id.name,
        }
    }

    /// Returns `true` if the principal may change settings that affect all sessions of the machine, such as
    /// saved rules. Only the user of the machine may.
    pub fn changes_for_all(&self) -> bool {
        !matches!(self, Self::Named(_))
    }

    /// Returns the principal's right in a session; `None` if the principal must not know of the session. This
    /// is the only place that decides about rights in sessions.
    pub fn right(&self, access: &SessionAccess) -> Option<SessionRight> {
        match self {
            Self::Anyone => access.owner.is_none().then_some(SessionRight::Own),
            Self::Operator => Some(SessionRight::Own),
            Self::Named(named) => {
                let is_theirs = access.owner.as_ref().is_some_and(|owner| match named.role {
                    PrincipalRole::Member => *owner == named.id,
                    PrincipalRole::Admin => owner.tenant == named.id.tenant,
                });
                if is_theirs {
                    return Some(SessionRight::Own);
                }
                access.role(&named.id).map(SessionRight::Shared)
            }
        }
    }
}

/// Reason for refusing a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessError {
    /// There is no token, or no known one.
    Unknown,
    /// The token was revoked; its principal.
    Revoked(PrincipalId),
    /// The issuer's token is not valid; the reason.
    Invalid(String),
    /// The issuer's keys cannot be fetched.
    Unavailable,
}

impl From<OidcError> for AccessError {
    fn from(error: OidcError) -> Self {
        match error {
            OidcError::Invalid(why) => Self::Invalid(why),
            OidcError::Unavailable => Self::Unavailable,
        }
    }
}

/// The principals of a server, and their credentials.
pub struct Principals {
    token: Option<String>,
    file: Option<TokenFile>,
    proxy: Option<TrustedProxy>,
    oidc: Option<Oidc>,
}

/// The token file, as of the last read.
struct TokenFile {
    path: PathBuf,
    /// State of the last check; locked during a check, so that checks do not overlap.
    looking: tokio::sync::Mutex<LastCheck>,
    /// Tokens of the file; `None` until the file exists for the first time. If the file disappears later, the
    /// list is empty rather than `None`, so that callers still need a token.
    list: watch::Sender<Option<Arc<TokenList>>>,
}

/// The last check of the token file.
#[derive(Debug, Default)]
struct LastCheck {
    /// Stamp of the file; `None` if the file could not be read.
    stamp: Option<FileStamp>,
    /// `true` if the log already says that no token is valid any more.
    is_lost: bool,
}

impl Principals {
    /// Makes the principals of these options. Files and keys are not read yet.
    pub fn new(options: AccessOptions) -> Self {
        let AccessOptions { token, tokens, proxy, oidc } = options;
        let file = tokens.map(|path| TokenFile {
            path,
            looking: tokio::sync::Mutex::default(),
            list: watch::Sender::new(None),
        });
        Self { token, file, proxy, oidc: oidc.map(Oidc::new) }
    }

    /// Returns `true` if callers must show their identity.
    pub fn are_asked(&self) -> bool {
        self.have_tokens() || self.proxy.is_some() || self.oidc.is_some()
    }

    /// Returns `true` if the server has tokens of its own: the operator's token, or a token file.
    pub fn have_tokens(&self) -> bool {
        self.token.is_some() || self.file.as_ref().is_some_and(|file| file.list.borrow().is_some())
    }

    /// Returns the URL of the issuer's metadata, if an issuer is configured.
    pub fn openid_connect_url(&self) -> Option<&str> {
        self.oidc.as_ref().map(Oidc::discovery)
    }

    /// Returns the principal of a request with this token, if any. `peer`: address that the connection comes
    /// from.
    ///
    /// The kinds of credentials are tried in this order:
    ///
    /// 1. the operator's token, which stands for the proxy's user if there is a proxy;
    /// 2. a token of the issuer, unless it has the prefix of the server's own tokens;
    /// 3. a token from the token file.
    pub async fn find(
        &self,
        token: Option<&str>,
        peer: Option<IpAddr>,
        headers: &HeaderMap,
    ) -> Result<Principal, AccessError> {
        let is_listed = self.file.as_ref().is_some_and(|file| file.list.borrow().is_some());
        if is_listed && let Some(file) = &self.file {
            // The file is checked at each request, so that a token is refused as soon as it is revoked.
            file.reload_if_changed().await;
        }
        let Some(given) = token else {
            return if self.are_asked() {
                Err(AccessError::Unknown)
            } else {
                Ok(Principal::Anyone)
            };
        };
        if let Some(own) = &self.token
            && same(given.as_bytes(), own.as_bytes())
        {
            let Some(proxy) = &self.proxy else { return Ok(Principal::Operator) };
            // A proxy's request that names no user must not get the operator's rights.
            let id = proxy.user(peer, headers).ok_or(AccessError::Unknown)?;
            let credential = Credential::Proxy;
            let named = NamedPrincipal { id, role: PrincipalRole::Member, credential };
            return Ok(Principal::Named(Arc::new(named)));
        }
        if let Some(oidc) = self.oidc.as_ref().filter(|_| !given.starts_with(TOKEN_PREFIX)) {
            let user = oidc.find(given).await?;
            let credential = Credential::Jwt { until: user.until };
            let named = NamedPrincipal { id: user.id, role: user.role, credential };
            return Ok(Principal::Named(Arc::new(named)));
        }
        let list = self.file.as_ref().and_then(|file| file.list.borrow().clone());
        let Some(list) = list else {
            return if self.are_asked() {
                Err(AccessError::Unknown)
            } else {
                Ok(Principal::Anyone)
            };
        };
        let entry = given.starts_with(TOKEN_PREFIX).then(|| list.find(given)).flatten();
        let entry = entry.ok_or(AccessError::Unknown)?;
        if entry.revoked.is_some() {
            return Err(AccessError::Revoked(entry.principal()));
        }
        let credential = Credential::Token { sha256: entry.sha256.clone() };
        let named = NamedPrincipal { id: entry.principal(), role: entry.role, credential };
        Ok(Principal::Named(Arc::new(named)))
    }

    /// Waits until a principal loses its identity: its token is revoked or has expired, or the server begins
    /// to require tokens.
    pub async fn wait_revoked(&self, principal: &Principal) {
        if let Principal::Named(named) = principal
            && let Credential::Jwt { until } = named.credential
        {
            return sleep_until(until).await;
        }
        let Some(file) = &self.file else { return std::future::pending().await };
        let mut changes = file.list.subscribe();
        while is_served(principal, changes.borrow_and_update().as_deref()) {
            // An error is impossible, since `self` holds the sender.
            let _ = changes.changed().await;
        }
    }

    /// Checks the token file and the issuer's keys at intervals, so that streams end even while there are no
    /// requests. Never returns.
    pub async fn keep_logins_fresh(&self) {
        let keys = async {
            match &self.oidc {
                Some(oidc) => oidc.keep_fresh().await,
                None => std::future::pending().await,
            }
        };
        tokio::join!(keys, self.keep_looking_at_tokens());
    }

    async fn keep_looking_at_tokens(&self) {
        let Some(file) = &self.file else { return std::future::pending().await };
        loop {
            tokio::time::sleep(TOKEN_CHECK_INTERVAL).await;
            file.reload_if_changed().await;
        }
    }

    /// Reads the token file for the first time.
    pub async fn begin(&self) {
        if let Some(file) = &self.file {
            file.reload_if_changed().await;
        }
    }
}

impl TokenFile {
    /// Reads the file if it has changed. A file that cannot be read counts as empty, so that no caller gets
    /// in by accident.
    async fn reload_if_changed(&self) {
        let mut known = self.looking.lock().await;
        let (path, before) = (self.path.clone(), known.stamp);
        let looked = blocking(move || {
            let stamp = tokens::stamp(&path)?;
            let is_new = stamp.is_some() && stamp != before;
            let list = is_new.then(|| tokens::read_list(&path)).transpose()?;
            anyhow::Ok((stamp, list))
        });
        let looked = match looked.await {
            Ok(looked) => looked,
            Err(err) => Err(err.into()),
        };
        match looked {
            Ok((stamp, Some(list))) => {
                known.stamp = stamp;
                self.list.send_replace(Some(Arc::new(list)));
                if std::mem::take(&mut known.is_lost) {
                    tracing::warn!("tokens count again: {} can be read", self.path.display());
                }
            }
            Ok((Some(_), None)) => {}
            Ok((None, None)) => {
                known.stamp = None;
                // Once there was a file of tokens, requests need a token even after the file was removed. Then no token
                // is valid.
                if self.list.borrow().is_some() {
                    self.clear_tokens(&mut known, "the file was removed");
                }
            }
            Err(err) => {
                known.stamp = None;
                self.clear_tokens(&mut known, &format!("{err:#}"));
            }
        }
    }

    /// Empties the list of tokens, because the file cannot be read. Logs this once.
    fn clear_tokens(&self, known: &mut LastCheck, why: &str) {
        if std::mem::replace(&mut known.is_lost, true) {
            return;
        }
        let path = self.path.display();
        tracing::error!("no token counts any more, because of the file {path}: {why}");
        self.list.send_replace(Some(Arc::default()));
    }
}

/// Returns `true` if a principal still has its identity and its role under this list of tokens.
fn is_served(principal: &Principal, list: Option<&TokenList>) -> bool {
    match principal {
        Principal::Anyone => list.is_none(),
        Principal::Operator => true,
        Principal::Named(named) => {
            let Credential::Token { sha256 } = &named.credential else { return true };
            let entry = list.and_then(|list| list.of_hash(sha256));
            entry.is_some_and(|entry| {
                entry.revoked.is_none() && entry.principal() == named.id && entry.role == named.role
            })
        }
    }
}

/// Compares two secrets in a time that does not tell where they differ.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    let differences = given.iter().zip(wanted).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == wanted.len() && differences == 0
}
