//! People and services whom `tandem serve` knows by the tokens of an OIDC issuer.

use serde_json::{Value, json};
use tandem_serve::tokens::PrincipalRole;

use super::super::http::Response;
use super::super::server::Client;
use super::issuer::{Issuer, Key, encoded, now};
use super::{Office, Person, asking, hello, id};
use crate::agent::Setup;

/// Starts a server that trusts an issuer, with these options.
async fn open(issuer: &Issuer, setup: Setup, options: &[&str]) -> Office {
    let always = ["--oidc-issuer", &issuer.url, "--oidc-audience", "tandem"];
    let setup = always.iter().chain(options).fold(setup, |setup, option| setup.arg(option));
    Office::open(setup).await
}

impl Office {
    fn holder(&self, token: String) -> Person {
        Person { port: self.server.client.port, token, id: id("default", "any") }
    }
}

async fn status(it: &Office, token: &str) -> u16 {
    it.holder(token.to_owned()).get("/listCommands").await.status
}

/// Checks that a token is refused, and that its holder learns the reason.
async fn refused(it: &Office, token: &str, why: &str) {
    let response: Response = it.holder(token.to_owned()).get("/listCommands").await;
    assert_eq!(response.status, 401, "{why}");
    let challenge = response.header("www-authenticate");
    assert_eq!(challenge, "Bearer realm=\"tandem\", error=\"invalid_token\"");
    assert!(response.text().contains(why), "{why}: {}", response.text());
}

#[tokio::test]
async fn each_algorithm_with_a_public_key_counts_and_no_other() {
    let keys = ["RS256", "PS256", "ES256", "EdDSA"].map(|algorithm| Key::new(algorithm, algorithm));
    let issuer = Issuer::new(&keys.each_ref()).await;
    let it = open(&issuer, hello(), &[]).await;
    let claims = issuer.claims("alice");
    for key in &keys {
        assert_eq!(status(&it, &key.token(&claims)).await, 200, "{}", key.algorithm);
    }
    let header = |algorithm: &str, key: &Key| json!({ "alg": algorithm, "kid": key.id });
    let unsigned = format!(
        "{}.{}.",
        encoded(header("none", &keys[0]).to_string()),
        encoded(claims.to_string())
    );
    refused(&it, &unsigned, "it cannot be read as a JWT").await;
    // The token is signed by HMAC with a public key as the secret: everybody can read that key.
    let message = format!(
        "{}.{}",
        encoded(header("HS256", &keys[2]).to_string()),
        encoded(claims.to_string())
    );
    let public = keys[2].public().to_string();
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, public.as_bytes());
    let tag = ring::hmac::sign(&secret, message.as_bytes());
    refused(&it, &format!("{message}.{}", encoded(tag)), "its algorithm").await;
    for other in ["RS384", "ES384", "HS512"] {
        refused(&it, &keys[0].signed(&header(other, &keys[0]), &claims), "its algorithm").await;
    }
    // The key is of another kind than the token's header says, or is not meant for this algorithm.
    refused(&it, &keys[2].signed(&header("RS256", &keys[2]), &claims), "no such key").await;
    let mut only = keys[0].public();
    only["alg"] = json!("RS256");
    issuer.publish(vec![only]);
    refused(
        &it,
        &keys[1].signed(&header("PS256", &Key::new("new", "ES256")), &claims),
        "no such key",
    )
    .await;
    assert_eq!(status(&it, &keys[0].token(&claims)).await, 200);
    refused(&it, &keys[1].signed(&header("PS256", &keys[0]), &claims), "no such key").await;
}

