//! The endpoint of Amazon Bedrock: its doors, and the credentials of AWS.

use std::path::{Path, PathBuf};

use tandem_clouds::aws::{
    AwsConfig, AwsKeys, AwsSources, ContainerSource, ProfileFiles, WebIdentity,
};
use tandem_model::Secret;
use tandem_model::bedrock::{self, BedrockDoor};
use tandem_model::endpoint::Endpoint;

use super::{EndpointSource, MODEL_SERVERS, headers, values};
use crate::dotenv::project_directories;
use crate::variables::Var;

/// Address of the service that gives containers of ECS their credentials.
const ECS_ADDRESS: &str = "http://169.254.170.2";
/// Address of the service that gives machines of EC2 their credentials.
const EC2_ADDRESS: &str = "http://169.254.169.254";

/// Message for a missing region.
pub(in super::super) const NO_REGION: &str = "There is no region for Amazon Bedrock. Set AWS_REGION to the region \
    that has your models, such as us-east-1, and AWS_BEARER_TOKEN_BEDROCK to a key of Bedrock. Other credentials of \
    AWS do as well: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile.";

/// Returns `true` if a variable or the profile has a region.
pub(super) fn has_region(source: EndpointSource<'_>) -> bool {
    region(source).is_some()
}

/// Returns the endpoint of the door that has the model. Without a key, requests are signed.
pub(super) fn endpoint(
    source: EndpointSource<'_>,
    key: Option<Secret>,
) -> Result<Endpoint, String> {
    bedrock::check(source.model)?;
    let door = BedrockDoor::of(source.model);
    let region = plain_region(source)?;
    let url = url(source)?;
    let authorization = if key.is_none() {
        let (service, sources) = (door.host().service(), sources(source)?);
        Some(source.authorizers.aws(AwsConfig { region, service, sources }))
    } else {
        None
    };
    let headers = headers(source)?;
    let endpoint = Endpoint::new(source.provider, url);
    Ok(Endpoint { key, bearer: true, headers, authorization, ..endpoint })
}

/// Returns the URL of the door that has the model. No credentials are looked for.
pub(super) fn url(source: EndpointSource<'_>) -> Result<String, String> {
    let door = BedrockDoor::of(source.model);
    let base = match source.server.and_then(|server| server.url.as_ref()) {
        Some(url) => values::base_url(url.expose(), true)
            .map_err(|why| format!("`{MODEL_SERVERS}.bedrock.url` {why}."))?,
        None => door.host().url(&plain_region(source)?),
    };
    Ok(format!("{base}{}", door.path()))
}

/// Returns the region, which must have the characters of one: it becomes a part of addresses.
fn plain_region(source: EndpointSource<'_>) -> Result<String, String> {
    let region = region(source).ok_or(NO_REGION)?;
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !region.bytes().all(is_plain) {
        return Err("The region of AWS is not one such as us-east-1. Correct AWS_REGION, or the region of the profile."
            .to_owned());
    }
    Ok(region)
}

/// Returns the region: that of a variable, else that of the profile.
fn region(source: EndpointSource<'_>) -> Option<String> {
    let var = source.vars.first(&["AWS_REGION", "AWS_DEFAULT_REGION"]);
    var.map(|var| var.value.to_owned()).or_else(|| profiles(source).region())
}

fn value<'a>(source: EndpointSource<'a>, name: &'a str) -> Option<&'a str> {
    source.vars.get(name).map(|var| var.value)
}

