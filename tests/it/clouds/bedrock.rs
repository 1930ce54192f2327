//! Amazon Bedrock: its doors, its key, and signatures with the credentials of AWS.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use test_support::api_server::aws::Signer;
use test_support::api_server::responses;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use super::*;
use crate::agent::HANG;
use crate::family::{is_gone, make_fifo};
use crate::lifecycle::signal;

const BEARER: &str = "ABSK-bedrock-key-0123456789";
const KEY_ID: &str = "AKIDEXAMPLE0123456789";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const SESSION: &str = "session-token-0123456789==";
const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", KEY_ID), ("AWS_SECRET_ACCESS_KEY", SECRET)];

/// Returns an error as Bedrock writes it.
fn bedrock_error(status: u16, message: &str) -> Reply {
    let error = json!({ "error": { "type": "invalid_request_error", "message": message } });
    Reply::error(status, error.to_string())
}

/// Returns the door that a request has come to, with the name of its service in signatures.
fn door(asked: &Asked, given: &[Vec<u8>]) -> Result<&'static str, Reply> {
    let model = asked.body["model"].as_str().unwrap_or_default();
    let service = match (asked.what.as_str(), model) {
        ("POST /anthropic/v1/messages", "anthropic.claude-opus-5")
        | ("POST /openai/v1/responses", "openai.gpt-6-sol")
        | ("POST /v1/chat/completions", "qwen.qwen3-coder-next") => "bedrock-mantle",
        ("POST /anthropic/v1/messages", "eu.anthropic.claude-opus-5")
        | ("POST /openai/v1/responses", "us.openai.gpt-6-sol") => "bedrock",
        _ => {
            let why = format!("model `{model}` isn't supported on this route");
            return Err(bedrock_error(400, &why));
        }
    };
    if asked.what.ends_with("/messages") && header(asked, "anthropic-version").is_empty() {
        return Err(bedrock_error(400, "anthropic-version: Field required"));
    }
    if asked.what.ends_with("/responses") {
        let asked = Asked { what: "POST /v1/responses".to_owned(), ..asked.clone() };
        if let Some(refusal) = responses::check(&asked, given) {
            return Err(refusal);
        }
    }
    Ok(service)
}

/// A stand-in that takes the key of Bedrock alone.
fn with_bearer(asked: &Asked, given: &[Vec<u8>]) -> Option<Reply> {
    if let Err(refusal) = door(asked, given) {
        return Some(refusal);
    }
    let is_known = header(asked, "authorization") == format!("Bearer {BEARER}")
        && header(asked, "x-api-key").is_empty();
    (!is_known).then(|| bedrock_error(401, "Invalid bearer token"))
}

fn signed_with(asked: &Asked, given: &[Vec<u8>], token: Option<&str>) -> Option<Reply> {
    let service = match door(asked, given) {
        Ok(service) => service,
        Err(refusal) => return Some(refusal),
    };
    let signer = Signer { key_id: KEY_ID, secret: SECRET, token, region: "eu-west-1", service };
    let why = signer.verify(asked).err()?;
    Some(bedrock_error(403, &format!("The request signature does not match: {why}.")))
}

/// A stand-in that takes signatures of lasting keys.
fn signed(asked: &Asked, given: &[Vec<u8>]) -> Option<Reply> {
    signed_with(asked, given, None)
}

/// A stand-in that takes signatures of temporary keys.
fn signed_for_a_session(asked: &Asked, given: &[Vec<u8>]) -> Option<Reply> {
    signed_with(asked, given, Some(SESSION))
}

fn settings(server: &Server) -> Value {
    json!({ "modelServers": { "bedrock": { "url": server.address() } } })
}

/// Returns these variables, those of the region, and none that reaches a machine's metadata.
fn in_region<'a>(vars: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let region = [("AWS_REGION", "eu-west-1"), ("AWS_EC2_METADATA_DISABLED", "true")];
    region.into_iter().chain(vars.iter().copied()).collect()
}