#[tokio::test]
async fn a_token_counts_for_this_server_at_its_time_alone() {
    let (key, stranger) = (Key::new("a", "ES256"), Key::new("a", "ES256"));
    let issuer = Issuer::new(&[&key]).await;
    let it = open(&issuer, hello(), &["--oidc-audience", "other"]).await;
    let with = |name: &str, value: Value| {
        let mut claims = issuer.claims("alice");
        claims[name] = value;
        key.token(&claims)
    };
    for good in [
        with("aud", json!("other")),
        with("aud", json!(["somebody", "tandem"])),
        with("nbf", json!(now() + 30)),
        with("exp", json!(now() - 30)),
        with("sub", json!("auth0|5f7c")),
    ] {
        assert_eq!(status(&it, &good).await, 200, "{good}");
    }
    for (bad, why) in [
        (with("iss", json!("https://id.example.com")), "another issuer"),
        (with("iss", Value::Null), "lacks"),
        (with("aud", json!("somebody")), "another audience"),
        (with("aud", json!([])), "another audience"),
        (with("aud", Value::Null), "lacks"),
        (with("exp", json!(now() - 90)), "expired"),
        (with("exp", Value::Null), "lacks"),
        (with("exp", json!("soon")), "lacks"),
        (with("nbf", json!(now() + 90)), "not valid yet"),
        (with("sub", Value::Null), "no claim `sub`"),
        (with("sub", json!("")), "no claim `sub`"),
        (with("sub", json!("x".repeat(20_000))), "more than 16384 bytes"),
        (stranger.token(&issuer.claims("alice")), "its signature"),
        (Key::new("b", "ES256").token(&issuer.claims("alice")), "no such key"),
        ("not.a.jwt".to_owned(), "cannot be read as a JWT"),
        ("nonsense".to_owned(), "cannot be read as a JWT"),
    ] {
        refused(&it, &bad, why).await;
    }
    let critical = json!({ "alg": "ES256", "kid": "a", "crit": ["x"], "x": 1 });
    refused(&it, &key.signed(&critical, &issuer.claims("alice")), "critical").await;
    let anonymous = key.signed(&json!({ "alg": "ES256" }), &issuer.claims("alice"));
    assert_eq!(status(&it, &anonymous).await, 200, "there is only one key");
    let changed = key.token(&issuer.claims("alice"));
    let parts: Vec<_> = changed.split('.').collect();
    let claims = encoded(issuer.claims("root").to_string());
    refused(&it, &format!("{}.{claims}.{}", parts[0], parts[2]), "its signature").await;
    assert_eq!(it.server.client.get("/listCommands").await.status, 401);
}

#[tokio::test]
async fn new_keys_are_fetched_withdrawn_ones_are_forgotten_and_lost_ones_are_kept() {
    let (old, new) = (Key::new("old", "ES256"), Key::new("new", "EdDSA"));
    let issuer = Issuer::new(&[&old]).await;
    let it = open(&issuer, hello(), &[]).await;
    let claims = issuer.claims("alice");
    assert_eq!(status(&it, &old.token(&claims)).await, 200);
    // A key set may contain keys that this server cannot use.
    let odd = json!({ "kty": "XYZ", "kid": "odd" });
    let for_secrets = json!({ "kty": "oct", "k": "c2VjcmV0", "kid": "oct" });
    issuer.publish(vec![odd, for_secrets, new.public()]);
    assert_eq!(status(&it, &new.token(&claims)).await, 200);
    refused(&it, &old.token(&claims), "no such key").await;
    // If the issuer does not answer, or another server does, the known keys stay.
    issuer.set_down(true);
    refused(&it, &old.token(&claims), "no such key").await;
    assert_eq!(status(&it, &new.token(&claims)).await, 200);
    issuer.set_down(false);
    issuer.rename("https://id.example.com");
    issuer.publish(vec![old.public()]);
    refused(&it, &old.token(&claims), "no such key").await;
    assert_eq!(status(&it, &new.token(&claims)).await, 200);
}

