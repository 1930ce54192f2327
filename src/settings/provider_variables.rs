//! Environment variables and addresses of each provider.

use super::model_server::ModelServers;
use tandem_model::provider::Provider;

pub(super) const GEMINI_ADDRESS: &str = "https://generativelanguage.googleapis.com";
pub(super) const GEMINI_URL: &str = "GOOGLE_GEMINI_BASE_URL";
pub(super) const VERTEX_ADDRESS: &str = "https://aiplatform.googleapis.com";
pub(super) const VERTEX_URL: &str = "GOOGLE_VERTEX_BASE_URL";
pub(super) const USE_VERTEX: &str = "GOOGLE_GENAI_USE_VERTEXAI";
pub(super) const API_VERSION: &str = "GOOGLE_GENAI_API_VERSION";
pub(super) const AUTH_MECHANISM: &str = "GEMINI_API_KEY_AUTH_MECHANISM";
pub(super) const CUSTOM_HEADERS: &str = "GEMINI_CLI_CUSTOM_HEADERS";

/// Variable for a bearer token. Gateways want such a token, while the API itself has a header for keys.
pub(super) const AUTH_TOKEN: &str = "ANTHROPIC_AUTH_TOKEN";

/// Variable for the address of a resource of Azure `OpenAI`.
pub(super) const AZURE_ENDPOINT: &str = "AZURE_OPENAI_ENDPOINT";
/// Variable for a token of Microsoft Entra.
pub(super) const AZURE_TOKEN: &str = "AZURE_OPENAI_AD_TOKEN";

/// The variables and addresses of a provider.
pub(super) struct ProviderVariables {
    /// Variables for the key; the first that is set counts. A `.env` in an unjudged folder may set them.
    pub keys: &'static [&'static str],
    /// Variables among `keys` that have bearer tokens, where other keys have a header of their own.
    pub tokens: &'static [&'static str],
    /// `true` if other programs use these variables, too. Programs that the agent starts then keep them.
    pub shared: bool,
    /// Variables that decide where keys and prompts are sent, and how. A `.env` may set them only in a trusted folder.
    pub settings: &'static [&'static str],
    /// Variable for more headers, which may be secret too.
    pub headers_variable: Option<&'static str>,
    /// Variable that replaces the address.
    pub url_variable: Option<&'static str>,
    /// Usual address; empty if there is none.
    pub url: &'static str,
    /// Headers of each request, the same for all users. They are no secrets.
    pub headers: &'static [(&'static str, &'static str)],
    /// `true` if the API is called with a bearer token.
    pub bearer: bool,
    /// Address of the page where people get a key; empty if there is none.
    pub get_a_key: &'static str,
}

/// Returns the names of the variables of all providers, and of the keys of the servers.
pub fn provider_variable_names(servers: &ModelServers) -> Vec<String> {
    let variables = Provider::ALL.into_iter().map(provider_variables);
    let variables = variables.flat_map(|api| api.keys.iter().chain(api.settings).copied());
    variables.chain(servers.key_variables()).map(str::to_owned).collect()
}

/// Variables that set up the API of Gemini, in addition to those of keys.
const GEMINI_SETTINGS: &[&str] =
    &[USE_VERTEX, GEMINI_URL, VERTEX_URL, API_VERSION, AUTH_MECHANISM, CUSTOM_HEADERS];

/// Variables of Google's own tools and of Anthropic's client: project, location, and the places of credentials.
const GOOGLE_SETTINGS: &[&str] = &[
    VERTEX_URL,
    "GOOGLE_CLOUD_PROJECT",
    "ANTHROPIC_VERTEX_PROJECT_ID",
    "GOOGLE_CLOUD_LOCATION",
    "CLOUD_ML_REGION",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "CLOUDSDK_CONFIG",
    "GCE_METADATA_HOST",
    "NO_GCE_CHECK",
];

/// Variables of AWS's own tools: region, credentials, and the places of both.
const AWS_SETTINGS: &[&str] = &[
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_ENDPOINT_URL_SSO",
    "AWS_ENDPOINT_URL_SSO_OIDC",
    "AWS_ENDPOINT_URL_STS",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_EC2_METADATA_DISABLED",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
];

