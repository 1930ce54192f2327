//! Files whose change takes effect without a person running them, or in a tool that a person trusts.

use std::path::Path;
use std::sync::LazyLock;

use tandem_host::NameList;
use tandem_shell::{sensitive_files, unprotected_files};

static SENSITIVE_NAMES: LazyLock<NameList> =
    LazyLock::new(|| NameList::new(sensitive_files()).expect("a test reads the list"));

static UNPROTECTED_NAMES: LazyLock<NameList> =
    LazyLock::new(|| NameList::new(unprotected_files()).expect("a test reads the list"));

/// Returns whether a file is sensitive, and writable in the sandbox because package managers and build tools write it.
/// The path is as seen from the workspace.
pub(super) fn is_unprotected(path: &Path) -> bool {
    UNPROTECTED_NAMES.why(path).is_some()
}

/// Returns the reason why a change of a file is asked about every time. The path is as seen from the
/// workspace: directories above it do not count.
pub fn sensitive(path: &Path) -> Option<&'static str> {
    SENSITIVE_NAMES.why(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files that an earlier version wrote without a question, and other well-known names.
    const LISTED: &[&str] = &[
        ".devcontainer.json",
        ".devcontainer/devcontainer.json",
        "lefthook.yaml",
        ".lefthook.toml",
        ".mise/tasks/build",
        ".mise/config.toml",
        ".config/mise/config.toml",
        ".gitea/workflows/ci.yml",
        ".forgejo/workflows/ci.yml",
        "a.code-workspace",
        ".claude/settings.json",
        ".claude/commands/x.md",
        ".codex/config.toml",
        ".cursor/mcp.json",
        ".cursor/rules/x.mdc",
        ".dir-locals.el",
        ".exrc",
        ".nvimrc",
        ".nvim.lua",
        ".venv/bin/python",
        "venv/bin/activate",
        ".envrc",
        ".cargo/config.toml",
        ".npmrc",
        ".yarnrc.yml",
        ".tandem/settings.json",
        ".gemini/settings.json",
        ".config/tandem/policies/a.toml",
        ".husky/pre-commit",
        ".git/hooks/pre-commit",
        ".github/workflows/ci.yml",
        ".github/copilot-instructions.md",
        ".gitlab-ci.yml",
        "Jenkinsfile",
        "AGENTS.md",
        "docs/CLAUDE.md",
        "GEMINI.md",
        ".cursorrules",
        ".windsurfrules",
        ".mcp.json",
        ".vscode/tasks.json",
        ".idea/workspace.xml",
        ".zed/tasks.json",
        ".pre-commit-config.yaml",
        ".tool-versions",
        ".bashrc",
        ".config/fish/config.fish",
        ".config/systemd/user/x.service",
        ".config/autostart/x.desktop",
        "Library/LaunchAgents/x.plist",
        ".ssh/authorized_keys",
        ".netrc",
        "lib/python3/site-packages/sitecustomize.py",
        "x.pth",
        "node_modules/.bin/tsc",
        "node_modules/a/index.js",
        ".gdbinit",
        ".bazelrc",
        ".mvn/extensions.xml",
        "gradle/wrapper/gradle-wrapper.properties",
        "NuGet.Config",
        ".Rprofile",
        ".hg/hgrc",
        "sub/HEAD",
        "web/package.json",
        ".env.local",
    ];

    fn check(path: &str, expected: bool) {
        assert_eq!(sensitive(Path::new(path)).is_some(), expected, "{path}");
    }

    #[test]
    fn every_row_of_the_list_counts_however_deep_it_lies_and_however_it_is_spelt() {
        let rows = sensitive_files();
        assert!(rows.len() > 400, "{}", rows.len());
        NameList::new(rows.clone()).unwrap();
        for name in rows.keys().map(|name| name.replace('*', "x")) {
            check(&name, true);
            check(&format!("vendor/lib/{name}"), true);
            check(&name.to_uppercase(), true);
            let is_directory = name.ends_with('/');
            check(&format!("{name}any/file"), is_directory);
        }
    }

    #[test]
    fn what_runs_by_itself_or_steers_an_agent_or_an_editor_is_on_the_list() {
        for path in LISTED {
            check(path, true);
        }
    }

    #[test]
    fn ordinary_files_are_not_on_the_list() {
        for path in [
            "",
            "src/main.rs",
            "src/head.rs",
            "build.rs",
            "conftest.py",
            "setup.py",
            "Makefile",
            "Dockerfile",
            "docker-compose.yml",
            ".docker/Dockerfile",
            "Cargo.toml",
            "Cargo.lock",
            "pyproject.toml",
            "requirements.txt",
            "go.mod",
            "tsconfig.json",
            "eslint.config.js",
            "vite.config.ts",
            ".gitignore",
            ".dockerignore",
            ".editorconfig",
            ".prettierrc",
            ".clang-format",
            "rustfmt.toml",
            ".github/dependabot.yml",
            ".github/ISSUE_TEMPLATE.md",
            "README.md",
            "docs/agents.html",
            "src/agents.md.rs",
            "package.json.md",
            "src/build.rs.txt",
            "git/config",
            "env",
            "src/env.rs",
            "bin/run.sh",
            "scripts/deploy.sh",
            "venv.md",
            "tests/fixtures/profile.txt",
            "src/config/mod.rs",
            "index.html",
            "main.tf",
        ] {
            check(path, false);
        }
    }

    #[test]
    fn other_spellings_of_a_name_do_not_hide_it() {
        check(".GIT/config", true);
        check("Package.JSON", true);
        check(".git /config", true);
        check("GIT~1/config", true);
    }
}