/// Runs a prompt with each kind of model.
async fn ask_each_door(check: Check, vars: &[(&str, &str)]) {
    let doors = [
        ("bedrock:anthropic.claude-opus-5", message()),
        ("bedrock:eu.anthropic.claude-opus-5", message()),
        ("bedrock:openai.gpt-6-sol", responses::text("ok")),
        ("bedrock:us.openai.gpt-6-sol", responses::text("ok")),
        ("bedrock:qwen.qwen3-coder-next", chat()),
    ];
    for (model, reply) in doors {
        let server = strict(reply, check).await;
        ask_well(model, &in_region(vars), &settings(&server)).await;
        assert_eq!(
            server.asked().iter().filter(|it| it.what.starts_with("POST")).count(),
            1,
            "{model}"
        );
    }
}

#[tokio::test]
async fn each_door_takes_the_key_of_bedrock_as_a_bearer_token() {
    ask_each_door(with_bearer, &[("AWS_BEARER_TOKEN_BEDROCK", BEARER)]).await;
}

#[tokio::test]
async fn each_door_takes_a_signature_for_its_service() {
    ask_each_door(signed, &KEYS).await;
}

#[tokio::test]
async fn the_key_of_bedrock_counts_more_than_other_credentials() {
    let server = strict(message(), with_bearer).await;
    let vars = [("AWS_BEARER_TOKEN_BEDROCK", BEARER), KEYS[0], KEYS[1]];
    ask_well("bedrock:anthropic.claude-opus-5", &in_region(&vars), &settings(&server)).await;
}

#[tokio::test]
async fn temporary_keys_are_sent_with_their_token() {
    let server = strict(message(), signed_for_a_session).await;
    let vars = [KEYS[0], KEYS[1], ("AWS_SESSION_TOKEN", SESSION)];
    ask_well("bedrock:anthropic.claude-opus-5", &in_region(&vars), &settings(&server)).await;
}

#[tokio::test]
async fn a_signature_that_aws_refuses_shows_no_key() {
    let server = strict(message(), signed).await;
    let vars = [KEYS[0], ("AWS_SECRET_ACCESS_KEY", "another/secret+key+0123456789")];
    let vars = in_region(&vars);
    let error = ask_in_vain("bedrock:anthropic.claude-opus-5", &vars, &settings(&server)).await;
    assert!(error.contains("does not match: another signature"), "{error}");
}