/// Returns the variables and addresses of a provider.
pub(super) fn provider_variables(provider: Provider) -> &'static ProviderVariables {
    match provider {
        Provider::Gemini => &ProviderVariables {
            keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
            settings: GEMINI_SETTINGS,
            headers_variable: Some(CUSTOM_HEADERS),
            url_variable: Some(GEMINI_URL),
            url: GEMINI_ADDRESS,
            get_a_key: "https://aistudio.google.com/apikey",
            ..NO_VARIABLES
        },
        Provider::OpenAi => &ProviderVariables {
            keys: &["OPENAI_API_KEY"],
            settings: &["OPENAI_BASE_URL", "OPENAI_CUSTOM_HEADERS"],
            headers_variable: Some("OPENAI_CUSTOM_HEADERS"),
            url_variable: Some("OPENAI_BASE_URL"),
            url: "https://api.openai.com/v1",
            bearer: true,
            get_a_key: "https://platform.openai.com/api-keys",
            ..NO_VARIABLES
        },
        Provider::Anthropic => &ProviderVariables {
            keys: &["ANTHROPIC_API_KEY", AUTH_TOKEN],
            tokens: &[AUTH_TOKEN],
            settings: &["ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS"],
            headers_variable: Some("ANTHROPIC_CUSTOM_HEADERS"),
            url_variable: Some("ANTHROPIC_BASE_URL"),
            url: "https://api.anthropic.com",
            get_a_key: "https://platform.claude.com/settings/keys",
            ..NO_VARIABLES
        },
        Provider::Ollama => &ProviderVariables {
            keys: &["OLLAMA_API_KEY"],
            settings: &["OLLAMA_HOST", "OLLAMA_CUSTOM_HEADERS"],
            headers_variable: Some("OLLAMA_CUSTOM_HEADERS"),
            url_variable: Some("OLLAMA_HOST"),
            url: "http://127.0.0.1:11434",
            bearer: true,
            get_a_key: "https://ollama.com/settings/keys",
            ..NO_VARIABLES
        },
        Provider::LlamaCpp => &LLAMA_CPP_VARIABLES,
        Provider::LmStudio => &LM_STUDIO_VARIABLES,
        Provider::Vllm => &VLLM_VARIABLES,
        Provider::OpenRouter => &ProviderVariables {
            keys: &["OPENROUTER_API_KEY"],
            url: "https://openrouter.ai/api/v1",
            // The name under which OpenRouter lists the program to the owner of the key.
            headers: &[("X-Title", "tandem")],
            bearer: true,
            get_a_key: "https://openrouter.ai/settings/keys",
            ..NO_VARIABLES
        },
        Provider::GitHub => &GITHUB_VARIABLES,
        Provider::Azure => &AZURE_VARIABLES,
        Provider::Bedrock => &BEDROCK_VARIABLES,
        Provider::Vertex => &VERTEX_VARIABLES,
        Provider::Named(_) => &NO_VARIABLES,
    }
}

/// Usual address of the server of llama.cpp.
const LLAMA_CPP_VARIABLES: ProviderVariables = local_program("http://127.0.0.1:8080/v1");

/// Usual address of LM Studio.
const LM_STUDIO_VARIABLES: ProviderVariables = local_program("http://127.0.0.1:1234/v1");

/// Usual address of vLLM.
const VLLM_VARIABLES: ProviderVariables = local_program("http://127.0.0.1:8000/v1");

/// Returns the facts on a program at its usual address of this machine. The settings alone give it another address.
const fn local_program(url: &'static str) -> ProviderVariables {
    ProviderVariables { url, bearer: true, ..NO_VARIABLES }
}

/// Variables of GitHub Models.
const GITHUB_VARIABLES: ProviderVariables = ProviderVariables {
    keys: &["GITHUB_TOKEN"],
    shared: true,
    url: "https://models.github.ai/inference",
    headers: &[("X-GitHub-Api-Version", "2022-11-28")],
    bearer: true,
    get_a_key: "https://github.com/settings/personal-access-tokens",
    ..NO_VARIABLES
};

/// Variables of Azure `OpenAI`.
const AZURE_VARIABLES: ProviderVariables = ProviderVariables {
    // The order is that of the vendor's own clients.
    keys: &[AZURE_TOKEN, "AZURE_OPENAI_API_KEY"],
    tokens: &[AZURE_TOKEN],
    settings: &[AZURE_ENDPOINT],
    url_variable: Some(AZURE_ENDPOINT),
    get_a_key: "https://ai.azure.com",
    ..NO_VARIABLES
};

/// Variables of Amazon Bedrock.
const BEDROCK_VARIABLES: ProviderVariables = ProviderVariables {
    keys: &["AWS_BEARER_TOKEN_BEDROCK"],
    settings: AWS_SETTINGS,
    bearer: true,
    get_a_key: "https://console.aws.amazon.com/bedrock/home#/api-keys",
    ..NO_VARIABLES
};

/// Variables of Vertex AI.
const VERTEX_VARIABLES: ProviderVariables = ProviderVariables {
    keys: &["GOOGLE_API_KEY"],
    settings: GOOGLE_SETTINGS,
    url_variable: Some(VERTEX_URL),
    url: VERTEX_ADDRESS,
    get_a_key: "https://console.cloud.google.com/vertex-ai/studio/settings/api-keys",
    ..NO_VARIABLES
};

/// No variables: a server of the settings has the names of its own variables there.
const NO_VARIABLES: ProviderVariables = ProviderVariables {
    keys: &[],
    tokens: &[],
    shared: false,
    settings: &[],
    headers_variable: None,
    url_variable: None,
    url: "",
    headers: &[],
    bearer: false,
    get_a_key: "",
};
