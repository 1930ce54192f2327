//! A repository that the operator has named, with the credentials in its URL.

use std::borrow::Cow;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use tandem_agent::session::GitOrigin;
use url::Url;

use super::name::{is_branch, is_object_id};

/// A repository that sessions may work in: `URL`, or `URL#REV` for a branch, a tag or a commit of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Repository {
    origin: GitOrigin,
    /// Name of the protocol in git.
    protocol: &'static str,
    credentials: Option<UrlCredentials>,
}

/// Credentials of a URL.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct UrlCredentials {
    /// Scheme, host and port for which the credentials are. A server to which this server redirects does not get the
    /// credentials.
    pub(crate) server: String,
    pub(crate) user: String,
    pub(crate) password: String,
}

impl Repository {
    /// Returns the URL without credentials, and the revision.
    pub fn origin(&self) -> &GitOrigin {
        &self.origin
    }

    /// Returns `true` if the revision is a commit, and not a branch or a tag.
    pub fn is_at_commit(&self) -> bool {
        self.origin.revision.as_deref().is_some_and(is_object_id)
    }

    /// Returns the secret of the URL, if it has one: the password, or a token in place of the user.
    pub fn secret(&self) -> Option<&str> {
        let UrlCredentials { user, password, .. } = self.credentials.as_ref()?;
        Some(if password.is_empty() { user } else { password })
    }

    pub(crate) fn protocol(&self) -> &'static str {
        self.protocol
    }

    pub(crate) fn credentials(&self) -> Option<&UrlCredentials> {
        self.credentials.as_ref()
    }
}

impl FromStr for Repository {
    type Err = &'static str;

    /// Reads `URL` or `URL#REV`. The error does not repeat the text, which may contain a password.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (url, revision) = match text.rsplit_once('#') {
            Some((url, revision)) => (url, Some(revision.to_owned())),
            None => (text, None),
        };
        if revision.as_deref().is_some_and(|it| !is_branch(it) && !is_object_id(it)) {
            return Err("after `#` comes the name of a branch or a tag, or the id of a commit");
        }
        if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err("a URL must not have spaces");
        }
        let (url, protocol, credentials) = read(url)?;
        Ok(Self { origin: GitOrigin { url, revision }, protocol, credentials })
    }
}

/// Reads a URL in one of git's forms. Returns the URL without credentials, its protocol, and the credentials.
fn read(url: &str) -> Result<(String, &'static str, Option<UrlCredentials>), &'static str> {
    const URL_FORMS: &str = "give `https://HOST/PATH`, `ssh://USER@HOST/PATH`, `USER@HOST:PATH`, or the \
                         absolute path of a repository";
    if url.starts_with('/') {
        return Ok((url.to_owned(), "file", None));
    }
    let protocol = match url.split_once("://") {
        Some(("file", _)) => "file",
        Some(("https", _)) => "https",
        Some(("http", _)) => "http",
        Some(("ssh", _)) => "ssh",
        Some(_) => return Err(URL_FORMS),
        // For a URL `NAME::ADDRESS`, git would run the program `git-remote-NAME`. Git would take a URL that begins with
        // `-` for an option.
        None if url.contains("::") || url.starts_with('-') => return Err(URL_FORMS),
        None => match url.split_once(':') {
            Some((host, path)) if !host.is_empty() && !host.contains('/') && !path.is_empty() => {
                return Ok((url.to_owned(), "ssh", None));
            }
            _ => return Err(URL_FORMS),
        },
    };
    let mut parsed = Url::parse(url).map_err(|_| URL_FORMS)?;
    if protocol == "ssh" && parsed.password().is_some() {
        return Err("an ssh URL must not have a password: give the node a key");
    }
    if !protocol.starts_with("http")
        || (parsed.username().is_empty() && parsed.password().is_none())
    {
        return Ok((url.to_owned(), protocol, None));
    }
    let decoded = |text: &str| {
        let text = percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned);
        let is_line = |text: &String| !text.contains(char::is_control);
        text.filter(is_line).ok_or("the user and the password of a URL are one line of text each")
    };
    let user = decoded(parsed.username())?;
    let password = decoded(parsed.password().unwrap_or_default())?;
    let server = parsed.origin().ascii_serialization();
    let cleared = parsed.set_username("").and_then(|()| parsed.set_password(None));
    cleared.map_err(|()| URL_FORMS)?;
    Ok((parsed.to_string(), protocol, Some(UrlCredentials { server, user, password })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> String {
        text.parse::<Repository>().map_or_else(ToOwned::to_owned, |it| it.origin.to_string())
    }

    #[test]
    fn credentials_are_taken_out_of_a_url() {
        let repository: Repository = "https://me:p%40ss@git.example/a.git#main".parse().unwrap();
        assert_eq!(repository.origin.to_string(), "https://git.example/a.git#main");
        assert_eq!(repository.secret(), Some("p@ss"));
        assert_eq!(repository.credentials().unwrap().server, "https://git.example");
        assert!("https://me:a%0Apassword=b@git.example/a.git".parse::<Repository>().is_err());
    }

    #[test]
    fn a_url_has_one_of_few_forms() {
        for url in [
            "https://git.example/a.git",
            "http://127.0.0.1:8080/a.git#v1",
            "ssh://git@git.example:2222/a.git",
            "git@git.example:team/a.git#feature/x",
            "/srv/git/a.git",
            "file:///srv/git/a.git",
        ] {
            assert_eq!(origin(url), url);
        }
        for url in [
            "ext::sh -c id",
            "ext::id",
            "a/b",
            "--upload-pack=id",
            "-oProxyCommand=id:x",
            "git://host/a",
            "https://",
            "ssh://u:p@host/a",
            "/srv/a.git#--x",
            "/srv/a.git#",
            "/srv/a b",
        ] {
            assert!(url.parse::<Repository>().is_err(), "{url}");
        }
    }
}
