//! The principals of a server: who a caller is, by a token or by the word of a trusted proxy.

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
use super::tokens::{self, PREFIX, PrincipalRole, Stamp, TokenList};
use tandem_agent::session::{PrincipalId, SessionAccess, ShareRole};

/// Time between two looks at the file of tokens while nobody asks for anything.
const LOOK: Duration = Duration::from_secs(1);

/// Ways in which callers of a server show who they are. With none of them, everybody who can reach the
/// server is the user of the machine.
#[derive(Debug, Default)]
pub struct AccessOptions {
    /// Token of the server's operator, if there is one.
    pub token: Option<String>,
    /// File of the tokens of people and services. It counts from when it exists.
    pub tokens: Option<PathBuf>,
    /// Proxy whose word counts on who its users are. It shows the operator's token, which is nobody
    /// else's then.
    pub proxy: Option<TrustedProxy>,
    /// Issuer whose tokens (JWTs) count.
    pub oidc: Option<OidcOptions>,
}

impl AccessOptions {
    /// Returns `true` if callers must show who they are.
    pub fn are_callers_asked(&self) -> bool {
        let has_file = self.tokens.as_ref().is_some_and(|file| file.exists());
        self.token.is_some() || self.proxy.is_some() || self.oidc.is_some() || has_file
    }
}

/// Caller of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Principal {
    /// Anybody, where nobody has to show who they are: as good as the user of the machine.
    Anyone,
    /// The operator of the server, who has its own token.
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

/// Reason why a named principal is believed to be who it is.
#[derive(Debug, Default, PartialEq, Eq)]
enum Credential {
    /// A token of the file; its hash.
    Token { sha256: String },
    /// The word of the proxy, or of the node that was called.
    #[default]
    Proxy,
    /// A token of the issuer, which counts until then.
    Jwt { until: Instant },
}

/// Right to a session. A later one includes the earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionRight {
    /// Shared, in this role.
    Shared(ShareRole),
    /// The owner's.
    Own,
}

/// Right to read a shared session.
pub const WATCH: SessionRight = SessionRight::Shared(ShareRole::Watch);
/// Right to answer questions of a shared session.
pub const ANSWER: SessionRight = SessionRight::Shared(ShareRole::Answer);
/// Right to prompt and cancel in a shared session.
pub const DRIVE: SessionRight = SessionRight::Shared(ShareRole::Drive);

impl Principal {
    /// Returns the name and the tenant, if the server knows them.
    pub fn id(&self) -> Option<&PrincipalId> {
        match self {
            Self::Anyone | Self::Operator => None,
            Self::Named(named) => Some(&named.id),
        }
    }

    /// Returns the name for logs and people.
    pub fn name(&self) -> &str {
        match self {
            Self::Anyone => "anyone",
            Self::Operator => "operator",
            Self::Named(named) => &named.id.name,
        }
    }

    /// Returns `true` if the principal may change what counts in the sessions of everybody, such as saved
    /// rules: the user of the machine may.
    pub fn changes_for_all(&self) -> bool {
        !matches!(self, Self::Named(_))
    }

    /// Returns what the principal may do in a session; `None` if there is no such session as far as the
    /// principal is told. The only place where this is decided.
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

/// Reason for not serving a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessError {
    /// There is no token, or none that counts.
    Unknown,
    /// The token was revoked; whose it was.
    Revoked(PrincipalId),
    /// The token of the issuer does not count; why.
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

/// The principals that a server knows.
pub struct Principals {
    token: Option<String>,
    file: Option<TokenFile>,
    proxy: Option<TrustedProxy>,
    oidc: Option<Oidc>,
}

/// The file of tokens, as it was read last.
struct TokenFile {
    path: PathBuf,
    /// Held while the file is looked at.
    looking: tokio::sync::Mutex<LastLook>,
    /// `None` until there is a file. From then on tokens count, also if the file goes away.
    list: watch::Sender<Option<Arc<TokenList>>>,
}

/// The last look at a file of tokens.
#[derive(Debug, Default)]
struct LastLook {
    /// Stamp of the file, if it could be read.
    stamp: Option<Stamp>,
    /// `true` if the log says that no token counts any more.
    is_lost: bool,
}

impl Principals {
    /// Makes the principals that these options name; files and keys are read later.
    pub fn new(options: AccessOptions) -> Self {
        let AccessOptions { token, tokens, proxy, oidc } = options;
        let file = tokens.map(|path| TokenFile {
            path,
            looking: tokio::sync::Mutex::default(),
            list: watch::Sender::new(None),
        });
        Self { token, file, proxy, oidc: oidc.map(Oidc::new) }
    }

