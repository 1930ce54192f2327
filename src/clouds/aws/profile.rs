//! Profiles in the files of AWS's own tools.

use std::collections::HashMap;
use std::path::Path;

use tandem_model::Secret;

use super::{AwsKeys, ProfileFiles};
use crate::files;

/// Name of the profile that counts if none was chosen.
const DEFAULT_PROFILE: &str = "default";

/// Credentials that a profile has, or a login through which it gets some.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProfileCredentials {
    Keys(AwsKeys),
    Sso(SsoLogin),
}

/// A login at IAM Identity Center.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SsoLogin {
    /// Name of the profile.
    pub(super) profile: String,
    /// Text whose hash is the name of the file with the token: the name of the SSO session, or else the start URL.
    pub(super) cache_key: String,
    /// Region of the portal.
    pub(super) region: String,
    pub(super) account_id: String,
    pub(super) role_name: String,
}

/// Sections of a file by name, each with its settings.
type Sections = HashMap<String, HashMap<String, String>>;

/// Returns the region of the chosen profile, if its section has one.
pub(super) fn region(files: &ProfileFiles) -> Option<String> {
    let profile = files.profile.as_deref().unwrap_or(DEFAULT_PROFILE);
    let config = read(files.config.as_deref()).ok()?;
    config.get(&config_section(profile))?.get("region").cloned()
}

/// Finds the credentials of the chosen profile. The error says what is missing and what to do.
pub(super) fn find(files: &ProfileFiles) -> Result<Option<ProfileCredentials>, String> {
    let profile = files.profile.as_deref().unwrap_or(DEFAULT_PROFILE);
    let config = read(files.config.as_deref())?;
    let credentials = read(files.credentials.as_deref())?;
    let sections = [config.get(&config_section(profile)), credentials.get(profile)];
    if sections == [None, None] {
        return match &files.profile {
            Some(profile) => Err(format!(
                "There is no profile `{profile}` of AWS in {} or {}. Set AWS_PROFILE to another one, or run \
                 `aws configure --profile {profile}`.",
                shown(files.config.as_deref()),
                shown(files.credentials.as_deref()),
            )),
            None => Ok(None),
        };
    }
    // The keys of the file of keys count more than those of the file of settings.
    let mut settings = HashMap::new();
    for section in sections.into_iter().flatten() {
        settings.extend(section.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    }
    if let Some(keys) = keys(profile, &settings)? {
        return Ok(Some(ProfileCredentials::Keys(keys)));
    }
    if settings.contains_key("sso_session") || settings.contains_key("sso_start_url") {
        return sso(profile, &settings, &config).map(|login| Some(ProfileCredentials::Sso(login)));
    }
    match ["role_arn", "credential_process"].into_iter().find(|name| settings.contains_key(name)) {
        Some(name) => Err(format!(
            "The profile `{profile}` of AWS gets its credentials by `{name}`, which tandem does not do. Run \
             `aws configure export-credentials --profile {profile} --format env`, and set the variables that this \
             command prints."
        )),
        None => Ok(None),
    }
}

/// Returns the keys of a profile, if it has any.
fn keys(profile: &str, settings: &HashMap<&str, &str>) -> Result<Option<AwsKeys>, String> {
    match (settings.get("aws_access_key_id"), settings.get("aws_secret_access_key")) {
        (Some(id), Some(key)) => Ok(Some(AwsKeys {
            access_key_id: (*id).to_owned(),
            secret_access_key: Secret::new(key),
            session_token: settings.get("aws_session_token").map(|token| Secret::new(token)),
        })),
        (None, None) => Ok(None),
        _ => Err(format!(
            "The profile `{profile}` of AWS has only one of `aws_access_key_id` and `aws_secret_access_key`. Add the \
             other one."
        )),
    }
}

/// Returns the login of a profile at IAM Identity Center.
fn sso(
    profile: &str,
    settings: &HashMap<&str, &str>,
    config: &Sections,
) -> Result<SsoLogin, String> {
    let incomplete = |name: &str, place: &str| {
        format!("{place} of AWS has no `{name}`. Run `aws configure sso --profile {profile}`.")
    };
    let of_profile = |name: &str| {
        let value = settings.get(name).map(|value| (*value).to_owned());
        value.ok_or_else(|| incomplete(name, &format!("The profile `{profile}`")))
    };
    let (cache_key, region) = match settings.get("sso_session") {
        Some(session) => {
            let region = config.get(&format!("sso-session {session}"));
            let region = region.and_then(|section| section.get("sso_region").cloned());
            let missing =
                || incomplete("sso_region", &format!("The section `sso-session {session}`"));
            ((*session).to_owned(), region.ok_or_else(missing)?)
        }
        None => (of_profile("sso_start_url")?, of_profile("sso_region")?),
    };
    Ok(SsoLogin {
        profile: profile.to_owned(),
        cache_key,
        region,
        account_id: of_profile("sso_account_id")?,
        role_name: of_profile("sso_role_name")?,
    })
}

/// Returns the name of a profile's section in the file of settings.
fn config_section(profile: &str) -> String {
    match profile {
        DEFAULT_PROFILE => DEFAULT_PROFILE.to_owned(),
        profile => format!("profile {profile}"),
    }
}

fn shown(path: Option<&Path>) -> String {
    path.map_or_else(|| "~/.aws".to_owned(), |path| path.display().to_string())
}

/// Reads the sections of a file; none if there is no file.
fn read(path: Option<&Path>) -> Result<Sections, String> {
    let Some(path) = path else { return Ok(Sections::default()) };
    let wrong = |why: &str| format!("{} cannot be read: {why}. Correct it.", path.display());
    let text = files::read_if_exists(path).map_err(|error| wrong(&error.to_string()))?;
    Ok(text.map_or_else(Sections::default, |text| parse(&text)))
}

/// Parses a file of sections. Indented lines are parts of nested settings, of which none counts here.
fn parse(text: &str) -> Sections {
    let mut sections = Sections::default();
    let mut section = String::new();
    for line in text.lines() {
        let is_nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| Some(line.split_once(']')?.0)) {
            section = name.split_whitespace().collect::<Vec<_>>().join(" ");
            sections.entry(section.clone()).or_default();
            continue;
        }
        let Some((name, value)) = line.split_once('=').filter(|_| !is_nested) else { continue };
        // A comment at the end of a line begins after a space.
        let value = [" #", " ;"]
            .iter()
            .fold(value, |value, mark| value.split_once(mark).map_or(value, |(value, _)| value));
        let settings = sections.entry(section.clone()).or_default();
        settings.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
    }
    sections
}

#[cfg(test)]
mod tests;
