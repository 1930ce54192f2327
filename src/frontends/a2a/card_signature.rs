//! Signatures of the agent card (A2A 1.0, section 8.4): JWS over the card's canonical JSON (RFC 8785).

use std::collections::{BTreeMap, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use ring::error::Unspecified;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Map, Value, json};
use tandem_wire::a2a::CardSignature;

/// Advice for an operator without a suitable key.
const MAKE_KEY: &str = "`openssl genpkey -algorithm ed25519 -out FILE` makes a key";

/// Private key that signs the agent card.
pub struct CardKey {
    pair: Pair,
    /// The public key as a JWK, with its id.
    public: Value,
    /// The protected header of each signature, base64url-encoded.
    protected: String,
    /// Signatures by signed payload. The card has only a few forms, and caches expect the same bytes each
    /// time, but an ECDSA signature differs each time.
    made: Mutex<HashMap<String, String>>,
}

enum Pair {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl CardKey {
    /// Reads a private key: PEM with PKCS#8, for ECDSA (P-256) or Ed25519. The key id defaults to the key's
    /// thumbprint (RFC 7638). `jku`: URL of a key set with the public key.
    pub fn read(pem: &[u8], id: Option<String>, jku: Option<String>) -> Result<Self, String> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem);
        let der = der
            .map_err(|err| format!("there is no `BEGIN PRIVATE KEY` in it ({err}); {MAKE_KEY}"))?;
        let der = der.secret_pkcs8_der();
        let random = SystemRandom::new();
        let p256 = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random);
        let (pair, algorithm, mut public) = if let Ok(pair) = p256 {
            // Uncompressed point: a format byte and the two coordinates.
            let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
            let public = json!({ "crv": "P-256", "kty": "EC", "x": encoded(x), "y": encoded(y) });
            (Pair::P256(pair), "ES256", public)
        } else {
            let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map_err(|_| {
                format!("it is a key neither for ECDSA with P-256 nor for Ed25519; {MAKE_KEY}")
            })?;
            let x = encoded(pair.public_key());
            (Pair::Ed25519(pair), "EdDSA", json!({ "crv": "Ed25519", "kty": "OKP", "x": x }))
        };
        let thumbprint = || encoded(digest(&SHA256, canonical(&public).as_bytes()));
        let id = id.unwrap_or_else(thumbprint);
        let mut header = json!({ "alg": algorithm, "typ": "JOSE", "kid": id });
        if let Some(jku) = jku {
            header["jku"] = json!(jku);
        }
        public["kid"] = json!(id);
        public["alg"] = json!(algorithm);
        public["use"] = json!("sig");
        let protected = encoded(header.to_string());
        Ok(Self { pair, public, protected, made: Mutex::default() })
    }

    /// Returns the key set with the public key.
    pub(super) fn public_set(&self) -> Value {
        json!({ "keys": [self.public] })
    }

    /// Returns the signatures of a card that has only fields of 1.0. Verifiers that drop all empty values, such as
    /// A2A's Python SDK, may see another card than the specification demands. A second signature then covers that
    /// card.
    pub(super) fn sign(&self, card: &Value) -> Vec<CardSignature> {
        let exact = canonical(&without_defaults(card, false));
        let bare = canonical(&without_defaults(card, true));
        let both = [Some(&exact), Some(&bare).filter(|bare| **bare != exact)];
        let signatures = both.into_iter().flatten().filter_map(|payload| {
            let signature = self.signature(payload);
            // Signing fails only if the system has no random numbers; the card then stays unsigned.
            let signature = signature.inspect_err(|_| tracing::error!("the card cannot be signed"));
            Some(CardSignature { protected: self.protected.clone(), signature: signature.ok()? })
        });
        signatures.collect()
    }

    fn signature(&self, payload: &str) -> Result<String, Unspecified> {
        let mut made = self.made.lock();
        if let Some(signature) = made.get(payload) {
            return Ok(signature.clone());
        }
        let message = format!("{}.{}", self.protected, encoded(payload));
        let signature = match &self.pair {
            Pair::P256(pair) => encoded(pair.sign(&SystemRandom::new(), message.as_bytes())?),
            Pair::Ed25519(pair) => encoded(pair.sign(message.as_bytes())),
        };
        made.insert(payload.to_owned(), signature.clone());
        Ok(signature)
    }
}

