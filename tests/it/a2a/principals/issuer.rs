//! An OIDC issuer, with keys of its own.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RSA_PSS_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

/// Data that an issuer serves, and the number of requests for it.
#[derive(Default)]
struct State {
    /// Name of the issuer in its metadata.
    name: String,
    /// Address of the keys.
    keys_at: String,
    keys: Vec<Value>,
    is_down: bool,
    /// Number of times that the keys were fetched.
    fetched: usize,
}

/// An issuer on this machine.
pub(super) struct Issuer {
    pub(super) url: String,
    state: Arc<Mutex<State>>,
    _serving: AbortOnDropHandle<()>,
}

/// A key that signs tokens.
pub(super) struct Key {
    pub(super) id: String,
    pub(super) algorithm: &'static str,
    pair: Pair,
}

enum Pair {
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
    Rsa(Box<RsaKeyPair>),
}

pub(super) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Key {
    /// Returns a new key for `ES256`, `EdDSA`, `RS256` or `PS256`. For the last two it is always the same key, which
    /// no other server accepts.
    pub(super) fn new(id: &str, algorithm: &'static str) -> Self {
        let random = SystemRandom::new();
        let pair = match algorithm {
            "ES256" => {
                let scheme = &ECDSA_P256_SHA256_FIXED_SIGNING;
                let key = EcdsaKeyPair::generate_pkcs8(scheme, &random).unwrap();
                Pair::Ec(EcdsaKeyPair::from_pkcs8(scheme, key.as_ref(), &random).unwrap())
            }
            "EdDSA" => {
                let key = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
                Pair::Ed(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
            }
            _ => {
                let key =
                    STANDARD.decode(include_str!("issuer_rsa.txt").replace('\n', "")).unwrap();
                Pair::Rsa(Box::new(RsaKeyPair::from_pkcs8(&key).unwrap()))
            }
        };
        Self { id: id.to_owned(), algorithm, pair }
    }

    /// Returns the public half.
    pub(super) fn public(&self) -> Value {
        let mut key = match &self.pair {
            Pair::Ec(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "x": encoded(x), "y": encoded(y) })
            }
            Pair::Ed(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": encoded(pair.public_key()) })
            }
            Pair::Rsa(pair) => {
                let public = PublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({ "kty": "RSA", "n": encoded(public.n), "e": encoded(public.e) })
            }
        };
        key["kid"] = json!(self.id);
        key["use"] = json!("sig");
        key
    }

    /// Returns a token with these claims.
    pub(super) fn token(&self, claims: &Value) -> String {
        self.signed(&json!({ "alg": self.algorithm, "kid": self.id, "typ": "JWT" }), claims)
    }

    /// Returns a token with this header.
    pub(super) fn signed(&self, header: &Value, claims: &Value) -> String {
        let random = SystemRandom::new();
        let message = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let bytes = message.as_bytes();
        let signature = match &self.pair {
            Pair::Ec(pair) => pair.sign(&random, bytes).unwrap().as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(bytes).as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let scheme: &dyn ring::signature::RsaEncoding =
                    if self.algorithm == "PS256" { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                pair.sign(scheme, &random, bytes, &mut signature).unwrap();
                signature
            }
        };
        format!("{message}.{}", encoded(signature))
    }
}

impl Issuer {
    pub(super) async fn new(keys: &[&Key]) -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = State {
            name: url.clone(),
            keys_at: format!("{url}/keys"),
            keys: keys.iter().map(|key| key.public()).collect(),
            ..State::default()
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let answer = move |uri: Uri| {
            let answer = shared.lock().unwrap().answer(uri.path());
            async move { answer }
        };
        let router = Router::new().fallback(any(answer));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, state, _serving: AbortOnDropHandle::new(serving) }
    }

    /// Replaces the keys of the issuer.
    pub(super) fn publish(&self, keys: Vec<Value>) {
        self.state.lock().unwrap().keys = keys;
    }

    pub(super) fn set_down(&self, is_down: bool) {
        self.state.lock().unwrap().is_down = is_down;
    }

    /// Changes the name that the issuer gives itself.
    pub(super) fn rename(&self, name: &str) {
        name.clone_into(&mut self.state.lock().unwrap().name);
    }

    pub(super) fn fetched(&self) -> usize {
        self.state.lock().unwrap().fetched
    }

    /// Returns the claims of a token that is valid for an hour.
    pub(super) fn claims(&self, subject: &str) -> Value {
        json!({ "iss": self.url, "aud": "tandem", "sub": subject, "exp": now() + 3600 })
    }
}

impl State {
    fn answer(&mut self, path: &str) -> Response {
        if self.is_down {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
        let body = match path {
            "/.well-known/openid-configuration" => {
                json!({ "issuer": self.name, "jwks_uri": self.keys_at })
            }
            "/keys" => {
                self.fetched += 1;
                json!({ "keys": self.keys })
            }
            _ => return StatusCode::NOT_FOUND.into_response(),
        };
        body.to_string().into_response()
    }
}

/// Returns the time of this machine in seconds.
pub(super) fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap().as_secs()
}
