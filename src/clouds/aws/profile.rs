//! Profiles in the files of AWS's own tools.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tandem_model::Secret;

use super::{AwsKeys, ProfileFiles, WebIdentity};
use crate::files;

/// Name of the profile that counts if none was chosen.
const DEFAULT_PROFILE: &str = "default";

/// Credentials that a profile has, or the way in which it gets some.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProfileCredentials {
    Keys(AwsKeys),
    Sso(SsoLogin),
    Role(AssumedRole),
    WebIdentity(WebIdentity),
    Process(CredentialProcess),
}

/// A role that is assumed with other credentials.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AssumedRole {
    /// Name of the profile.
    pub(super) profile: String,
    pub(super) role_arn: String,
    pub(super) session_name: Option<String>,
    pub(super) external_id: Option<String>,
    pub(super) duration_seconds: Option<String>,
    pub(super) source: RoleSource,
}

/// Credentials with which a role is assumed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RoleSource {
    /// Credentials of a profile.
    Profile(Box<ProfileCredentials>),
    /// Keys in environment variables.
    Environment,
    /// Credentials of the container.
    Container,
    /// Credentials of the machine.
    Instance,
}

/// A program of the user that prints credentials.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CredentialProcess {
    /// Name of the profile.
    pub(super) profile: String,
    /// Command line, as the file has it.
    pub(super) command: String,
    /// Directory in which the program runs: that of the file of settings.
    pub(super) directory: Option<PathBuf>,
}

/// A login at IAM Identity Center.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SsoLogin {
    /// Name of the profile.
    pub(super) profile: String,
    /// `true` if the login is one of an SSO session, whose token can be renewed.
    pub(super) is_renewable: bool,
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
    let profiles = Profiles { files, config, credentials };
    if profiles.settings(profile).is_none() && files.profile.is_none() {
        return Ok(None);
    }
    profiles.credentials(profile, &mut Vec::new())
}

/// The profiles of both files.
struct Profiles<'a> {
    files: &'a ProfileFiles,
    config: Sections,
    credentials: Sections,
}

/// Settings of a profile by name.
type Settings<'a> = HashMap<&'a str, &'a str>;

