//! The filter of environment variables for programs that the agent starts.

use super::options::Redaction;

/// Parts of the names of variables that hold secrets.
const SECRET_NAMES: [&str; 10] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "KEY",
    "AUTH",
    "CREDENTIAL",
    "CREDS",
    "PRIVATE",
    "CERT",
];

/// Names that look secret but are harmless, such as the address of an SSH agent or the path of public certificates.
const HARMLESS_NAMES: [&str; 10] = [
    "SSH_AUTH_SOCK",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_DATE",
    "XAUTHORITY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_SSL_CERT_FILE",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
];

/// Prefixes of values that are secret under any name.
const SECRET_VALUES: [&str; 10] = [
    "-----BEGIN ",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "AIza",
    "AKIA",
    "sk-",
    "xoxb-",
];

impl Redaction {
    /// Returns `true` if the programs of commands and servers must not see a variable.
    pub fn hides(&self, name: &str, value: &str) -> bool {
        let is = |known: &String| known.eq_ignore_ascii_case(name);
        if self.blocked.iter().any(is) {
            return true;
        }
        self.enabled && !self.allowed.iter().any(is) && looks_secret(name, value)
    }
}

fn looks_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let named =
        SECRET_NAMES.iter().any(|part| name.contains(part)) && !HARMLESS_NAMES.contains(&&*name);
    named || SECRET_VALUES.iter().any(|start| value.starts_with(start)) || has_password(value)
}

/// Returns `true` for an address with a password: `scheme://user:password@host`.
fn has_password(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::Redaction;

    #[track_caller]
    fn check(enabled: bool, name: &str, value: &str, hidden: bool) {
        let (allowed, blocked) = (vec!["MY_TOKEN".to_owned()], vec!["PLAIN".to_owned()]);
        let redaction = Redaction { enabled, allowed, blocked };
        assert_eq!(redaction.hides(name, value), hidden, "{name}={value}");
    }

    #[test]
    fn variables_that_look_secret_are_hidden_if_that_is_wanted() {
        for (name, value) in [
            ("GITHUB_TOKEN", "x"),
            ("db_password", "x"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("X", "ghp_abc"),
            ("DATABASE_URL", "postgres://me:secret@host/db"),
        ] {
            check(true, name, value, true);
            check(false, name, value, false);
        }
    }

    #[test]
    fn others_are_not() {
        for (name, value) in [
            ("PATH", "/usr/bin"),
            ("SSH_AUTH_SOCK", "/tmp/agent"),
            ("MY_TOKEN", "x"),
            ("URL", "https://host/a:b@c"),
            ("PROXY", "http://user@host"),
        ] {
            check(true, name, value, false);
        }
    }

    #[test]
    fn what_the_user_has_named_is_hidden_in_any_case() {
        check(false, "PLAIN", "x", true);
        check(true, "plain", "x", true);
    }
}
