//! Cache of an issuer's public keys.

use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use parking_lot::Mutex;
use reqwest::{Client, Url};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use tandem_net::{Reach, is_this_machine, judge_host, system_lookup};

/// Interval between two fetches of the keys.
const REFRESH_INTERVAL: Duration = Duration::from_mins(10);

/// Time after which a failed fetch is retried.
const FETCH_RETRY_INTERVAL: Duration = Duration::from_mins(1);

/// Maximum number of fetches for unknown keys in a [`FETCH_PERIOD`]. Without a limit, tokens with invented key ids
/// would make the server flood the issuer.
const MAX_UNKNOWN_KEY_FETCHES: u32 = 5;
const FETCH_PERIOD: Duration = Duration::from_mins(1);

/// Maximum time for each of the two responses: the metadata, and the keys.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Maximum size of each of the two responses in bytes, and maximum number of keys in the second one.
const LARGEST_ANSWER: usize = 512 << 10;
const MOST_KEYS: usize = 100;

/// Reason for the lack of a key.
pub(super) enum KeyError {
    /// The issuer has no matching key.
    Unknown,
    /// No keys were ever fetched.
    Unavailable,
}

/// The keys of an issuer.
pub(super) struct IssuerKeys {
    issuer: String,
    discovery: String,
    /// The keys that were fetched last; `None` before the first successful fetch. A failed fetch leaves them
    /// as they are.
    keys: Mutex<Option<Vec<IssuerKey>>>,
    /// Count of fetches for unknown keys. Locked during a fetch, so that only one of several requests
    /// fetches.
    fetches: tokio::sync::Mutex<Fetches>,
}

/// Number of fetches since a time, and the end of the last fetch.
struct Fetches {
    since: Instant,
    count: u32,
    ended: Option<Instant>,
}

/// A public key for the signatures of tokens.
struct IssuerKey {
    id: Option<String>,
    /// The only algorithm of the key, if the issuer limits the key to one.
    algorithm: Option<Algorithm>,
    key: DecodingKey,
}

impl IssuerKeys {
    pub(super) fn new(issuer: String) -> Self {
        let base = issuer.trim_end_matches('/');
        Self {
            discovery: format!("{base}/.well-known/openid-configuration"),
            issuer,
            keys: Mutex::default(),
            fetches: tokio::sync::Mutex::new(Fetches {
                since: Instant::now(),
                count: 0,
                ended: None,
            }),
        }
    }

    /// Returns the URL of the issuer's metadata.
    pub(super) fn discovery(&self) -> &str {
        &self.discovery
    }

    /// Returns the key of this id, fetching the keys if it is not known. Without an id, returns the key for the
    /// algorithm if there is exactly one.
    pub(super) async fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<DecodingKey, KeyError> {
        if let Some(key) = self.find_known(id, algorithm) {
            return Ok(key);
        }
        let asked = Instant::now();
        let mut fetches = self.fetches.lock().await;
        if fetches.since.elapsed() > FETCH_PERIOD {
            (fetches.since, fetches.count) = (Instant::now(), 0);
        }
        // If another request has fetched the keys while this one waited for the lock, a second fetch would
        // bring nothing new.
        let is_late = fetches.ended.is_some_and(|ended| ended > asked);
        if !is_late && fetches.count < MAX_UNKNOWN_KEY_FETCHES {
            fetches.count += 1;
            self.refresh().await;
            fetches.ended = Some(Instant::now());
        }
        drop(fetches);
        let is_known = self.keys.lock().is_some();
        let missing = if is_known { KeyError::Unknown } else { KeyError::Unavailable };
        self.find_known(id, algorithm).ok_or(missing)
    }

    fn find_known(&self, id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
        let keys = self.keys.lock();
        let mut fitting = keys.iter().flatten().filter(|key| {
            key.key.family() == algorithm.family()
                && key.algorithm.is_none_or(|only| only == algorithm)
                && id.is_none_or(|id| key.id.as_deref() == Some(id))
        });
        match (fitting.next(), fitting.next()) {
            (Some(only), None) => Some(only.key.clone()),
            _ => None,
        }
    }

    /// Fetches the keys at intervals. Never returns.
    pub(super) async fn keep_fresh(&self) {
        loop {
            let wait = if self.refresh().await { REFRESH_INTERVAL } else { FETCH_RETRY_INTERVAL };
            sleep(wait).await;
        }
    }