#[tokio::test]
async fn invented_names_of_keys_do_not_trouble_the_issuer() {
    let key = Key::new("a", "ES256");
    let issuer = Issuer::new(&[&key]).await;
    let it = open(&issuer, hello(), &[]).await;
    for n in 0..30 {
        let stranger = Key::new(&format!("b{n}"), "EdDSA");
        refused(&it, &stranger.token(&issuer.claims("alice")), "no such key").await;
    }
    let fetched = issuer.fetched();
    assert!(fetched <= 6, "{fetched}");
    assert_eq!(status(&it, &key.token(&issuer.claims("alice"))).await, 200);
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_at_first_is_asked_again() {
    let key = Key::new("a", "ES256");
    let issuer = Issuer::new(&[&key]).await;
    issuer.set_down(true);
    let it = open(&issuer, hello(), &[]).await;
    let token = key.token(&issuer.claims("alice"));
    let person = it.holder(token.clone());
    let response = person.get("/listCommands").await;
    assert_eq!((response.status, response.header("retry-after")), (503, "1"));
    // Other principals are served meanwhile.
    assert_eq!(it.member("bob").get("/listCommands").await.status, 200);
    issuer.set_down(false);
    assert_eq!(status(&it, &token).await, 200);
}

#[tokio::test]
async fn subjects_have_sessions_of_their_own() {
    let key = Key::new("a", "ES256");
    let issuer = Issuer::new(&[&key]).await;
    let options = ["--oidc-tenant-claim", "org", "--oidc-admin", "groups=bosses"];
    let it = open(&issuer, asking(), &options).await;
    let person = |subject: &str, org: &str, groups: &[&str]| {
        let mut claims = issuer.claims(subject);
        claims["org"] = json!(org);
        claims["groups"] = json!(groups);
        it.holder(key.token(&claims))
    };
    let alice = person("alice", "acme", &["people"]);
    let task = alice.begin("a").await;
    assert_eq!(task["status"]["state"], "input-required");
    for stranger in [
        person("bob", "acme", &["people"]),
        person("alice", "other", &[]),
        person("root", "other", &["bosses"]),
        person("ALICE", "acme", &[]),
        person("alice ", "acme", &[]),
        it.add("default", "alice", PrincipalRole::Member),
    ] {
        let (code, _) = stranger.error("tasks/get", json!({ "id": "a" })).await;
        assert_eq!(code, -32001);
        assert_eq!(stranger.result("ListTasks", json!({})).await["totalSize"], 0);
    }
    // The session belongs to the tenant and the name: another token of the subject, a token of the server for this
    // name, and an administrator all reach it.
    let admin = person("root", "acme", &["people", "bosses"]);
    for owner in [person("alice", "acme", &[]), it.member("alice"), admin] {
        assert_eq!(owner.result("ListTasks", json!({})).await["totalSize"], 1);
    }
    let without = it.holder(key.token(&issuer.claims("alice")));
    assert_eq!(without.get("/listCommands").await.status, 401, "there is no tenant");
}

#[tokio::test]
async fn streams_end_when_their_token_expires() {
    let key = Key::new("a", "ES256");
    let issuer = Issuer::new(&[&key]).await;
    let it = open(&issuer, asking(), &[]).await;
    let alice = it.holder(key.token(&issuer.claims("alice")));
    alice.begin("a").await;
    // The token has expired, but counts for 60 seconds more, because clocks may differ.
    let mut claims = issuer.claims("alice");
    claims["exp"] = json!(now() - 56);
    let short = it.holder(key.token(&claims));
    let mut stream = short.stream("tasks/resubscribe", json!({ "id": "a" })).await;
    assert!(stream.next().await.is_some());
    let mut lasting = alice.stream("tasks/resubscribe", json!({ "id": "a" })).await;
    assert!(lasting.next().await.is_some());
    let mut socket = short.socket("/ws").await.unwrap();
    while stream.event().await.is_some() {}
    assert_eq!(socket.frame().await, Err(1008));
    // The stream of the other token goes on.
    let stopped = alice.result("tasks/cancel", json!({ "id": "a" })).await;
    assert_eq!(stopped["status"]["state"], "canceled");
    assert!(lasting.next().await.is_some());
}

#[tokio::test]
async fn the_card_names_the_issuer() {
    let issuer = Issuer::new(&[&Key::new("a", "ES256")]).await;
    let it = open(&issuer, hello(), &[]).await;
    let metadata = format!("{}/.well-known/openid-configuration", issuer.url);
    let client: Client = it.server.client;
    let card = client.get("/.well-known/agent-card.json").await.json();
    let scheme = &card["securitySchemes"]["openIdConnect"];
    assert_eq!(
        (&scheme["type"], &scheme["openIdConnectUrl"]),
        (&json!("openIdConnect"), &json!(metadata))
    );
    assert_eq!(card["security"], json!([{ "openIdConnect": [] }, { "bearer": [] }]));
    let card = client.get("/v1/.well-known/agent-card.json").await.json();
    let expected = json!({ "openIdConnectSecurityScheme": { "openIdConnectUrl": metadata } });
    assert_eq!(card["securitySchemes"]["openIdConnect"], expected);
    let schemes = card["securityRequirements"].as_array().unwrap().iter().map(|it| &it["schemes"]);
    let expected =
        [json!({ "openIdConnect": { "list": [] } }), json!({ "bearer": { "list": [] } })];
    assert_eq!(schemes.collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn what_cannot_be_an_issuer_is_said_at_the_start() {
    let audience = ["--oidc-audience", "tandem"];
    for (options, why) in [
        (vec!["--oidc-issuer", "http://id.example.com"], "it must be https"),
        (vec!["--oidc-issuer", "nonsense"], "is not an issuer"),
        (
            vec!["--oidc-issuer", "https://id.example.com", "--oidc-tenant", "a b"],
            "is not a tenant",
        ),
        (vec!["--oidc-issuer", "https://id.example.com", "--oidc-admin", "x"], "CLAIM=VALUE"),
    ] {
        let setup = hello().arg("serve").arg("--port").arg("0");
        let setup = options.iter().chain(&audience).fold(setup, |setup, it| setup.arg(it));
        let ran = setup.run().await;
        assert_ne!(ran.code, Some(0));
        assert!(ran.stderr.contains(why), "{options:?}: {}", ran.stderr);
    }
    let alone = hello().arg("serve").arg("--oidc-issuer").arg("https://id.example.com").run().await;
    assert!(alone.stderr.contains("--oidc-audience"), "{}", alone.stderr);
}
