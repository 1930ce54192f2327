//! Azure `OpenAI`: version 1 of its API, with a key or a token of Microsoft Entra.

use test_support::api_server::responses;

use super::*;

const KEY: &str = "azure-key-0123456789";
const TOKEN: &str = "eyJ0-entra-token-0123456789";

/// Returns an error as Azure writes it.
fn azure_error(status: u16, code: &str, message: &str) -> Reply {
    Reply::error(status, json!({ "error": { "code": code, "message": message } }).to_string())
}

/// A stand-in for a resource: `prod` has the Responses API, and `old` has chat completions alone.
fn as_azure(asked: &Asked, given: &[Vec<u8>]) -> Option<Reply> {
    let (key, bearer) = (header(asked, "api-key"), header(asked, "authorization"));
    let is_known =
        key == KEY && bearer.is_empty() || key.is_empty() && bearer == format!("Bearer {TOKEN}");
    if !is_known {
        let why = "Access denied due to invalid subscription key or wrong API endpoint.";
        return Some(azure_error(401, "401", why));
    }
    let path = asked.what.strip_prefix("POST /openai/v1").unwrap_or_default();
    let unsupported =
        "The responses operation does not work with the specified model, gpt-35-turbo.";
    match (path, asked.body["model"].as_str().unwrap_or_default()) {
        ("/responses", "prod") => {
            let asked = Asked { what: "POST /v1/responses".to_owned(), ..asked.clone() };
            responses::check(&asked, given)
        }
        ("/chat/completions", "old") => None,
        ("/responses", "old") => Some(azure_error(400, "OperationNotSupported", unsupported)),
        ("/responses" | "/chat/completions", _) => {
            let why = "The API deployment for this resource does not exist.";
            Some(azure_error(404, "DeploymentNotFound", why))
        }
        _ => Some(azure_error(404, "404", "Resource not found")),
    }
}

/// Returns the variables for a resource, and for the key.
fn vars<'a>(server: &'a Server, name: &'a str, key: &'a str) -> [(&'a str, &'a str); 2] {
    [("AZURE_OPENAI_ENDPOINT", server.address()), (name, key)]
}

fn paths(server: &Server) -> Vec<String> {
    server.asked().into_iter().map(|asked| asked.what).collect()
}

#[tokio::test]
async fn a_deployment_is_asked_in_the_responses_api_with_the_key_in_its_header() {
    let server = strict(responses::text("ok"), as_azure).await;
    ask_well("azure:prod", &vars(&server, "AZURE_OPENAI_API_KEY", KEY), &json!({})).await;
    assert_eq!(paths(&server), ["POST /openai/v1/responses"]);
}

#[tokio::test]
async fn a_token_of_entra_is_a_bearer_token_and_comes_before_the_key() {
    let server = strict(responses::text("ok"), as_azure).await;
    let [endpoint, token] = vars(&server, "AZURE_OPENAI_AD_TOKEN", TOKEN);
    let vars = [endpoint, token, ("AZURE_OPENAI_API_KEY", "another")];
    ask_well("azure:prod", &vars, &json!({})).await;
}

#[tokio::test]
async fn a_deployment_of_an_older_model_is_asked_in_chat_completions() {
    let server = strict(chat(), as_azure).await;
    ask_well("azure:old", &vars(&server, "AZURE_OPENAI_API_KEY", KEY), &json!({})).await;
    assert_eq!(paths(&server), ["POST /openai/v1/responses", "POST /openai/v1/chat/completions"]);
}

#[tokio::test]
async fn the_settings_may_have_the_address_and_the_name_of_another_variable() {
    let server = strict(responses::text("ok"), as_azure).await;
    let url = format!("{}/openai/v1/", server.address());
    let settings = json!({ "modelServers": { "azure": { "url": url, "keyVariable": "MINE" } } });
    ask_well("azure:prod", &[("MINE", KEY)], &settings).await;
}

#[tokio::test]
async fn a_deployment_that_does_not_exist_is_named_once_and_no_models_are_listed() {
    let server = strict(chat(), as_azure).await;
    let vars = vars(&server, "AZURE_OPENAI_API_KEY", KEY);
    let error = ask_in_vain("azure:gpt-6-sol", &vars, &json!({})).await;
    assert!(error.contains("There is no deployment `gpt-6-sol` at http://127.0.0.1:"), "{error}");
    assert!(error.contains("The API deployment for this resource does not exist."), "{error}");
    assert_eq!(paths(&server), ["POST /openai/v1/responses"]);
}

#[tokio::test]
async fn a_key_that_azure_refuses_is_not_shown() {
    let server = strict(chat(), as_azure).await;
    let vars = vars(&server, "AZURE_OPENAI_API_KEY", "another-key-0123456789");
    let error = ask_in_vain("azure:prod", &vars, &json!({})).await;
    assert!(error.contains("does not accept the key"), "{error}");
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let key = ("AZURE_OPENAI_API_KEY", KEY);
    let error = ask_in_vain("azure:prod", &[key], &json!({})).await;
    assert!(error.contains("Set AZURE_OPENAI_ENDPOINT to the endpoint of your"), "{error}");
    let endpoint = ("AZURE_OPENAI_ENDPOINT", "https://r.openai.azure.com");
    let error = ask_in_vain("azure:prod", &[endpoint], &json!({})).await;
    assert!(error.contains("Set AZURE_OPENAI_API_KEY in the environment"), "{error}");
    assert!(error.contains("(AZURE_OPENAI_AD_TOKEN)"), "{error}");
    assert!(!error.contains("There is no address"), "{error}");
    let error = ask_in_vain("azure:prod", &[], &json!({})).await;
    assert!(error.contains("Set AZURE_OPENAI_API_KEY in the environment"), "{error}");
    assert!(error.contains("There is no address either: set AZURE_OPENAI_ENDPOINT"), "{error}");
}

#[tokio::test]
async fn an_address_of_the_old_form_is_refused_with_the_new_one() {
    let old = "https://r.openai.azure.com/openai/deployments/prod/chat/completions?api-version=1";
    let vars = [("AZURE_OPENAI_ENDPOINT", old), ("AZURE_OPENAI_API_KEY", KEY)];
    let error = ask_in_vain("azure:prod", &vars, &json!({})).await;
    let expected = "AZURE_OPENAI_ENDPOINT in the environment must be the endpoint of the resource";
    assert!(error.contains(expected) && error.contains("azure:DEPLOYMENT"), "{error}");
}
