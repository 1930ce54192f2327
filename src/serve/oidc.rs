//! Tokens (JWTs) of an OIDC issuer: the principals that they authenticate, and their expiry.

mod issuer_keys;
mod signatures;

use std::time::Duration;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header};
use serde_json::Value;
use tokio::time::Instant;

use self::issuer_keys::{IssuerKeys, KeyError, check_url};
use super::tokens::{self, PrincipalRole};
use tandem_agent::session::PrincipalId;

/// Accepted signature algorithms: only algorithms with public keys, and of a strength that is in use.
const TOKEN_ALGORITHMS: [Algorithm; 4] =
    [Algorithm::RS256, Algorithm::PS256, Algorithm::ES256, Algorithm::EdDSA];

/// Maximum difference between the clocks of this machine and of the issuer.
const CLOCK_LEEWAY: Duration = Duration::from_mins(1);

/// Maximum length of a token in bytes.
const LONGEST_TOKEN: usize = 16 << 10;

/// Number of hexadecimal digits of the hash in a derived name.
const HASH_DIGITS: usize = 32;

/// Maximum number of characters before the hash in a derived name.
const MAX_READABLE_CHARS: usize = 31;

/// An OIDC issuer whose tokens are accepted, and the meaning of their claims.
#[derive(Debug, Clone)]
pub struct OidcOptions {
    /// URL of the issuer, as tokens name it in `iss`: an `https:` address, or an address of this machine.
    pub issuer: String,
    /// Names of this server; a token must have one of them in `aud`.
    pub audience: Vec<String>,
    /// Claim with the name of the person or service.
    pub name_claim: String,
    /// Tenant of all users of the issuer, unless a claim names their tenant.
    pub tenant: String,
    /// Claim with the tenant.
    pub tenant_claim: Option<String>,
    /// Claim and value that make a user an administrator of the tenant. The claim may be a list of values.
    pub admin: Option<(String, String)>,
}

/// Reason for refusing a caller with a token of the issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OidcError {
    /// The token is not valid; the reason, in words that any client may be told.
    Invalid(String),
    /// The issuer's keys cannot be fetched, and no keys are known from before.
    Unavailable,
}

/// A caller with a valid token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OidcUser {
    pub(super) id: PrincipalId,
    pub(super) role: PrincipalRole,
    /// Time at which the token expires.
    pub(super) until: Instant,
}

/// An issuer with its keys.
pub(super) struct Oidc {
    options: OidcOptions,
    keys: IssuerKeys,
    validation: Validation,
}

impl OidcOptions {
    /// Returns the options, or an error that says why they are wrong.
    pub fn checked(self) -> Result<Self, String> {
        let url = check_url(&self.issuer);
        let url = url.map_err(|why| format!("`{}` is not an issuer: {why}", self.issuer))?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(format!("`{}` is not an issuer: it has a query", self.issuer));
        }
        if self.audience.iter().any(String::is_empty) || self.audience.is_empty() {
            return Err("the audience is empty".to_owned());
        }
        if !PrincipalId::is_name(&self.tenant) {
            return Err(format!(
                "`{}` is not a tenant: use letters, digits and `._@+-`, at most 64",
                self.tenant
            ));
        }
        Ok(self)
    }
}

impl OidcOptions {
    /// Fails with the reason if the issuer's keys cannot be fetched.
    pub async fn check_issuer(&self) -> anyhow::Result<()> {
        signatures::install();
        IssuerKeys::new(self.issuer.clone()).check().await
    }
}

impl Oidc {
    pub(super) fn new(options: OidcOptions) -> Self {
        signatures::install();
        let mut validation = Validation::new(Algorithm::RS256);
        validation.leeway = CLOCK_LEEWAY.as_secs();
        validation.validate_nbf = true;
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.set_issuer(&[&options.issuer]);
        validation.set_audience(&options.audience);
        Self { keys: IssuerKeys::new(options.issuer.clone()), options, validation }
    }

    /// Returns the URL of the issuer's metadata.
    pub(super) fn discovery(&self) -> &str {
        self.keys.discovery()
    }

    /// Fetches the issuer's keys at intervals, so that a withdrawn key is no longer accepted. Never returns.
    pub(super) async fn keep_fresh(&self) {
        self.keys.keep_fresh().await;
    }

