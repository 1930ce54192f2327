//! Public keys of an issuer, fetched from it and remembered.

use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use parking_lot::Mutex;
use reqwest::{Client, Url};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use tandem_net::{Reach, is_this_machine, judge_host, system_lookup};

/// Time after which the keys are fetched again.
const FRESH: Duration = Duration::from_mins(10);

/// Time after which they are fetched again, if that has failed.
const RETRY: Duration = Duration::from_mins(1);

/// Maximum number of fetches for unknown keys in a [`PERIOD`]: tokens with invented names of keys are not
/// to trouble the issuer.
const FETCHES: u32 = 5;
const PERIOD: Duration = Duration::from_mins(1);

/// Maximum time for each of the issuer's two answers.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Maximum number of bytes of each of the issuer's two answers, and of keys in it.
const LARGEST_ANSWER: usize = 512 << 10;
const MOST_KEYS: usize = 100;

/// Reason for having no key.
pub(super) enum KeyError {
    /// The issuer has none that fits.
    Unknown,
    /// No key was ever fetched.
    Unavailable,
}

/// Keys of an issuer.
pub(super) struct IssuerKeys {
    issuer: String,
    discovery: String,
    /// Those that were fetched last; `None` until then. What is fetched in vain takes none away.
    keys: Mutex<Option<Vec<IssuerKey>>>,
    /// Fetches for unknown keys. Held while one runs, so that of many requests one fetches.
    fetches: tokio::sync::Mutex<Fetches>,
}

/// Number of fetches since a time, and the end of the last.
struct Fetches {
    since: Instant,
    count: u32,
    ended: Option<Instant>,
}

/// A key with which tokens are signed.
struct IssuerKey {
    id: Option<String>,
    /// Algorithm for which alone the key is to be used, if the issuer says so.
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

    /// Returns the address of the issuer's metadata.
    pub(super) fn discovery(&self) -> &str {
        &self.discovery
    }

    /// Returns the key of this id, which is fetched if it is not known; without an id, the only key for
    /// the algorithm.
    pub(super) async fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<DecodingKey, KeyError> {
        if let Some(key) = self.known(id, algorithm) {
            return Ok(key);
        }
        let asked = Instant::now();
        let mut fetches = self.fetches.lock().await;
        if fetches.since.elapsed() > PERIOD {
            (fetches.since, fetches.count) = (Instant::now(), 0);
        }
        // One that has ended meanwhile has fetched it, or nobody does.
        let is_late = fetches.ended.is_some_and(|ended| ended > asked);
        if !is_late && fetches.count < FETCHES {
            fetches.count += 1;
            self.refresh().await;
            fetches.ended = Some(Instant::now());
        }
        drop(fetches);
        let is_known = self.keys.lock().is_some();
        let missing = if is_known { KeyError::Unknown } else { KeyError::Unavailable };
        self.known(id, algorithm).ok_or(missing)
    }

    fn known(&self, id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
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

    /// Fetches the keys from time to time.
    pub(super) async fn keep_fresh(&self) {
        loop {
            let wait = if self.refresh().await { FRESH } else { RETRY };
            sleep(wait).await;
        }
    }

    /// Returns an error that says why the keys cannot be fetched, if they cannot.
    pub(super) async fn check(&self) -> anyhow::Result<()> {
        self.fetch().await.map(drop)
    }

    /// Fetches the keys. If that fails, those from before are kept, and `false` is returned.
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
        // Not kept between fetches, which are rare: the system's certificates may change.
        let client = tandem_net::build(|| tandem_net::client(system_lookup(), Reach::Private))?;
        let metadata = answer(&client, Url::parse(&self.discovery)?).await?;
        // Whoever could answer for another issuer could sign in its name.
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

/// Reads an address of an issuer, which nobody in between can have changed what it answers.
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

/// Returns a key of a set, if signatures can be checked with it: a set may have others.
fn usable(key: &Value) -> Option<IssuerKey> {
    let jwk: Jwk = serde_json::from_value(key.clone()).ok()?;
    if jwk.common.public_key_use.as_ref().is_some_and(|it| *it != PublicKeyUse::Signature) {
        return None;
    }
    let is_known = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => true,
        AlgorithmParameters::EllipticCurve(curve) => curve.curve == EllipticCurve::P256,
        AlgorithmParameters::OctetKeyPair(pair) => pair.curve == EllipticCurve::Ed25519,
        // A shared secret is not to be published.
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

/// Gets JSON from an issuer.
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