#[tokio::test]
async fn an_id_that_only_the_older_api_has_is_refused_without_a_request() {
    let server = strict(message(), with_bearer).await;
    let vars = in_region(&[("AWS_BEARER_TOKEN_BEDROCK", BEARER)]);
    let model = "bedrock:us.anthropic.claude-sonnet-4-20250514-v1:0";
    let error = ask_in_vain(model, &vars, &settings(&server)).await;
    assert!(error.contains("by InvokeModel alone"), "{error}");
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn what_is_missing_for_bedrock_is_named() {
    let model = "bedrock:anthropic.claude-opus-5";
    let error = ask_in_vain(model, &[], &json!({})).await;
    assert!(error.contains("There is no region for Amazon Bedrock. Set AWS_REGION"), "{error}");
    let error = ask_in_vain(model, &in_region(&[]), &json!({})).await;
    assert!(
        error.contains("There are no credentials of AWS. Set AWS_BEARER_TOKEN_BEDROCK"),
        "{error}"
    );
    let error = ask_in_vain(model, &in_region(&KEYS[..1]), &json!({})).await;
    let expected = "AWS_ACCESS_KEY_ID in the environment is set, and AWS_SECRET_ACCESS_KEY is not.";
    assert!(error.contains(expected), "{error}");
    let error = ask_in_vain(model, &in_region(&[("AWS_PROFILE", "work")]), &json!({})).await;
    assert!(error.contains("There is no profile `work` of AWS in"), "{error}");
}

/// Runs one prompt with these files in the home directory.
async fn ask_at_home(server: &Server, files: &[(&str, &str)], vars: &[(&str, &str)]) -> Ran {
    let setup = Setup::default().file("../.gemini/settings.json", &settings(server).to_string());
    let setup =
        files.iter().fold(setup, |setup, (path, text)| setup.file(&format!("../{path}"), text));
    let setup =
        ["--model", "bedrock:anthropic.claude-opus-5", "--limit", "model-attempts=1", "-p", "hi"]
            .into_iter()
            .fold(setup, Setup::arg);
    vars.iter().fold(setup, |setup, (name, value)| setup.var(name, value)).run().await
}

#[tokio::test]
async fn a_profile_has_the_keys_and_the_region() {
    let server = strict(message(), signed).await;
    let config = "[profile work]\nregion = eu-west-1\n";
    let keys = format!("[work]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n");
    let files = [(".aws/config", config), (".aws/credentials", keys.as_str())];
    let ran = ask_at_home(&server, &files, &[("AWS_PROFILE", "work")]).await;
    assert_eq!(ran.stdout, "ok\n", "{}", ran.stderr);
}

/// A stand-in for the portal of IAM Identity Center, which gives temporary keys.
fn as_portal(asked: &Asked, _: &[Vec<u8>]) -> Option<Reply> {
    let is_known = asked.what
        == "GET /federation/credentials?role_name=dev&account_id=123456789012"
        && header(asked, "x-amz-sso_bearer_token") == "sso-token-0123456789";
    let expiration = SystemTime::now() + Duration::from_hours(1);
    let expiration = expiration.duration_since(UNIX_EPOCH).unwrap().as_millis();
    let keys = json!({ "roleCredentials": { "accessKeyId": KEY_ID, "secretAccessKey": SECRET,
        "sessionToken": SESSION, "expiration": u64::try_from(expiration).unwrap() } });
    let refusal = json!({ "message": "Session token not found or invalid" });
    let (status, body) = if is_known { (200, keys) } else { (401, refusal) };
    Some(Reply::error(status, body.to_string()))
}

/// File of the token of the session `corp`, whose SHA-1 is the name.
const SSO_TOKEN_PATH: &str = ".aws/sso/cache/ee0bfd2552fbd840c02cc48b6e823320543c450f.json";

/// Returns the files of a login whose token is valid until this time, with these members more.
fn sso_files(until: &str, more: &Value) -> [(&'static str, String); 2] {
    let config = "[default]\nregion = eu-west-1\nsso_session = corp\nsso_account_id = 123456789012\n\
        sso_role_name = dev\n[sso-session corp]\nsso_region = eu-central-1\nsso_start_url = https://corp\n";
    let mut token = json!({ "accessToken": "sso-token-0123456789", "expiresAt": until });
    token.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    [(".aws/config", config.to_owned()), (SSO_TOKEN_PATH, token.to_string())]
}

/// Runs a prompt with a login until this time. Returns the portal, too.
async fn ask_with_sso(until: &str) -> (Ran, Server) {
    let server = strict(message(), signed_for_a_session).await;
    let portal = Server::checked(as_portal).await;
    let files = sso_files(until, &json!({}));
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let ran = ask_at_home(&server, &files, &[("AWS_ENDPOINT_URL_SSO", portal.address())]).await;
    (ran, portal)
}

#[tokio::test]
async fn a_login_at_identity_center_gives_temporary_keys() {
    let (ran, portal) = ask_with_sso("2199-01-01T00:00:00Z").await;
    assert_eq!(ran.stdout, "ok\n", "{}", ran.stderr);
    assert_eq!(portal.asked().len(), 1);
}

#[tokio::test]
async fn an_expired_login_is_named_with_the_command_for_another_one() {
    let (ran, portal) = ask_with_sso("2020-01-01T00:00:00Z").await;
    assert!(ran.stderr.contains("Run `aws sso login --profile default`."), "{}", ran.stderr);
    assert!(portal.asked().is_empty());
}

/// A stand-in for the service that renews tokens of IAM Identity Center.
fn as_renewer(asked: &Asked, _: &[Vec<u8>]) -> Option<Reply> {
    let expected = json!({ "clientId": "client", "clientSecret": "client-secret-0123",
        "grantType": "refresh_token", "refreshToken": "refresh-token-0123" });
    let is_known = asked.what == "POST /token" && asked.body == expected;
    let renewed = json!({ "accessToken": "sso-token-0123456789", "expiresIn": 3600, "tokenType": "Bearer",
        "refreshToken": "refresh-token-4567" });
    let refusal = json!({ "error": "invalid_grant" });
    let (status, body) = if is_known { (200, renewed) } else { (400, refusal) };
    Some(Reply::error(status, body.to_string()))
}

/// Returns the members of a token that can be renewed with this token.
fn renewable(refresh_token: &str) -> Value {
    json!({ "accessToken": "old-token-0123456789", "refreshToken": refresh_token, "clientId": "client",
        "clientSecret": "client-secret-0123", "registrationExpiresAt": "2199-01-01T00:00:00Z",
        "startUrl": "https://corp", "region": "eu-central-1" })
}

/// Runs a prompt with a login that can be renewed.
async fn ask_with_renewal(until: &str, refresh_token: &str) -> (Ran, Server) {
    let server = strict(message(), signed_for_a_session).await;
    let (portal, renewer) = (Server::checked(as_portal).await, Server::checked(as_renewer).await);
    let files = sso_files(until, &renewable(refresh_token));
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let vars = [
        ("AWS_ENDPOINT_URL_SSO", portal.address()),
        ("AWS_ENDPOINT_URL_SSO_OIDC", renewer.address()),
    ];
    (ask_at_home(&server, &files, &vars).await, renewer)
}

#[tokio::test]
async fn an_expired_login_of_a_session_is_renewed_and_kept_for_other_programs() {
    let (ran, renewer) = ask_with_renewal("2020-01-01T00:00:00Z", "refresh-token-0123").await;
    assert_eq!(ran.stdout, "ok\n", "{}", ran.stderr);
    assert_eq!(renewer.asked().len(), 1);
    let path = ran.home.path().join(SSO_TOKEN_PATH);
    let kept: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let until: jiff::Timestamp = kept["expiresAt"].as_str().unwrap().parse().unwrap();
    assert!(until > jiff::Timestamp::now());
    let mut expected = renewable("refresh-token-4567");
    expected["accessToken"] = json!("sso-token-0123456789");
    expected["expiresAt"] = kept["expiresAt"].clone();
    assert_eq!(kept, expected);
}

#[tokio::test]
async fn a_login_that_cannot_be_renewed_is_named_and_nothing_secret_is_shown() {
    let (ran, renewer) = ask_with_renewal("2020-01-01T00:00:00Z", "refresh-token-9999").await;
    assert!(ran.stderr.contains("Run `aws sso login --profile default`."), "{}", ran.stderr);
    assert!(!ran.stderr.contains("refresh-token") && !ran.stderr.contains("client-secret"));
    assert_eq!(renewer.asked().len(), 1);
}

/// Answer of the Security Token Service.
fn assumed(action: &str) -> Reply {
    let xml = format!(
        "<{action}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n<{action}Result>\n<Credentials>\n\
         <AccessKeyId>{KEY_ID}</AccessKeyId>\n<SecretAccessKey>{SECRET}</SecretAccessKey>\n\
         <SessionToken>{SESSION}</SessionToken>\n<Expiration>2199-01-01T00:00:00Z</Expiration>\n</Credentials>\n\
         </{action}Result>\n</{action}Response>"
    );
    Reply::error(200, xml)
}

fn sts_error(code: &str, message: &str) -> Reply {
    let xml = format!(
        "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
    );
    Reply::error(403, xml)
}

/// Id and key with which the role is assumed.
const BASE_KEYS: [&str; 2] = ["AKIDBASE0123456789", "base/secret+key/0123456789"];

/// A stand-in for the Security Token Service, which knows one role, one signer and one token.
fn as_sts(asked: &Asked, _: &[Vec<u8>]) -> Option<Reply> {
    let body = String::from_utf8(asked.raw.clone()).unwrap();
    let is_form = header(asked, "content-type") == "application/x-www-form-urlencoded";
    if asked.what != "POST /" || !is_form {
        return Some(sts_error("InvalidAction", "Could not find operation"));
    }
    let role = "RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fdev";
    if body
        == format!(
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&{role}&RoleSessionName=pod&WebIdentityToken=eyJ0.web-token"
        )
    {
        let is_signed = !header(asked, "authorization").is_empty();
        return Some(if is_signed {
            sts_error("InvalidAction", "signed")
        } else {
            assumed("AssumeRoleWithWebIdentity")
        });
    }
    let [key_id, secret] = BASE_KEYS;
    let signer = Signer { key_id, secret, token: None, region: "eu-west-1", service: "sts" };
    if let Err(why) = signer.verify(asked) {
        return Some(sts_error("SignatureDoesNotMatch", &why));
    }
    let known = format!(
        "Action=AssumeRole&Version=2011-06-15&{role}&RoleSessionName=tandem&ExternalId=x%3D1&DurationSeconds=900"
    );
    Some(if body == known {
        assumed("AssumeRole")
    } else {
        sts_error("AccessDenied", "User is not authorized to perform: sts:AssumeRole")
    })
}

const ROLE_SETTINGS: &str =
    "role_arn = arn:aws:iam::123456789012:role/dev\nexternal_id = x=1\nduration_seconds = 900\n";

#[tokio::test]
async fn a_role_is_assumed_with_the_keys_of_another_profile() {
    let (server, sts) =
        (strict(message(), signed_for_a_session).await, Server::checked(as_sts).await);
    let config = format!("[default]\nregion = eu-west-1\n{ROLE_SETTINGS}source_profile = base\n");
    let [id, secret] = BASE_KEYS;
    let keys = format!("[base]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n");
    let files = [(".aws/config", config.as_str()), (".aws/credentials", keys.as_str())];
    let vars = [("AWS_ENDPOINT_URL_STS", sts.address())];
    let ran = ask_at_home(&server, &files, &vars).await;
    assert_eq!(ran.stdout, "ok\n", "{}", ran.stderr);
    let wrong = config.replace("role/dev", "role/admin");
    let ran = ask_at_home(&server, &[(".aws/config", &wrong), files[1]], &vars).await;
    let expected = "Check the role of the profile `default`, and that its `source_profile` or `credential_source` may \
                    assume it. The server says: User is not authorized to perform: sts:AssumeRole";
    assert!(ran.stderr.contains(expected) && !ran.stderr.contains(secret), "{}", ran.stderr);
}

#[tokio::test]
async fn a_role_is_assumed_with_the_keys_of_the_environment_where_the_profile_says_so() {
    let (server, sts) =
        (strict(message(), signed_for_a_session).await, Server::checked(as_sts).await);
    let config =
        format!("[default]\nregion = eu-west-1\n{ROLE_SETTINGS}credential_source = Environment\n");
    let [id, secret] = BASE_KEYS;
    let vars = [
        ("AWS_ENDPOINT_URL_STS", sts.address()),
        ("AWS_ACCESS_KEY_ID", id),
        ("AWS_SECRET_ACCESS_KEY", secret),
    ];
    let ran = ask_at_home(&server, &[(".aws/config", &config)], &vars).await;
    assert_eq!(ran.stdout, "ok\n", "{}", ran.stderr);
}

#[tokio::test]
async fn a_token_of_another_service_stands_for_a_role() {
    let (server, sts) =
        (strict(message(), signed_for_a_session).await, Server::checked(as_sts).await);
    let token = tempfile::NamedTempFile::new().unwrap();
    fs::write(token.path(), "eyJ0.web-token\n").unwrap();
    let vars = [
        ("AWS_ENDPOINT_URL_STS", sts.address()),
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/dev"),
        ("AWS_ROLE_SESSION_NAME", "pod"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.path().to_str().unwrap()),
    ];
    ask_well("bedrock:anthropic.claude-opus-5", &in_region(&vars), &settings(&server)).await;
    assert_eq!(sts.asked().len(), 1);
}

#[tokio::test]
async fn a_program_of_the_user_prints_credentials_and_one_of_the_project_is_not_run() {
    let replies = vec![message(), message()];
    let server = Server::of_pages(replies, &[], Some(signed_for_a_session)).await;
    let keys = json!({ "Version": 1, "AccessKeyId": KEY_ID, "SecretAccessKey": SECRET, "SessionToken": SESSION,
        "Expiration": "2199-01-01T00:00:00Z" });
    let config = format!("[default]\nregion = eu-west-1\ncredential_process = echo '{keys}'\n");
    let ran = ask_at_home(&server, &[(".aws/config", &config)], &[]).await;
    assert_eq!(ran.stdout, "ok\n", "{}", ran.stderr);
    // No shell has expanded the variable of an editor.
    let own = [("own.conf", config.as_str())];
    let ran = ask_at_home(&server, &own, &[("AWS_CONFIG_FILE", "~/own.conf")]).await;
    assert_eq!(ran.stdout, "ok\n", "{}", ran.stderr);
    let project = [("workspace/aws.conf", config.as_str()), ("workspace/.git/HEAD", "x")];
    let ran = ask_at_home(&server, &project, &[("AWS_CONFIG_FILE", "aws.conf")]).await;
    assert!(ran.stderr.contains("which tandem does only for files of your own"), "{}", ran.stderr);
}

#[tokio::test]
async fn a_program_of_the_user_receives_the_variables_without_the_keys_of_providers() {
    let server = strict(message(), signed_for_a_session).await;
    let keys = json!({ "Version": 1, "AccessKeyId": KEY_ID, "SecretAccessKey": SECRET, "SessionToken": SESSION });
    let config = "[default]\nregion = eu-west-1\n\
        credential_process = sh -c 'test -z \"$OPENAI_API_KEY\" && echo \"$KEYS\"'\n";
    let vars = [("OPENAI_API_KEY", "sk-0123456789"), ("KEYS", &keys.to_string())];
    let ran = ask_at_home(&server, &[(".aws/config", config)], &vars).await;
    assert_eq!(ran.stdout, "ok\n", "{}", ran.stderr);
}

#[tokio::test]
async fn a_program_of_the_user_ends_when_the_agent_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("family");
    make_fifo(&fifo);
    let mut family = pipe::OpenOptions::new().open_receiver(&fifo).unwrap();
    let config = format!(
        "[default]\nregion = eu-west-1\n\
         credential_process = sh -c 'exec 3>{}; echo up >&3; setsid sleep 1000 & sleep 1000'\n",
        fifo.display()
    );
    let setup = Setup::default().file("../.aws/config", &config);
    let mut agent = setup.arg("--model").arg("bedrock:anthropic.claude-opus-5").start();
    agent.prompt("hi").await;
    let mut up = [0; 3];
    timeout(HANG, family.read_exact(&mut up)).await.expect("it does not start").unwrap();
    signal(&agent, Signal::KILL);
    is_gone(family).await;
}

/// Temporary keys as the services of containers and machines give them.
fn temporary_keys() -> Reply {
    let keys = json!({ "AccessKeyId": KEY_ID, "SecretAccessKey": SECRET, "Token": SESSION,
        "Expiration": "2199-01-01T00:00:00Z" });
    Reply::error(200, keys.to_string())
}

/// A stand-in for the service that gives a container its credentials.
fn as_container(asked: &Asked, _: &[Vec<u8>]) -> Option<Reply> {
    let is_known = asked.what == "GET /v1/credentials"
        && header(asked, "authorization") == "container-token-0123";
    Some(if is_known { temporary_keys() } else { Reply::error(403, "Forbidden") })
}

#[tokio::test]
async fn a_container_has_credentials_of_its_own() {
    let (server, service) =
        (strict(message(), signed_for_a_session).await, Server::checked(as_container).await);
    let url = format!("{}/v1/credentials", service.address());
    let vars = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-token-0123"),
    ];
    ask_well("bedrock:anthropic.claude-opus-5", &in_region(&vars), &settings(&server)).await;
}

