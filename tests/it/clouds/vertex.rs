//! Vertex AI: Gemini and Claude, with Application Default Credentials.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rsa::PublicKeyComponents;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, RsaPublicKeyComponents};

use super::*;

/// A private key in PKCS#8, which counts nowhere else.
const PRIVATE_KEY: &str = include_str!("../a2a/principals/issuer_rsa.txt");
const TOKEN: &str = "ya29.access-token-0123456789";
const REFRESH_TOKEN: &str = "1//refresh-token-0123456789";
const PROJECT: &str = "my-project";

const GEMINI_PATH: &str = "/v1beta1/projects/my-project/locations/global/publishers/google/models/gemini-3.8-flash:\
    streamGenerateContent?alt=sse";
const CLAUDE_PATH: &str = "/v1/projects/my-project/locations/global/publishers/anthropic/models/\
    claude-opus-5@20260601:streamRawPredict";

/// Returns an error as Google writes it.
fn google_error(status: u16, message: &str) -> Reply {
    let error = json!({ "error": { "code": status, "message": message, "status": "UNKNOWN" } });
    Reply::error(status, error.to_string())
}

/// A stand-in for Vertex AI.
fn as_vertex(asked: &Asked, _: &[Vec<u8>]) -> Option<Reply> {
    if header(asked, "authorization") != format!("Bearer {TOKEN}") {
        return Some(google_error(401, "Request had invalid authentication credentials."));
    }
    if !header(asked, "x-goog-api-key").is_empty() || !header(asked, "x-api-key").is_empty() {
        return Some(google_error(400, "Two kinds of credentials."));
    }
    match asked.what.strip_prefix("POST ").unwrap_or_default() {
        GEMINI_PATH => None,
        CLAUDE_PATH => {
            let version = &asked.body["anthropic_version"];
            let is_right = version == "vertex-2023-10-16" && asked.body.get("model").is_none();
            (!is_right).then(|| google_error(400, "model: Extra inputs are not permitted"))
        }
        _ => Some(google_error(404, "Publisher model was not found.")),
    }
}

/// Returns the token's answer.
fn token_answer() -> Reply {
    let answer = json!({ "access_token": TOKEN, "expires_in": 3599, "token_type": "Bearer" });
    Reply::error(200, answer.to_string())
}

fn form(asked: &Asked) -> HashMap<String, String> {
    form_urlencoded::parse(&asked.raw).into_owned().collect()
}

/// Returns the claims of a statement that the private key has signed.
fn verified(statement: &str) -> Option<Value> {
    let (text, signature) = statement.rsplit_once('.')?;
    let pair =
        RsaKeyPair::from_pkcs8(&STANDARD.decode(PRIVATE_KEY.replace('\n', "")).unwrap()).unwrap();
    let public = PublicKeyComponents::<Vec<u8>>::from(pair.public());
    let public = RsaPublicKeyComponents { n: public.n, e: public.e };
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    public.verify(&RSA_PKCS1_2048_8192_SHA256, text.as_bytes(), &signature).ok()?;
    let part = |part: &str| -> Option<Value> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
    };
    let (head, claims) = text.split_once('.')?;
    let head = part(head)?;
    if head["alg"] != "RS256" || head["kid"] != "key-1" {
        return None;
    }
    part(claims)
}

/// A stand-in for the servers that give tokens: for statements, for persons, for tokens of others, for accounts that
/// others act for, and for machines.
fn as_token_server(asked: &Asked, _: &[Vec<u8>]) -> Option<Reply> {
    let form = form(asked);
    let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    let is_form = header(asked, "content-type") == "application/x-www-form-urlencoded";
    let is_known = match (asked.what.as_str(), field("grant_type")) {
        ("POST /token", "urn:ietf:params:oauth:grant-type:jwt-bearer") => {
            let claims = verified(field("assertion")).unwrap_or_default();
            let lifetime = claims["exp"].as_u64().zip(claims["iat"].as_u64());
            let audience = claims["aud"].as_str().unwrap_or_default();
            is_form
                && claims["iss"] == "robot@my-project.iam.gserviceaccount.com"
                && claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
                && audience == format!("http://{}/token", header(asked, "host"))
                && lifetime.is_some_and(|(end, begin)| end - begin <= 3600)
        }
        ("POST /token", "refresh_token") => {
            is_form
                && field("client_id") == "client"
                && field("client_secret") == "client-secret-0123"
                && field("refresh_token") == REFRESH_TOKEN
        }
        ("POST /sts", "urn:ietf:params:oauth:grant-type:token-exchange") => {
            is_form
                && field("subject_token") == "workload-token-0123"
                && field("subject_token_type") == "urn:ietf:params:oauth:token-type:jwt"
                && field("audience") == "//iam.googleapis.com/pool"
        }
        ("POST /robot:generateAccessToken", _) => {
            let is_known = header(asked, "authorization") == format!("Bearer {TOKEN}");
            let answer = json!({ "accessToken": TOKEN, "expireTime": "2199-01-01T00:00:00Z" });
            let refusal = google_error(403, "no access");
            return Some(if is_known { Reply::error(200, answer.to_string()) } else { refusal });
        }
        ("GET /computeMetadata/v1/instance/service-accounts/default/token", _) => {
            header(asked, "metadata-flavor") == "Google"
        }
        _ => false,
    };
    let refusal = json!({ "error": "invalid_grant", "error_description": "Token has been expired or revoked." });
    Some(if is_known { token_answer() } else { Reply::error(400, refusal.to_string()) })
}