impl Profiles<'_> {
    /// Returns the settings of a profile, if there is one of this name.
    fn settings(&self, profile: &str) -> Option<Settings<'_>> {
        let sections = [self.config.get(&config_section(profile)), self.credentials.get(profile)];
        // The keys of the file of keys count more than those of the file of settings.
        let mut settings = HashMap::new();
        for section in sections.into_iter().flatten() {
            settings.extend(section.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        }
        (sections != [None, None]).then_some(settings)
    }

    /// Finds the credentials of a profile. `chain`: the profiles that lead to this one, each by its `source_profile`.
    fn credentials(
        &self,
        profile: &str,
        chain: &mut Vec<String>,
    ) -> Result<Option<ProfileCredentials>, String> {
        let settings = self.settings(profile).ok_or_else(|| {
            format!(
                "There is no profile `{profile}` of AWS in {} or {}. Set AWS_PROFILE to another one, or run \
                 `aws configure --profile {profile}`.",
                shown(self.files.config.as_deref()),
                shown(self.files.credentials.as_deref()),
            )
        })?;
        // A profile that names itself as its source has the keys as well.
        let is_own_source = chain.last().is_some_and(|last| last == profile);
        if !is_own_source && let Some(role_arn) = settings.get("role_arn") {
            return self.role(profile, role_arn, &settings, chain).map(Some);
        }
        if let Some(keys) = keys(profile, &settings)? {
            return Ok(Some(ProfileCredentials::Keys(keys)));
        }
        if settings.contains_key("sso_session") || settings.contains_key("sso_start_url") {
            let login = sso(profile, &settings, &self.config);
            return login.map(|login| Some(ProfileCredentials::Sso(login)));
        }
        let command = settings.get("credential_process");
        command.map(|command| self.process(profile, command)).transpose()
    }

    /// Returns the role of a profile, with the credentials with which it is assumed.
    fn role(
        &self,
        profile: &str,
        role_arn: &str,
        settings: &Settings<'_>,
        chain: &mut Vec<String>,
    ) -> Result<ProfileCredentials, String> {
        let text = |name: &str| settings.get(name).map(|value| (*value).to_owned());
        let (role_arn, session_name) = (role_arn.to_owned(), text("role_session_name"));
        if let Some(file) = settings.get("web_identity_token_file") {
            let token_file = PathBuf::from(file);
            return Ok(ProfileCredentials::WebIdentity(WebIdentity {
                role_arn,
                token_file,
                session_name,
            }));
        }
        if settings.contains_key("mfa_serial") {
            return Err(format!(
                "The role of the profile `{profile}` of AWS demands a code of a device (`mfa_serial`), which tandem does \
                 not ask for. Run `aws configure export-credentials --profile {profile} --format env`, and set the \
                 variables that this command prints."
            ));
        }
        let source = match (settings.get("source_profile"), settings.get("credential_source")) {
            (Some(source), None) => self.source_profile(profile, source, chain)?,
            (None, Some(&"Environment")) => RoleSource::Environment,
            (None, Some(&"EcsContainer")) => RoleSource::Container,
            (None, Some(&"Ec2InstanceMetadata")) => RoleSource::Instance,
            (None, Some(_)) => {
                return Err(format!(
                    "The `credential_source` of the profile `{profile}` of AWS must be Environment, EcsContainer or \
                     Ec2InstanceMetadata. Correct it."
                ));
            }
            _ => {
                return Err(format!(
                    "The profile `{profile}` of AWS has a `role_arn`, and must have one of `source_profile` and \
                     `credential_source`. Correct it."
                ));
            }
        };
        let (external_id, duration_seconds) = (text("external_id"), text("duration_seconds"));
        Ok(ProfileCredentials::Role(AssumedRole {
            profile: profile.to_owned(),
            role_arn,
            session_name,
            external_id,
            duration_seconds,
            source,
        }))
    }

    /// Returns the credentials of the profile with which another profile assumes its role.
    fn source_profile(
        &self,
        profile: &str,
        source: &str,
        chain: &mut Vec<String>,
    ) -> Result<RoleSource, String> {
        chain.push(profile.to_owned());
        if source != profile && chain.iter().any(|before| before == source) {
            return Err(format!(
                "The profiles {} of AWS lead to each other by `source_profile`. Correct them.",
                chain.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            ));
        }
        let found = self.credentials(source, chain)?.ok_or_else(|| {
            format!(
                "The profile `{source}` of AWS, with which the profile `{profile}` assumes its role, has no credentials. \
                 Run `aws configure --profile {source}`."
            )
        })?;
        Ok(RoleSource::Profile(Box::new(found)))
    }

    /// Returns the program of a profile, if the files are the user's own.
    fn process(&self, profile: &str, command: &str) -> Result<ProfileCredentials, String> {
        if !self.files.may_run_programs {
            return Err(format!(
                "The profile `{profile}` of AWS runs a program (`credential_process`), which tandem does only for files \
                 of your own: {} is named by a file of the project, or lies in it. Move the profile to ~/.aws/config.",
                shown(self.files.config.as_deref()),
            ));
        }
        Ok(ProfileCredentials::Process(CredentialProcess {
            profile: profile.to_owned(),
            command: command.to_owned(),
            directory: self.files.config.as_deref().and_then(Path::parent).map(Path::to_owned),
        }))
    }
}

/// Returns the keys of a profile, if it has any.
fn keys(profile: &str, settings: &Settings<'_>) -> Result<Option<AwsKeys>, String> {
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
fn sso(profile: &str, settings: &Settings<'_>, config: &Sections) -> Result<SsoLogin, String> {
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
        is_renewable: settings.contains_key("sso_session"),
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
