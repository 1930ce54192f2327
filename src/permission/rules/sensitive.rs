//! Files whose change makes something run later, without anybody asking for it.

use std::path::Path;

/// Directories, and why a change of anything below them counts.
const DIRECTORIES: &[(&str, &str)] = &[
    (".git", "it changes what git does"),
    (".husky", "git hooks run it"),
    (".githooks", "git hooks run it"),
    (".vscode", "the editor runs what it says"),
    (".zed", "the editor runs what it says"),
    (".idea", "the editor runs what it says"),
    (".cursor", "the editor runs what it says"),
    (".devcontainer", "the editor runs what it says"),
    (".gemini", "it changes what agents may do"),
    (".tandem", "it changes what agents may do"),
    (".github/workflows", "the forge runs it"),
    (".circleci", "the forge runs it"),
    (".cargo", "it changes what cargo runs"),
    (".ssh", "it opens the machine"),
];

/// Files, and why a change of them counts. `*` stands for any end.
const FILES: &[(&str, &str)] = &[
    ("package.json", "npm runs its scripts"),
    (".npmrc", "it changes what npm runs"),
    (".yarnrc*", "it changes what yarn runs"),
    (".pnpmfile.cjs", "pnpm runs it"),
    ("build.rs", "cargo runs it, also when an editor only looks"),
    ("rust-toolchain*", "it changes what cargo runs"),
    (".envrc", "direnv runs it"),
    (".env*", "programs take their settings from it"),
    (".mise.toml", "mise runs what it says"),
    ("mise.toml", "mise runs what it says"),
    (".pre-commit-config.yaml", "git hooks run it"),
    ("lefthook.yml", "git hooks run it"),
    (".gitattributes", "it changes what git does"),
    (".gitmodules", "it changes what git does"),
    // In small letters, as all names are compared.
    ("head", "git may take its directory for a repository"),
    (".gitlab-ci.yml", "the forge runs it"),
    (".mcp.json", "agents start what it says"),
    (".bashrc", "shells run it"),
    (".bash_profile", "shells run it"),
    (".profile", "shells run it"),
    (".zshrc", "shells run it"),
    (".zshenv", "shells run it"),
];

/// Why a change of this file is always asked about. The path is as seen from the workspace:
/// what is above that does not count.
pub fn sensitive(path: &Path) -> Option<&'static str> {
    let parts: Vec<String> = path.iter().map(|part| folded(&part.to_string_lossy())).collect();
    for (name, why) in DIRECTORIES {
        let name: Vec<&str> = name.split('/').collect();
        if parts.windows(name.len()).any(|parts| parts == name) {
            return Some(why);
        }
    }
    let file = parts.last()?;
    let is = |name: &str| match name.strip_suffix('*') {
        Some(start) => file.starts_with(start),
        None => file == name,
    };
    FILES.iter().find(|(name, _)| is(name)).map(|(_, why)| *why)
}

/// A file's name, the same for every spelling that some file system takes for it.
fn folded(name: &str) -> String {
    let name = name.split(':').next().unwrap_or(name).trim_end_matches(['.', ' ']);
    if name.eq_ignore_ascii_case("git~1") {
        return ".git".to_owned();
    }
    let ignored = |c: &char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    name.chars().filter(|c| !ignored(c)).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: bool) {
        assert_eq!(sensitive(Path::new(path)).is_some(), expected, "{path}");
    }

    #[test]
    fn what_runs_later_is_sensitive_however_deep_it_lies() {
        check(".git", true);
        check(".git/hooks/pre-commit", true);
        check("vendor/lib/.git/config", true);
        check(".vscode/tasks.json", true);
        check(".github/workflows/ci.yml", true);
        check("web/package.json", true);
        check("build.rs", true);
        check("sub/HEAD", true);
        check(".env.local", true);
        check("src/.cargo/config.toml", true);
    }

    #[test]
    fn other_files_are_not() {
        check("", false);
        check("src/main.rs", false);
        check(".gitignore", false);
        check(".github/dependabot.yml", false);
        check("package.json.md", false);
        check("src/build.rs.txt", false);
        check("git/config", false);
        check("src/head.rs", false);
        check("env", false);
    }

    #[test]
    fn other_spellings_of_a_name_do_not_hide_it() {
        check(".GIT/config", true);
        check("Package.JSON", true);
        check(".git /config", true);
        check(".git./config", true);
        check("GIT~1/config", true);
        check(".g\u{200c}it/config", true);
        check(".git::$INDEX_ALLOCATION/config", true);
    }
}