fn service_account(tokens: &Server) -> Value {
    json!({ "type": "service_account", "project_id": PROJECT, "private_key_id": "key-1",
        "private_key": format!("-----BEGIN PRIVATE KEY-----\n{PRIVATE_KEY}\n-----END PRIVATE KEY-----\n"),
        "client_email": "robot@my-project.iam.gserviceaccount.com",
        "token_uri": format!("{}/token", tokens.address()) })
}

fn authorized_user(tokens: &Server) -> Value {
    json!({ "type": "authorized_user", "client_id": "client", "client_secret": "client-secret-0123",
        "refresh_token": REFRESH_TOKEN, "quota_project_id": PROJECT,
        "token_uri": format!("{}/token", tokens.address()) })
}

/// A home with files, a stand-in for Vertex AI, and one for tokens.
struct Cloud {
    vertex: Server,
    tokens: Server,
    files: Vec<(&'static str, String)>,
}

/// Path of the file that `gcloud` writes.
const USER_FILE: &str = ".config/gcloud/application_default_credentials.json";

impl Cloud {
    async fn new(reply: Reply) -> Self {
        let (vertex, tokens) =
            (strict(reply, as_vertex).await, Server::checked(as_token_server).await);
        Self { vertex, tokens, files: Vec::new() }
    }

    fn file(mut self, path: &'static str, json: impl Fn(&Server) -> Value) -> Self {
        let json = json(&self.tokens).to_string();
        self.files.push((path, json));
        self
    }

    async fn ask(&self, model: &str, vars: &[(&str, &str)]) -> Ran {
        let settings = json!({ "modelServers": { "vertex": { "url": self.vertex.address() } } });
        let setup = Setup::default()
            .file("../.gemini/settings.json", &settings.to_string())
            .var("NO_GCE_CHECK", "true");
        let setup =
            self.files.iter().fold(setup, |it, (path, text)| it.file(&format!("../{path}"), text));
        let setup = ["--model", model, "--limit", "model-attempts=1", "-p", "hi"]
            .into_iter()
            .fold(setup, Setup::arg);
        vars.iter().fold(setup, |setup, (name, value)| setup.var(name, value)).run().await
    }

    async fn ask_well(&self, model: &str, vars: &[(&str, &str)]) {
        let ran = self.ask(model, vars).await;
        assert_eq!((ran.stdout.as_str(), ran.code), ("ok\n", Some(0)), "{}", ran.stderr);
    }