    /// Returns `true` if callers must show who they are.
    pub fn are_asked(&self) -> bool {
        self.have_tokens() || self.proxy.is_some() || self.oidc.is_some()
    }

    /// Returns `true` if there are tokens of the server's own.
    pub fn have_tokens(&self) -> bool {
        self.token.is_some() || self.file.as_ref().is_some_and(|file| file.list.borrow().is_some())
    }

    /// Returns the address of the metadata of the issuer whose tokens count.
    pub fn openid_connect_url(&self) -> Option<&str> {
        self.oidc.as_ref().map(Oidc::discovery)
    }

    /// Returns who shows this token, or none, in a request of these headers.
    pub async fn find(
        &self,
        token: Option<&str>,
        (peer, headers): (Option<IpAddr>, &HeaderMap),
    ) -> Result<Principal, AccessError> {
        let is_listed = self.file.as_ref().is_some_and(|file| file.list.borrow().is_some());
        if is_listed && let Some(file) = &self.file {
            // One that was revoked a moment ago does not count any more.
            file.look().await;
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
            // One without a user must not become the operator.
            let id = proxy.user(peer, headers).ok_or(AccessError::Unknown)?;
            let credential = Credential::Proxy;
            let named = NamedPrincipal { id, role: PrincipalRole::Member, credential };
            return Ok(Principal::Named(Arc::new(named)));
        }
        if let Some(oidc) = self.oidc.as_ref().filter(|_| !given.starts_with(PREFIX)) {
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
        let entry = given.starts_with(PREFIX).then(|| list.find(given)).flatten();
        let entry = entry.ok_or(AccessError::Unknown)?;
        if entry.revoked.is_some() {
            return Err(AccessError::Revoked(entry.principal()));
        }
        let credential = Credential::Token { sha256: entry.sha256.clone() };
        let named = NamedPrincipal { id: entry.principal(), role: entry.role, credential };
        Ok(Principal::Named(Arc::new(named)))
    }

    /// Waits until a principal is not served any more as who it was: its token is revoked or has expired,
    /// or tokens count that did not.
    pub async fn ended(&self, principal: &Principal) {
        if let Principal::Named(named) = principal
            && let Credential::Jwt { until } = named.credential
        {
            return sleep_until(until).await;
        }
        let Some(file) = &self.file else { return std::future::pending().await };
        let mut changes = file.list.subscribe();
        while is_served(principal, changes.borrow_and_update().as_deref()) {
            // The sender lives as long as this does.
            let _ = changes.changed().await;
        }
    }

    /// Looks at the file of tokens and at the issuer's keys from time to time, so that streams end although
    /// nobody asks for anything. Never ends.
    pub async fn keep_looking(&self) {
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
            tokio::time::sleep(LOOK).await;
            file.look().await;
        }
    }

    /// Reads the file for the first time.
    pub async fn begin(&self) {
        if let Some(file) = &self.file {
            file.look().await;
        }
    }
}

impl TokenFile {
    /// Reads the file if it has changed. What cannot be read has no tokens: nobody gets in by an
    /// accident.
    async fn look(&self) {
        let mut known = self.looking.lock().await;
        let (path, before) = (self.path.clone(), known.stamp);
        let looked = tokio::task::spawn_blocking(move || {
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
                // It counts that there was one.
                if self.list.borrow().is_some() {
                    self.lose(&mut known, "it is gone");
                }
            }
            Err(err) => {
                known.stamp = None;
                self.lose(&mut known, &format!("{err:#}"));
            }
        }
    }

    /// Forgets all tokens, because the file cannot be read; says so once.
    fn lose(&self, known: &mut LastLook, why: &str) {
        if std::mem::replace(&mut known.is_lost, true) {
            return;
        }
        let path = self.path.display();
        tracing::error!("no token counts any more, because of the file {path}: {why}");
        self.list.send_replace(Some(Arc::default()));
    }
}

/// Returns `true` if a principal is served under a list of tokens as who it is.
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

/// Compares in a time that says nothing of where the two differ.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    let differences = given.iter().zip(wanted).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == wanted.len() && differences == 0
}
