//! The agent card's signatures, checked as a client would.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ED25519, EcdsaKeyPair,
    Ed25519KeyPair, UnparsedPublicKey,
};
use serde_json::{Map, Value, json};

use super::server::{Served, serve};
use crate::agent::Setup;

/// The fields that a card of 1.0 can have.
const FIELDS: [&str; 14] = [
    "name",
    "description",
    "supportedInterfaces",
    "provider",
    "version",
    "documentationUrl",
    "capabilities",
    "securitySchemes",
    "securityRequirements",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
    "signatures",
    "iconUrl",
];

/// Fields of a scheme in the form of 0.3, beside the form of 1.0.
const OLD_SCHEME: [&str; 3] = ["type", "scheme", "openIdConnectUrl"];

/// Returns a new key, in the form in which `openssl genpkey` writes keys.
fn pem(algorithm: &str) -> String {
    let random = SystemRandom::new();
    let key = match algorithm {
        "ES256" => EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random),
        _ => Ed25519KeyPair::generate_pkcs8(&random),
    };
    let key = STANDARD.encode(key.unwrap());
    format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n")
}

async fn signing(setup: Setup, algorithm: &str) -> Served {
    serve(&setup.file("card.pem", &pem(algorithm)).arg("--card-key").arg("card.pem")).await
}

fn hello() -> Setup {
    Setup::answers(json!([[{ "text": "hello" }]]))
}

/// Reads a card as a client of 1.0 does: without unknown fields, and without fields that have their default. `bare`:
/// also without all empty fields.
fn understood(mut card: Value, bare: bool) -> Value {
    let fields = card.as_object_mut().unwrap();
    fields.retain(|name, _| FIELDS.contains(&name.as_str()));
    fields.remove("signatures");
    let schemes = card.get_mut("securitySchemes").and_then(Value::as_object_mut);
    for scheme in schemes.into_iter().flat_map(Map::values_mut) {
        scheme.as_object_mut().unwrap().retain(|name, _| !OLD_SCHEME.contains(&name.as_str()));
    }
    let capabilities = card["capabilities"].as_object_mut().unwrap();
    capabilities.remove("stateTransitionHistory");
    let extension = capabilities["extensions"][0].as_object_mut().unwrap();
    assert_eq!(extension.remove("required"), Some(json!(false)));
    let requirements = card.get_mut("securityRequirements").and_then(Value::as_array_mut);
    let Some(requirements) = requirements else { return card };
    for requirement in requirements {
        let schemes = requirement["schemes"].as_object_mut().unwrap();
        schemes.values_mut().for_each(|scopes| *scopes = json!({}));
    }
    if bare {
        card.as_object_mut().unwrap().remove("securityRequirements");
    }
    card
}

/// Sorts the names in all objects.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().collect();
            fields.sort_by(|(one, _), (other, _)| one.cmp(other));
            fields.into_iter().map(|(name, value)| (name, sorted(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        other => other,
    }
}

/// Returns whether a signature of a card is right, by a key of the set.
fn is_right(card: &Value, n: usize, keys: &Value, bare: bool) -> bool {
    let read = |text: &Value| URL_SAFE_NO_PAD.decode(text.as_str().unwrap()).unwrap();
    let signature = &card["signatures"][n];
    let header: Value = serde_json::from_slice(&read(&signature["protected"])).unwrap();
    assert_eq!(header["typ"], "JOSE");
    let keys = keys["keys"].as_array().unwrap();
    let key = keys.iter().find(|key| key["kid"] == header["kid"]).unwrap();
    let payload = URL_SAFE_NO_PAD.encode(sorted(understood(card.clone(), bare)).to_string());
    let message = format!("{}.{payload}", signature["protected"].as_str().unwrap());
    let made = read(&signature["signature"]);
    let checked = match header["alg"].as_str().unwrap() {
        "ES256" => {
            let point = [&[4][..], &read(&key["x"]), &read(&key["y"])].concat();
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                .verify(message.as_bytes(), &made)
        }
        "EdDSA" => {
            UnparsedPublicKey::new(&ED25519, read(&key["x"])).verify(message.as_bytes(), &made)
        }
        other => panic!("{other}"),
    };
    checked.is_ok()
}

const PATHS: [&str; 2] = ["/.well-known/agent-card.json", "/v1/.well-known/agent-card.json"];

#[tokio::test]
async fn the_card_is_signed_with_either_kind_of_key() {
    for algorithm in ["ES256", "EdDSA"] {
        let it = signing(hello(), algorithm).await;
        let keys = it.client.get("/.well-known/jwks.json").await.json();
        assert_eq!(keys["keys"][0]["alg"], algorithm);
        assert!(keys["keys"][0].get("d").is_none());
        for path in PATHS {
            let response = it.client.get(path).await;
            let card = response.json();
            assert_eq!(card["signatures"].as_array().unwrap().len(), 1);
            assert!(is_right(&card, 0, &keys, false), "{algorithm} {path}: {card}");
            let mut forged = card.clone();
            forged["supportedInterfaces"][0]["url"] = json!("https://evil.example/");
            assert!(!is_right(&forged, 0, &keys, false));
            // The card has the same bytes each time, so that caches work.
            let again = it.client.get(path).await;
            assert_eq!(
                (again.header("etag"), &again.body),
                (response.header("etag"), &response.body)
            );
        }
    }
}

#[tokio::test]
async fn a_card_with_a_scheme_is_signed_for_verifiers_that_drop_what_is_empty_too() {
    let setup = hello().file("t.txt", "t0ken").arg("--a2a-token-file").arg("t.txt");
    let setup = setup.arg("--card-key-id").arg("k1").arg("--card-jku").arg("https://example.com/k");
    let it = signing(setup, "EdDSA").await;
    let keys = it.client.get("/.well-known/jwks.json").await.json();
    for path in PATHS {
        let card = it.client.get(path).await.json();
        assert_eq!(card["signatures"].as_array().unwrap().len(), 2);
        assert!(is_right(&card, 0, &keys, false), "{card}");
        assert!(is_right(&card, 1, &keys, true), "{card}");
        let header = card["signatures"][0]["protected"].as_str().unwrap();
        let header: Value =
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
        assert_eq!(
            (&header["kid"], &header["jku"]),
            (&json!("k1"), &json!("https://example.com/k"))
        );
    }
    let token = ["A2A-Version: 1.0", "Authorization: Bearer t0ken"];
    let extended = it.client.send("GET /v1/extendedAgentCard", &token, b"").await.json();
    assert!(is_right(&extended, 0, &keys, false));
}

#[tokio::test]
async fn without_a_key_there_is_no_signature() {
    let it = serve(&hello()).await;
    assert!(it.client.get(PATHS[1]).await.json().get("signatures").is_none());
    assert_eq!(it.client.get("/.well-known/jwks.json").await.status, 404);
    let setup = hello().file("card.pem", "nonsense").arg("serve").arg("--port").arg("0");
    let ran = setup.arg("--card-key").arg("card.pem").run().await;
    assert!(ran.stderr.contains("cannot read the key in card.pem"), "{}", ran.stderr);
    assert!(ran.stderr.contains("`openssl genpkey -algorithm ed25519 "), "{}", ran.stderr);
}