    /// Fails with the reason if the keys cannot be fetched.
    pub(super) async fn check(&self) -> anyhow::Result<()> {
        self.fetch().await.map(drop)
    }

    /// Fetches the keys. On failure, keeps the previous keys and returns `false`.
    async fn refresh(&self) -> bool {
        match self.fetch().await {
            Ok(keys) => {
                *self.keys.lock() = Some(keys);
                true
            }
            Err(err) => {
                let issuer = &self.issuer;
                tracing::warn!("the keys of {issuer} cannot be fetched: {err:#}");
                false
            }
        }
    }

    async fn fetch(&self) -> anyhow::Result<Vec<IssuerKey>> {
        // The client is not reused: fetches are rare, and the system's certificates may change in between.
        let client = tandem_net::build(|| tandem_net::client(system_lookup(), Reach::Private))?;
        let metadata = answer(&client, Url::parse(&self.discovery)?).await?;
        // A server that could answer for another issuer could sign tokens in that issuer's name.
        ensure!(
            metadata["issuer"] == self.issuer.as_str(),
            "{} is the metadata of another issuer, {}",
            self.discovery,
            metadata["issuer"]
        );
        let address = metadata["jwks_uri"].as_str().context("the metadata has no `jwks_uri`")?;
        let address = check_url(address).map_err(|why| anyhow!("`jwks_uri`: {why}"))?;
        let set = answer(&client, address).await?;
        let keys = set["keys"].as_array().context("the set of keys has no `keys`")?;
        let keys: Vec<_> = keys.iter().take(MOST_KEYS).filter_map(usable).collect();
        ensure!(!keys.is_empty(), "there is no key for RS256, PS256, ES256 or EdDSA");
        Ok(keys)
    }
}

/// Parses a URL of an issuer. Only HTTPS, or HTTP on this machine, is accepted, so that no third party can
/// change the responses.
pub(super) fn check_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|err| err.to_string())?;
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    let is_here = is_this_machine(host) || address.is_ok_and(|address| address.is_loopback());
    if url.scheme() != "https" && !(url.scheme() == "http" && is_here) {
        return Err("it must be https, or on this machine".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it has a user or a password".to_owned());
    }
    judge_host(&url, Reach::Private).map_err(|is| format!("its host is {is}"))?;
    Ok(url)
}

/// Returns a key of the set if it can verify signatures of the accepted algorithms. A set may have keys for
/// other purposes.
fn usable(key: &Value) -> Option<IssuerKey> {
    let jwk: Jwk = serde_json::from_value(key.clone()).ok()?;
    if jwk.common.public_key_use.as_ref().is_some_and(|it| *it != PublicKeyUse::Signature) {
        return None;
    }
    let is_known = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => true,
        AlgorithmParameters::EllipticCurve(curve) => curve.curve == EllipticCurve::P256,
        AlgorithmParameters::OctetKeyPair(pair) => pair.curve == EllipticCurve::Ed25519,
        // A symmetric key would be a shared secret, which must not be published.
        _ => false,
    };
    let key = DecodingKey::from_jwk(&jwk).ok().filter(|_| is_known)?;
    let algorithm = match jwk.common.key_algorithm {
        None => None,
        Some(KeyAlgorithm::RS256) => Some(Algorithm::RS256),
        Some(KeyAlgorithm::PS256) => Some(Algorithm::PS256),
        Some(KeyAlgorithm::ES256) => Some(Algorithm::ES256),
        Some(KeyAlgorithm::EdDSA) => Some(Algorithm::EdDSA),
        Some(_) => return None,
    };
    Some(IssuerKey { id: jwk.common.key_id, algorithm, key })
}

/// Fetches JSON from an issuer.
async fn answer(client: &Client, address: Url) -> anyhow::Result<Value> {
    let get = async {
        let sent = client.get(address.clone()).send().await;
        let sent = sent.map_err(|error| anyhow!(tandem_net::cause(&error)))?;
        let mut response = sent.error_for_status()?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            ensure!(body.len() + chunk.len() <= LARGEST_ANSWER, "it is too long");
            body.extend_from_slice(&chunk);
        }
        anyhow::Ok(serde_json::from_slice(&body)?)
    };
    let answered = tokio::time::timeout(ANSWER_TIME, get).await;
    answered.context("no answer in time").flatten().with_context(|| address.to_string())
}