/// Returns the places of credentials that the variables describe.
fn sources(source: EndpointSource<'_>) -> Result<AwsSources, String> {
    let is_disabled = value(source, "AWS_EC2_METADATA_DISABLED")
        .is_some_and(|it| it.eq_ignore_ascii_case("true"));
    let instance_url = value(source, "AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or(EC2_ADDRESS);
    Ok(AwsSources {
        keys: keys(source)?,
        profiles: profiles(source),
        web_identity: web_identity(source),
        sts_url: value(source, "AWS_ENDPOINT_URL_STS").map(str::to_owned),
        container: container(source),
        instance_url: (!is_disabled).then(|| instance_url.to_owned()),
    })
}

/// Returns the keys of the variables, if any are set.
fn keys(source: EndpointSource<'_>) -> Result<Option<AwsKeys>, String> {
    let names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
    let missing =
        |var: Var<'_>, other: &str| format!("{var} is set, and {other} is not. Set both, or none.");
    match (source.vars.get(names.0), source.vars.get(names.1)) {
        (Some(id), Some(key)) => Ok(Some(AwsKeys {
            access_key_id: id.value.to_owned(),
            secret_access_key: Secret::new(key.value),
            session_token: value(source, "AWS_SESSION_TOKEN").map(Secret::new),
        })),
        (Some(id), None) => Err(missing(id, names.1)),
        (None, Some(key)) => Err(missing(key, names.0)),
        (None, None) => Ok(None),
    }
}

fn profiles(source: EndpointSource<'_>) -> ProfileFiles {
    let aws = source.vars.env.home().map(|home| home.join(".aws"));
    let file = |name: &'static str, usual: &str| {
        let named = value(source, name).map(|path| named_path(source, path));
        named.or_else(|| Some(aws.as_ref()?.join(usual)))
    };
    ProfileFiles {
        profile: value(source, "AWS_PROFILE").map(str::to_owned),
        config: file("AWS_CONFIG_FILE", "config"),
        credentials: file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
        sso_cache: aws.as_ref().map(|aws| aws.join("sso/cache")),
        sso_url: value(source, "AWS_ENDPOINT_URL_SSO").map(str::to_owned),
        sso_oidc_url: value(source, "AWS_ENDPOINT_URL_SSO_OIDC").map(str::to_owned),
        may_run_programs: are_profiles_own(source),
    }
}

/// Returns the path that a variable names. AWS's own tools expand `~/`, which no shell does for an editor's variables.
fn named_path(source: EndpointSource<'_>, path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), source.vars.env.home()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => source.vars.env.directory().join(path),
    }
}

/// Returns `true` if the profiles are the user's own: no `.env` of the project has chosen them, and the files that a
/// variable names are outside the project.
fn are_profiles_own(source: EndpointSource<'_>) -> bool {
    let project = project_directories(source.vars.env);
    let is_in_project = |path: &Path| project.iter().any(|directory| path.starts_with(directory));
    let is_own = |var: Var<'_>| !var.file().is_some_and(is_in_project);
    let is_outside = |var: Var<'_>| {
        let path = named_path(source, var.value);
        !is_in_project(&path.canonicalize().unwrap_or(path))
    };
    let get = |name| source.vars.get(name);
    let files = ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"].into_iter().filter_map(get);
    get("AWS_PROFILE").is_none_or(is_own)
        && files.into_iter().all(|var| is_own(var) && is_outside(var))
}

/// Returns the role of the variables that a cluster sets, if they name one.
fn web_identity(source: EndpointSource<'_>) -> Option<WebIdentity> {
    Some(WebIdentity {
        role_arn: value(source, "AWS_ROLE_ARN")?.to_owned(),
        token_file: value(source, "AWS_WEB_IDENTITY_TOKEN_FILE").map(PathBuf::from)?,
        session_name: value(source, "AWS_ROLE_SESSION_NAME").map(str::to_owned),
    })
}

fn container(source: EndpointSource<'_>) -> Option<ContainerSource> {
    let relative = value(source, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    let relative = relative.map(|path| format!("{ECS_ADDRESS}{path}"));
    let full = || value(source, "AWS_CONTAINER_CREDENTIALS_FULL_URI").map(str::to_owned);
    Some(ContainerSource {
        url: relative.or_else(full)?,
        token: value(source, "AWS_CONTAINER_AUTHORIZATION_TOKEN").map(Secret::new),
        token_file: value(source, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(PathBuf::from),
    })
}