    /// Returns the user that a token authenticates.
    pub(super) async fn find(&self, token: &str) -> Result<OidcUser, OidcError> {
        let claims = self.claims(token).await?;
        self.user(&claims).map_err(OidcError::Invalid)
    }

    /// Returns the claims of a token, if the issuer has signed it for this server and it is valid now.
    async fn claims(&self, token: &str) -> Result<Value, OidcError> {
        let invalid = |why: &str| OidcError::Invalid(why.to_owned());
        if token.len() > LONGEST_TOKEN {
            return Err(OidcError::Invalid(format!("it has more than {LONGEST_TOKEN} bytes")));
        }
        let header = decode_header(token).map_err(|_| invalid("it cannot be read as a JWT"))?;
        if !TOKEN_ALGORITHMS.contains(&header.alg) {
            return Err(invalid("its algorithm is not one of RS256, PS256, ES256 and EdDSA"));
        }
        let Header { alg, kid, crit: None, .. } = header else {
            return Err(invalid("it has critical extensions, which are not known"));
        };
        let key = self.keys.find(kid.as_deref(), alg).await.map_err(|error| match error {
            KeyError::Unknown => invalid("the issuer has no such key"),
            KeyError::Unavailable => OidcError::Unavailable,
        })?;
        let validation = Validation { algorithms: vec![alg], ..self.validation.clone() };
        let decoded = decode::<Value>(token, &key, &validation);
        decoded.map(|decoded| decoded.claims).map_err(|error| invalid(why(error.kind())))
    }

    /// Returns the user that the claims describe.
    fn user(&self, claims: &Value) -> Result<OidcUser, String> {
        let options = &self.options;
        if options.name_claim == "email" && claims["email_verified"] != true {
            return Err("its `email` is not verified".to_owned());
        }
        let text = |claim: &str| {
            let value = claim_of(claims, claim).and_then(Value::as_str);
            let value = value.filter(|value| !value.is_empty());
            value.ok_or_else(|| format!("it has no claim `{claim}`"))
        };
        let name = principal_name(text(&options.name_claim)?);
        let tenant = match &options.tenant_claim {
            Some(claim) => principal_name(text(claim)?),
            None => options.tenant.clone(),
        };
        let is_admin =
            options.admin.as_ref().is_some_and(|(claim, wanted)| match claim_of(claims, claim) {
                Some(Value::Array(values)) => values.iter().any(|value| value == wanted.as_str()),
                Some(value) => value == wanted.as_str(),
                None => false,
            });
        let role = if is_admin { PrincipalRole::Admin } else { PrincipalRole::Member };
        let until = Instant::now() + remaining_lifetime(&claims["exp"])?;
        Ok(OidcUser { id: PrincipalId { tenant, name }, role, until })
    }
}

/// Returns the value of a claim, given its name or its JSON pointer (`/realm_access/roles`).
fn claim_of<'a>(claims: &'a Value, claim: &str) -> Option<&'a Value> {
    if claim.starts_with('/') { claims.pointer(claim) } else { claims.get(claim) }
}

/// Returns the time until a token expires. The system's clock is read only once, so that later changes of the
/// clock have no effect.
fn remaining_lifetime(expires: &Value) -> Result<Duration, String> {
    let expires = expires.as_f64().and_then(|at| Duration::try_from_secs_f64(at).ok());
    let expires = expires.ok_or("its `exp` is not a time")?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let left = expires.saturating_add(CLOCK_LEEWAY).saturating_sub(now.unwrap_or_default());
    // An expiry in the far future would overflow `Instant`; a year is as good as no expiry.
    Ok(left.min(Duration::from_hours(24 * 365)))
}

/// Returns the reason why a token is not valid.
fn why(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::ExpiredSignature => "it has expired",
        ErrorKind::ImmatureSignature => "it is not valid yet",
        ErrorKind::InvalidIssuer => "it is of another issuer",
        ErrorKind::InvalidAudience => "it is for another audience",
        ErrorKind::InvalidSignature => "its signature is wrong",
        ErrorKind::MissingRequiredClaim(_) => "it lacks one of `exp`, `iss` and `aud`",
        _ => "it cannot be read",
    }
}