/// A stand-in for the metadata service of EC2.
fn as_machine(asked: &Asked, _: &[Vec<u8>]) -> Option<Reply> {
    let token = header(asked, "x-aws-ec2-metadata-token");
    Some(match (asked.what.as_str(), token) {
        ("PUT /latest/api/token", "")
            if !header(asked, "x-aws-ec2-metadata-token-ttl-seconds").is_empty() =>
        {
            Reply::error(200, "machine-token")
        }
        ("GET /latest/meta-data/iam/security-credentials/", "machine-token") => {
            Reply::error(200, "dev-role\n")
        }
        ("GET /latest/meta-data/iam/security-credentials/dev-role", "machine-token") => {
            temporary_keys()
        }
        _ => Reply::error(401, "Unauthorized"),
    })
}

#[tokio::test]
async fn a_machine_of_ec2_has_the_credentials_of_its_role() {
    let (server, machine) =
        (strict(message(), signed_for_a_session).await, Server::checked(as_machine).await);
    let vars =
        [("AWS_REGION", "eu-west-1"), ("AWS_EC2_METADATA_SERVICE_ENDPOINT", machine.address())];
    ask_well("bedrock:anthropic.claude-opus-5", &vars, &settings(&server)).await;
    assert_eq!(machine.asked().len(), 3);
}