    async fn ask_in_vain(&self, model: &str, vars: &[(&str, &str)]) -> String {
        let ran = self.ask(model, vars).await;
        assert_ne!(ran.code, Some(0), "{}", ran.stdout);
        for secret in [TOKEN, REFRESH_TOKEN, "client-secret-0123", &PRIVATE_KEY[..20]] {
            assert!(!ran.stderr.contains(secret), "{}", ran.stderr);
        }
        ran.stderr
    }
}

const GEMINI: &str = "vertex:gemini-3.8-flash";
const CLAUDE: &str = "vertex:claude-opus-5@20260601";
const IN_PROJECT: [(&str, &str); 1] = [("GOOGLE_CLOUD_PROJECT", PROJECT)];
const NAMED: [(&str, &str); 1] = [("GOOGLE_APPLICATION_CREDENTIALS", "../robot.json")];

#[tokio::test]
async fn a_service_account_signs_for_its_token_and_names_the_project() {
    for (model, reply) in [(GEMINI, Reply::text("ok")), (CLAUDE, message())] {
        let cloud = Cloud::new(reply).await.file("robot.json", service_account);
        cloud.ask_well(model, &NAMED).await;
        assert_eq!(cloud.tokens.asked().len(), 1, "{model}");
        assert_eq!(header(&cloud.vertex.asked()[0], "x-goog-user-project"), "");
    }
}

#[tokio::test]
async fn a_person_who_has_logged_in_needs_a_project_alone() {
    let cloud = Cloud::new(Reply::text("ok")).await.file(USER_FILE, authorized_user);
    cloud.ask_well(GEMINI, &IN_PROJECT).await;
    assert_eq!(header(&cloud.vertex.asked()[0], "x-goog-user-project"), PROJECT);
}

#[tokio::test]
async fn the_file_of_the_variable_counts_more_than_that_of_the_person() {
    let cloud = Cloud::new(Reply::text("ok")).await.file("robot.json", service_account);
    let cloud = cloud.file(USER_FILE, |_| json!({ "type": "authorized_user" }));
    cloud.ask_well(GEMINI, &NAMED).await;
}

#[tokio::test]
async fn a_machine_of_google_has_a_service_account() {
    let cloud = Cloud::new(Reply::text("ok")).await;
    let host = cloud.tokens.address().trim_start_matches("http://").to_owned();
    let vars = [IN_PROJECT[0], ("NO_GCE_CHECK", ""), ("GCE_METADATA_HOST", host.as_str())];
    cloud.ask_well(GEMINI, &vars).await;
}

#[tokio::test]
async fn the_token_of_another_service_is_exchanged() {
    for field in [None, Some("id_token")] {
        let cloud = Cloud::new(message()).await.file("robot.json", |tokens| {
            json!({ "type": "external_account", "audience": "//iam.googleapis.com/pool",
                "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
                "token_url": format!("{}/sts", tokens.address()),
                "service_account_impersonation_url": format!("{}/robot:generateAccessToken", tokens.address()),
                "credential_source": { "file": "../token.txt", "format": { "subject_token_field_name": field } } })
        });
        let token = json!({ "id_token": "workload-token-0123" });
        let token =
            if field.is_some() { token.to_string() } else { "workload-token-0123\n".to_owned() };
        let mut cloud = cloud;
        cloud.files.push(("token.txt", token));
        cloud.ask_well(CLAUDE, &[IN_PROJECT[0], NAMED[0]]).await;
        assert_eq!(cloud.tokens.asked().len(), 2, "{field:?}");
    }
}

#[tokio::test]
async fn a_person_may_act_for_a_service_account() {
    let cloud = Cloud::new(message()).await.file("robot.json", |tokens| {
        json!({ "type": "impersonated_service_account", "source_credentials": authorized_user(tokens),
            "service_account_impersonation_url": format!("{}/robot:generateAccessToken", tokens.address()) })
    });
    cloud.ask_well(CLAUDE, &[IN_PROJECT[0], NAMED[0]]).await;
}

#[tokio::test]
async fn the_variable_of_google_leads_models_of_gemini_to_vertex_ai() {
    let cloud = Cloud::new(Reply::text("ok")).await.file(USER_FILE, authorized_user);
    let vars = [
        IN_PROJECT[0],
        ("GOOGLE_GENAI_USE_VERTEXAI", "true"),
        ("GOOGLE_VERTEX_BASE_URL", cloud.vertex.address()),
    ];
    cloud.ask_well("gemini-3.8-flash", &vars).await;
}

#[tokio::test]
async fn a_login_that_has_ended_is_named_with_the_command_for_another_one() {
    let cloud = Cloud::new(message()).await.file(USER_FILE, |tokens| {
        let mut user = authorized_user(tokens);
        user["refresh_token"] = json!("1//another-token-0123456789");
        user
    });
    let error = cloud.ask_in_vain(CLAUDE, &IN_PROJECT).await;
    assert!(
        error.contains("Log in again with `gcloud auth application-default login`."),
        "{error}"
    );
    assert!(error.contains("Token has been expired or revoked."), "{error}");
    assert!(!error.contains("another-token"), "{error}");
}

#[tokio::test]
async fn what_is_missing_for_vertex_ai_is_named() {
    let check = async |cloud: Cloud, vars: &[(&str, &str)], expected: &str| {
        let error = cloud.ask_in_vain(GEMINI, vars).await;
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(cloud.vertex.asked().is_empty());
    };
    let empty = || Cloud::new(message());
    check(empty().await, &[], "Set GOOGLE_CLOUD_PROJECT to your project").await;
    check(empty().await, &IN_PROJECT, "There are no credentials of Google. Run `gcloud auth").await;
    let named = [IN_PROJECT[0], NAMED[0]];
    check(empty().await, &named, "robot.json, and there is no such file.").await;
    let other = empty().await.file("robot.json", |_| json!({ "type": "gdch_service_account" }));
    check(other, &named, "their type is `gdch_service_account`. Known types: `service_account`")
        .await;
    let broken = empty().await.file("robot.json", |tokens| {
        let mut account = service_account(tokens);
        account["private_key"] =
            json!("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----");
        account
    });
    check(broken, &named, "The private key in ").await;
    let place = [IN_PROJECT[0], ("GOOGLE_CLOUD_LOCATION", "evil.example/")];
    check(empty().await, &place, "GOOGLE_CLOUD_LOCATION").await;
}

#[tokio::test]
async fn a_token_that_vertex_ai_refuses_is_not_called_a_key() {
    let refuse: Check =
        |_, _| Some(google_error(401, "Request had invalid authentication credentials."));
    for model in [GEMINI, CLAUDE] {
        let mut cloud = Cloud::new(message()).await.file(USER_FILE, authorized_user);
        cloud.vertex = Server::checked(refuse).await;
        let error = cloud.ask_in_vain(model, &IN_PROJECT).await;
        assert!(error.contains("Vertex AI does not accept the credentials"), "{model}: {error}");
        assert!(!error.contains("tandem login"), "{error}");
    }
}