/// Returns the principal name for a claim's value. Different values never get the same name: a value that is
/// no valid name, or that looks like a derived name, gets a name of its readable characters and its hash.
fn principal_name(value: &str) -> String {
    if PrincipalId::is_name(value) && !looks_made(value) {
        return value.to_owned();
    }
    let readable = value.chars().take(MAX_READABLE_CHARS).map(|c| {
        let fits = PrincipalId::is_name(c.encode_utf8(&mut [0; 4]));
        if fits { c } else { '_' }
    });
    format!("{}+{}", readable.collect::<String>(), &tokens::hash(value)[..HASH_DIGITS])
}

fn looks_made(name: &str) -> bool {
    name.rsplit_once('+').is_some_and(|(_, end)| {
        end.len() == HASH_DIGITS
            && end.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    fn options(issuer: &str) -> OidcOptions {
        OidcOptions {
            issuer: issuer.to_owned(),
            audience: vec!["tandem".to_owned()],
            name_claim: "sub".to_owned(),
            tenant: "default".to_owned(),
            tenant_claim: None,
            admin: None,
        }
    }

    #[test]
    fn an_issuer_is_reached_over_https_or_on_this_machine() {
        for good in [
            "https://id.example.com",
            "https://id.example.com/realms/x",
            "http://127.0.0.1:1",
            "http://[::1]:1/x",
            "http://localhost",
        ] {
            assert!(options(good).checked().is_ok(), "{good}");
        }
        for bad in [
            "http://id.example.com",
            "id.example.com",
            "https://a:b@id.example.com",
            "https://id.example.com/?a=b",
            "https://169.254.169.254",
            "file:///etc/passwd",
        ] {
            assert!(options(bad).checked().is_err(), "{bad}");
        }
    }

    #[test]
    fn two_subjects_never_have_one_name() {
        let made = principal_name("auth0|5f7c8ec7c33c6c004bbafe82");
        assert!(made.starts_with("auth0_5f7c8ec7c33c6c004bbafe82+"), "{made}");
        let long = "x".repeat(65);
        let subjects = [
            "alice",
            "Alice",
            "alice ",
            "a|b",
            "a_b",
            "a:b",
            "ä",
            "å",
            "alice@example.com",
            &made,
            &long,
            &long[1..],
            &principal_name(&made),
        ];
        let names: HashSet<_> = subjects.iter().map(|subject| principal_name(subject)).collect();
        assert_eq!(names.len(), subjects.len());
        assert!(names.iter().all(|name| PrincipalId::is_name(name)), "{names:?}");
        assert!(names.contains("alice") && names.contains("alice@example.com"));
    }

    #[test]
    fn claims_say_who_somebody_is() {
        let exp = 4_000_000_000_u64;
        let user = |options: &OidcOptions, claims: Value| {
            let mut claims = claims;
            claims["exp"] = json!(exp);
            let user = Oidc::new(options.clone()).user(&claims);
            user.map(|user| (user.id.tenant, user.id.name, user.role)).map_err(|_| ())
        };
        let plain = options("https://id.example.com");
        let alice = |role| Ok(("default".to_owned(), "alice".to_owned(), role));
        assert_eq!(user(&plain, json!({ "sub": "alice" })), alice(PrincipalRole::Member));
        assert_eq!(user(&plain, json!({ "sub": "" })), Err(()));
        assert_eq!(user(&plain, json!({ "sub": 7 })), Err(()));
        let by_email = OidcOptions { name_claim: "email".to_owned(), ..plain.clone() };
        assert_eq!(user(&by_email, json!({ "email": "a@b.c" })), Err(()));
        let verified = json!({ "email": "a@b.c", "email_verified": true });
        assert_eq!(user(&by_email, verified).unwrap().1, "a@b.c");
        let of_tenant = OidcOptions { tenant_claim: Some("org".to_owned()), ..plain.clone() };
        assert_eq!(user(&of_tenant, json!({ "sub": "alice", "org": "acme" })).unwrap().0, "acme");
        assert_eq!(user(&of_tenant, json!({ "sub": "alice" })), Err(()));
        let roles = ("/realm_access/roles".to_owned(), "boss".to_owned());
        let admins = OidcOptions { admin: Some(roles), ..plain };
        let with = |roles: Value| json!({ "sub": "alice", "realm_access": { "roles": roles } });
        assert_eq!(user(&admins, with(json!(["x", "boss"]))), alice(PrincipalRole::Admin));
        assert_eq!(user(&admins, with(json!("boss"))), alice(PrincipalRole::Admin));
        assert_eq!(user(&admins, with(json!(["bossy"]))), alice(PrincipalRole::Member));
    }
}
