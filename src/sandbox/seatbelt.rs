//! Translation of a profile into the language of macOS's `sandbox-exec`.

use std::io;
use std::path::Path;

use crate::profile::{KnownPath, Profile};

/// Rules that every program needs to start and run.
const BASE_PROFILE: &str = "\
(version 1)
(deny default)
(allow process-exec process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow user-preference-read)
(allow mach-lookup
  (global-name \"com.apple.system.opendirectoryd.libinfo\")
  (global-name \"com.apple.system.notification_center\")
  (global-name \"com.apple.system.logger\")
  (global-name \"com.apple.trustd.agent\"))
(allow ipc-posix-sem)
(allow pseudo-tty)
(allow file-ioctl (literal \"/dev/ptmx\") (regex #\"^/dev/ttys[0-9]+$\"))
(allow file-write* (literal \"/dev/null\") (literal \"/dev/zero\") (literal \"/dev/ptmx\") (regex #\"^/dev/ttys[0-9]+$\"))
(allow file-read*)
";

/// Returns the profile as text for `sandbox-exec`. If two rules match a file, the later rule applies; so protected
/// paths come after writable paths, and hidden paths last. Fails if the language cannot name a path.
pub fn seatbelt(profile: &Profile) -> io::Result<String> {
    let mut text = BASE_PROFILE.to_owned();
    let mut rule = |what: &str, path: &Path| -> io::Result<()> {
        text.push_str(&format!("({what} (subpath {}))\n", quoted(path)?));
        Ok(())
    };
    if profile.writes_roots {
        for root in &profile.roots {
            rule("allow file-write*", root.path())?;
        }
    }
    for place in profile.temporary_directory().into_iter().chain(&profile.writable) {
        rule("allow file-write*", place.path())?;
    }
    if let Some(home) = &profile.home {
        rule("deny file-read*", &home.path)?;
        // Programs look up every directory above the one that they work in.
        rule("allow file-read-metadata", &home.path)?;
        let places =
            profile.roots.iter().chain(profile.temporary_directory()).chain(&profile.writable);
        let places = places.map(KnownPath::path).filter(|place| place.starts_with(&home.path));
        for path in places.chain(profile.readable_in_home()) {
            rule("allow file-read*", path)?;
        }
    }
    for path in &profile.protected {
        rule("deny file-write*", path)?;
    }
    for path in &profile.hidden {
        rule("deny file-read* file-write*", path)?;
    }
    text.push_str(if profile.network {
        "(allow network*)\n"
    } else {
        "(allow network-bind network-inbound (local ip \"localhost:*\"))\n(allow network-outbound \
         (remote ip \"localhost:*\"))\n"
    });
    Ok(text)
}

/// Returns a path as a string of the profile's language.
fn quoted(path: &Path) -> io::Result<String> {
    let text = path.to_str().filter(|text| !text.contains(char::is_control));
    let text = text.ok_or_else(|| {
        io::Error::other(format!("a profile cannot name the path {}", path.display()))
    })?;
    Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::profile::{Home, Temporary};

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    fn known_path(path: &str) -> KnownPath {
        KnownPath::new(Path::new(path), 0, 0)
    }

    #[test]
    fn what_is_protected_comes_after_what_can_be_written_and_what_is_hidden_last() {
        let profile = Profile {
            roots: vec![known_path("/Users/u/p")],
            writes_roots: true,
            temporary: Some(Temporary::Directory(known_path("/private/tmp/t"))),
            writable: vec![known_path("/Users/u/.npm")],
            protected: paths(&["/Users/u/p/.git"]),
            hidden: paths(&["/Users/u/.ssh"]),
            home: Some(Home {
                path: PathBuf::from("/Users/u"),
                readable: paths(&["/Users/u/.rustup", "/Users/u/.npm/_cacache"]),
                links: Vec::new(),
            }),
            ..Profile::default()
        };
        let text = seatbelt(&profile).unwrap();
        let rules = text.strip_prefix(BASE_PROFILE).unwrap();
        let expected = "\
(allow file-write* (subpath \"/Users/u/p\"))
(allow file-write* (subpath \"/private/tmp/t\"))
(allow file-write* (subpath \"/Users/u/.npm\"))
(deny file-read* (subpath \"/Users/u\"))
(allow file-read-metadata (subpath \"/Users/u\"))
(allow file-read* (subpath \"/Users/u/p\"))
(allow file-read* (subpath \"/Users/u/.npm\"))
(allow file-read* (subpath \"/Users/u/.rustup\"))
(deny file-write* (subpath \"/Users/u/p/.git\"))
(deny file-read* file-write* (subpath \"/Users/u/.ssh\"))
(allow network-bind network-inbound (local ip \"localhost:*\"))
(allow network-outbound (remote ip \"localhost:*\"))
";
        assert_eq!(rules, expected);
    }

    #[test]
    fn a_path_cannot_add_a_rule_of_its_own() {
        let profile =
            Profile { hidden: paths(&["/a\")) (allow default) (\""]), ..Profile::default() };
        let text = seatbelt(&profile).unwrap();
        assert!(text.contains(r#"(subpath "/a\")) (allow default) (\""))"#), "{text}");
        let profile = Profile { hidden: paths(&["/a\nb"]), ..Profile::default() };
        assert!(seatbelt(&profile).is_err());
    }

    #[test]
    fn every_parenthesis_of_a_profile_is_closed() {
        let text = seatbelt(&Profile::default()).unwrap();
        let depth = text.chars().try_fold(0_i32, |depth, letter| match letter {
            '(' => Some(depth + 1),
            ')' => (depth > 0).then_some(depth - 1),
            _ => Some(depth),
        });
        assert_eq!(depth, Some(0));
    }
}