impl std::fmt::Debug for CardKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CardKey").field("public", &self.public).finish_non_exhaustive()
    }
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns a card without default values: empty strings and lists, and `false` for fields that are not
/// `optional` in the protocol's definition (of the card's fields, only `required`). `bare`: `true` to remove
/// empty objects, too.
fn without_defaults(value: &Value, bare: bool) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name, without_defaults(value, bare)));
            let is_default = |name: &str, value: &Value| match value {
                Value::Bool(value) => name == "required" && !value,
                value => is_empty(value, bare),
            };
            let kept = fields.filter(|(name, value)| !is_default(name, value));
            kept.map(|(name, value)| (name.clone(), value)).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| without_defaults(item, bare));
            items.filter(|item| !bare || !is_empty(item, bare)).collect()
        }
        other => other.clone(),
    }
}

fn is_empty(value: &Value, bare: bool) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => bare && fields.is_empty(),
        _ => false,
    }
}

/// Serializes a value as canonical JSON (RFC 8785). This simple form covers neither numbers, which a card
/// does not have, nor names outside of ASCII.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> = fields.iter().collect();
            let fields = fields
                .into_iter()
                .map(|(name, value)| format!("{}:{}", json!(name), canonical(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_signed_is_the_specifications_example() {
        // Section 8.4.1, without the fields that are present although empty: tandem never leaves these empty.
        let card = json!({
            "name": "Example Agent",
            "capabilities": { "streaming": false, "pushNotifications": false, "extensions": [] },
        });
        assert_eq!(
            canonical(&without_defaults(&card, false)),
            r#"{"capabilities":{"pushNotifications":false,"streaming":false},"name":"Example Agent"}"#
        );
    }

    #[test]
    fn texts_are_escaped_as_little_as_can_be() {
        let text = json!({ "b": "\u{8}\t\n\u{c}\r\u{1}\"\\/é€😀\u{7f}", "a": [null, true] });
        let expected = "{\"a\":[null,true],\"b\":\"\\b\\t\\n\\f\\r\\u0001\\\"\\\\/é€😀\u{7f}\"}";
        assert_eq!(canonical(&text), expected);
    }

    #[test]
    fn a_default_is_left_out_and_a_scheme_without_scopes_is_not() {
        let card = json!({
            "extensions": [{ "uri": "u", "required": false, "params": { "version": "0" } }],
            "securityRequirements": [{ "schemes": { "bearer": { "list": [] } } }],
        });
        assert_eq!(
            canonical(&without_defaults(&card, false)),
            r#"{"extensions":[{"params":{"version":"0"},"uri":"u"}],"securityRequirements":[{"schemes":{"bearer":{}}}]}"#
        );
        assert_eq!(
            canonical(&without_defaults(&card, true)),
            r#"{"extensions":[{"params":{"version":"0"},"uri":"u"}]}"#
        );
    }

    #[test]
    fn what_is_no_key_says_so() {
        for wrong in
            ["", "nonsense", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
        {
            assert!(CardKey::read(wrong.as_bytes(), None, None).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_has_its_thumbprint_unless_it_is_named() {
        // Key and thumbprint of RFC 8037, appendix A.
        let pem = "-----BEGIN PRIVATE KEY-----\n\
            MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n\
            -----END PRIVATE KEY-----\n";
        let key = CardKey::read(pem.as_bytes(), None, None).unwrap();
        assert_eq!(key.public["x"], "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
        assert_eq!(key.public["kid"], "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
        let named = CardKey::read(pem.as_bytes(), Some("a".to_owned()), None).unwrap();
        assert_eq!(named.public["kid"], "a");
    }
}
