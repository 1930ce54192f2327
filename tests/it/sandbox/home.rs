//! The home directory: which files in it commands can read.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;

use super::{Arena, mechanisms};
use crate::needs::{Need, lacking};

/// Files in which programs store secrets or a history of the user. Only the last rows are in the table of secrets.
const STORES: &[&str] = &[
    ".config/sops/age/keys.txt",
    ".age/key.txt",
    ".config/age/identity",
    ".bitcoin/wallet.dat",
    ".electrum/wallets/default_wallet",
    ".ethereum/keystore/UTC--2026",
    ".foundry/keystores/main",
    ".config/solana/id.json",
    ".config/monero/wallet",
    ".config/Code/User/globalStorage/state.vscdb",
    ".config/Cursor/User/globalStorage/state.vscdb",
    ".config/VSCodium/User/globalStorage/storage.json",
    ".config/JetBrains/IdeaIC2026.1/options/security.xml",
    ".local/share/JetBrains/consentOptions/accepted",
    ".vscode-server/data/User/globalStorage/state.vscdb",
    ".config/zed/settings.json",
    ".local/share/zed/db/0-stable/db.sqlite",
    ".config/ngrok/ngrok.yml",
    ".ngrok2/ngrok.yml",
    ".config/stripe/config.toml",
    ".databrickscfg",
    ".snowflake/connections.toml",
    ".snowsql/config",
    ".kaggle/kaggle.json",
    ".config/wandb/settings",
    ".cache/huggingface/stored_tokens",
    ".config/gspread/credentials",
    ".twilio-cli/config.json",
    ".config/sentry/config",
    ".sentryclirc",
    ".config/circleci/cli.yml",
    ".circleci/cli.yml",
    ".travis/config.yml",
    ".config/pulumi/credentials",
    ".pulumi/credentials.json",
    ".vault",
    ".config/linode-cli",
    ".config/scw/config.yaml",
    ".edgerc",
    ".config/pip/pip.conf",
    ".pip/pip.conf",
    ".config/uv/uv.toml",
    ".config/pypoetry/auth.toml",
    ".config/nix/nix.conf",
    ".sbt/.credentials",
    ".hex/hex.config",
    ".pub-cache/credentials.json",
    ".config/dart/pub-credentials.json",
    ".claude/projects/-home-me-work/session.jsonl",
    ".codex/sessions/2026/rollout.jsonl",
    ".gemini/tmp/abc/chats/session.json",
    ".aider.chat.history.md",
    ".local/share/opencode/storage/session.json",
    ".local/share/goose/sessions/a.jsonl",
    ".local/share/tandem/sessions/a/log.jsonl",
    ".local/state/tandem/state.json",
    ".config/tandem/credentials.json",
    ".config/weechat/sec.conf",
    ".config/evolution/sources/a.source",
    ".local/share/evolution/mail/local/a",
    ".local/share/TelegramDesktop/tdata/key_datas",
    ".config/rbw/config.json",
    ".zoom/data/zoomus.db",
    ".bashrc",
    ".profile",
    ".zshrc",
    "notes/diary.md",
    "other-project/.env",
    "Documents/tax.pdf",
    ".local/share/uv/credentials/credentials.toml",
    ".rye/credentials",
    ".stack/upload/credentials.json",
    ".julia/servers/pkg.julialang.org/auth.toml",
    ".dotnet/corefx/cryptography/x509stores/my/a.pfx",
    ".cargo/credentials.toml",
    ".config/git/credentials",
];

/// Files that builds read.
const TOOL_CHAINS: &[&str] = &[
    ".gitconfig",
    ".config/git/ignore",
    ".cargo/bin/cargo",
    ".cargo/registry/cache/index/a.crate",
    ".cargo/config.toml",
    ".rustup/toolchains/stable/bin/rustc",
    ".nvm/versions/node/v24/bin/node",
    ".npm/_cacache/index-v5/a",
    ".pyenv/shims/python",
    ".local/bin/tool",
    ".local/lib/python3/site-packages/a.py",
    ".local/share/pnpm/store/a",
    ".local/share/uv/tools/ruff/bin/ruff",
    ".cache/uv/a",
    ".cache/pip/a",
    ".cache/go-build/a",
    "go/pkg/mod/example.org/a/a.go",
    ".m2/repository/a.jar",
    ".gradle/caches/a",
];

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the files of the home that a command can read. Each file contains its own name.
fn read(arena: &Arena, mechanism: &str, mode: &str, files: &[&str]) -> Vec<String> {
    let line = format!("cd; cat {} 2>/dev/null; true", files.join(" "));
    let output = arena.bash(mechanism, mode, &line);
    assert!(output.status.success(), "{mechanism}: {output:?}");
    text(&output).lines().map(ToOwned::to_owned).collect()
}

fn fill(arena: &Arena, files: &[&str]) {
    for file in files {
        arena.file(file, &format!("{file}\n"));
    }
}

#[test]
fn stores_of_secrets_are_not_read_and_tool_chains_are() {
    let arena = Arena::new();
    fill(&arena, STORES);
    fill(&arena, TOOL_CHAINS);
    for mechanism in mechanisms() {
        for mode in ["read-only", "workspace-write"] {
            let none: [&str; 0] = [];
            assert_eq!(read(&arena, mechanism, mode, STORES), none, "{mechanism}, {mode}");
            let seen = read(&arena, mechanism, mode, TOOL_CHAINS);
            assert_eq!(seen, TOOL_CHAINS, "{mechanism}, {mode}");
        }
    }
}

#[test]
fn the_names_of_what_is_hidden_are_not_seen_and_nothing_is_written_to_the_home() {
    let arena = Arena::new();
    fill(&arena, &["notes/diary.md", ".cargo/bin/cargo"]);
    for mechanism in mechanisms() {
        let line = "cd; ls -A . .cargo; for path in new .cargo/new .cargo/bin/new; do \
                    echo new > $path; done; mkdir .ssh";
        let output = arena.bash(mechanism, "workspace-write", line);
        // Landlock has no rule that hides names.
        if mechanism != "landlock" {
            let names = ".:\n.cargo\nworkspace\n\n.cargo:\nbin\n";
            assert_eq!(text(&output), names, "{mechanism}: {output:?}");
        }
        for path in ["new", ".cargo/new", ".cargo/bin/new", ".ssh"] {
            assert!(!arena.home().join(path).exists(), "{mechanism}: {path}: {output:?}");
        }
    }
}

#[test]
fn links_to_tool_chains_lead_where_they_did() {
    let arena = Arena::new();
    let (home, outside) = (arena.home(), arena.path());
    for (file, content) in [
        ("data/cargo/bin/cargo", "cargo\n"),
        ("data/cargo/credentials.toml", "canary\n"),
        ("store/abc/bin/tool", "nix\n"),
        ("home/dotfiles/gitconfig", "git\n"),
        ("home/dotfiles/secret", "canary\n"),
        ("home/disk/nvm/versions/v24/bin/node", "node\n"),
        ("home/.rustup/toolchains/stable/bin/rustc", "rustc\n"),
        ("home/notes/diary.md", "canary\n"),
    ] {
        let path = outside.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let profiles = home.join(".local/state/nix/profiles");
    fs::create_dir_all(&profiles).unwrap();
    fs::create_dir_all(home.join(".local/bin")).unwrap();
    let point = |target: &Path, name: &str| symlink(target, home.join(name)).unwrap();
    point(&outside.join("data/cargo"), ".cargo");
    point(Path::new("dotfiles/gitconfig"), ".gitconfig");
    point(&profiles.join("profile"), ".nix-profile");
    point(Path::new("profile-1-link"), ".local/state/nix/profiles/profile");
    point(&outside.join("store/abc"), ".local/state/nix/profiles/profile-1-link");
    point(&home.join("disk/nvm"), ".nvm");
    point(Path::new("../../.rustup/toolchains/stable/bin/rustc"), ".local/bin/rustc");
    point(Path::new("../../notes/diary.md"), ".local/bin/diary");
    for mechanism in mechanisms() {
        let line = "cd; cat .cargo/bin/cargo .gitconfig .nix-profile/bin/tool \
             .nvm/versions/v24/bin/node .local/bin/rustc; cat .local/bin/diary dotfiles/secret";
        let output = arena.bash(mechanism, "read-only", line);
        assert_eq!(text(&output), "cargo\ngit\nnix\nnode\nrustc\n", "{mechanism}: {output:?}");
    }
}

#[test]
fn a_link_that_a_command_made_opens_nothing() {
    let arena = Arena::new();
    fill(&arena, &["notes/diary.md", ".cargo/bin/cargo", ".cargo/registry/a"]);
    let settings = serde_json::json!({ "tools": { "sandboxAllowedPaths": ["~/.cargo"] } });
    arena.file(".gemini/settings.json", &settings.to_string());
    for mechanism in mechanisms() {
        let line =
            "cd ~/.cargo && rm -rf bin registry && ln -s ../notes bin && ln -s ../notes registry";
        let output = arena.bash(mechanism, "workspace-write", line);
        assert!(output.status.success(), "{mechanism}: {output:?}");
        for mode in ["workspace-write", "read-only"] {
            let files = ["notes/diary.md", ".cargo/bin/diary.md", ".cargo/registry/diary.md"];
            let none: [&str; 0] = [];
            assert_eq!(read(&arena, mechanism, mode, &files), none, "{mechanism}, {mode}");
        }
    }
}

#[test]
fn settings_of_a_person_open_more_and_those_of_a_project_do_not() {
    let arena = Arena::new();
    let files = ["notes/diary.md", "letters/a.md", ".ssh/config", ".ssh/id_rsa", ".aws/config"];
    fill(&arena, &files);
    let open = |file: &str, paths: &[&str]| {
        let settings = serde_json::json!({ "tools": { "sandboxReadablePaths": paths } });
        arena.file(file, &settings.to_string());
    };
    open("workspace/.gemini/settings.json", &["~/notes", "~", "~/.ssh/id_rsa"]);
    let user = ".gemini/settings.json";
    let whole = ["notes/diary.md", "letters/a.md"];
    for (paths, expected) in [
        (&[][..], &[][..]),
        (&["~/notes", "~/.aws"], &["notes/diary.md"]),
        // A file with secrets is shown if the settings name the file itself.
        (&["~/.ssh/config"], &[".ssh/config"]),
        (&["~"], &whole),
        (&["/"], &whole),
    ] {
        open(user, paths);
        for mechanism in mechanisms() {
            let seen = read(&arena, mechanism, "workspace-write", &files);
            assert_eq!(seen, expected, "{mechanism}: {paths:?}");
        }
    }
}

#[test]
fn directories_that_the_environment_names_are_read_but_not_the_home_itself() {
    let arena = Arena::new();
    let files = ["tools/bin/tool", "data/cargo/bin/cargo", "data/cargo/credentials.toml"];
    fill(&arena, &files);
    fill(&arena, &["notes/diary.md"]);
    let (home, path) = (arena.home(), std::env::var("PATH").unwrap());
    let named = format!("{path}:{0}:{0}/tools/bin:{0}/.local/share/tandem", home.display());
    fill(&arena, &[".local/share/tandem/sessions/a/log.jsonl"]);
    for mechanism in mechanisms() {
        let line = format!(
            "cd; cat {} notes/diary.md .local/share/tandem/sessions/a/log.jsonl",
            files.join(" ")
        );
        let mut command = arena.sandboxed(mechanism, "read-only", &["/bin/bash", "-c", &line]);
        command.env("PATH", &named).env("CARGO_HOME", home.join("data/cargo"));
        let output = command.output().unwrap();
        let expected = "tools/bin/tool\ndata/cargo/bin/cargo\n";
        assert_eq!(text(&output), expected, "{mechanism}: {output:?}");
    }
}

#[test]
fn the_repository_around_a_workspace_is_read_and_where_git_keeps_it() {
    let arena = Arena::new();
    fill(&arena, &["notes/diary.md"]);
    arena.outside(
        "cd && export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always
         commit() { git -C $1 -c user.name=x -c user.email=x@y commit -q --allow-empty -m $1; }
         git init -q -b main library && commit library
         git init -q -b main project && mkdir project/part && commit project
         git -C project submodule --quiet add ~/library module && commit project
         git -C project worktree add -q ~/tree",
    );
    for (directory, subject) in
        [("project/part", "project"), ("tree", "project"), ("project/module", "library")]
    {
        for mechanism in mechanisms() {
            let line = "git log -1 --format=%s && git status --porcelain; cat ~/notes/diary.md";
            let mut command = arena.sandboxed(mechanism, "read-only", &["/bin/bash", "-c", line]);
            let output = command.current_dir(arena.home().join(directory)).output().unwrap();
            assert_eq!(
                text(&output),
                format!("{subject}\n"),
                "{mechanism}: {directory}: {output:?}"
            );
        }
    }
}

#[test]
fn a_file_that_names_a_directory_of_git_opens_nothing_that_git_has_not_made_for_it() {
    let arena = Arena::new();
    fill(&arena, &["notes/diary.md", "notes/HEAD", "notes/objects/a"]);
    arena.outside("cd && git init -q other && mkdir -p other/.git/worktrees/x");
    for (file, content) in [
        ("notes/commondir", "."),
        ("notes/gitdir", "../elsewhere/.git"),
        ("other/.git/worktrees/x/gitdir", "../../../../elsewhere/.git"),
        ("other/.git/worktrees/x/commondir", "../.."),
        ("other/.git/worktrees/x/HEAD", "ref: refs/heads/x"),
    ] {
        arena.file(file, content);
    }
    for target in ["notes", "other/.git/worktrees/x", "other/.git", "."] {
        let pointer = format!("gitdir: {}\n", arena.home().join(target).display());
        arena.file("workspace/.git", &pointer);
        for mechanism in mechanisms() {
            let files = ["notes/diary.md", "other/.git/HEAD"];
            let none: [&str; 0] = [];
            assert_eq!(read(&arena, mechanism, "read-only", &files), none, "{mechanism}: {target}");
        }
    }
}

#[test]
fn in_a_home_that_is_the_workspace_the_agents_own_directories_stay_hidden() {
    let arena = Arena::new();
    let own = [
        ".local/share/tandem/sessions/a/log.jsonl",
        ".local/state/tandem/a",
        ".config/tandem/credentials.json",
        ".ssh/id_rsa",
    ];
    fill(&arena, &own);
    fill(&arena, &["notes/diary.md"]);
    for mechanism in mechanisms() {
        let line = format!("cat notes/diary.md {}", own.join(" "));
        let mut command = arena.sandboxed(mechanism, "read-only", &["/bin/bash", "-c", &line]);
        let output = command.current_dir(arena.home()).output().unwrap();
        assert_eq!(text(&output), "notes/diary.md\n", "{mechanism}: {output:?}");
    }
}

#[test]
fn sessions_that_are_stored_elsewhere_are_hidden_wherever_they_are() {
    let arena = Arena::new();
    let elsewhere = arena.path().join("logs");
    fs::create_dir_all(elsewhere.join("a")).unwrap();
    fs::write(elsewhere.join("a/log.jsonl"), "canary\n").unwrap();
    for mechanism in mechanisms() {
        let line = format!("cat '{}/a/log.jsonl'; echo ran", elsewhere.display());
        let mut command = arena.sandboxed(mechanism, "read-only", &["/bin/bash", "-c", &line]);
        let output = command.env("TANDEM_SESSIONS", &elsewhere).output().unwrap();
        assert_eq!(text(&output), "ran\n", "{mechanism}: {output:?}");
    }
}

/// Programs of this machine, and their output in a sandbox with the home of the user who runs the tests. A program
/// that is not installed is skipped.
const PROGRAMS: &[(&str, &str)] = &[
    ("cargo", "cargo --version && cargo metadata --offline --format-version 1 --no-deps -q"),
    ("rustc", "rustc --version && rustup show active-toolchain"),
    ("npm", "npm --version && npm ls"),
    ("node", "node -e 'console.log(1 + 1)'"),
    ("python3", "python3 -c 'import ssl, json; print(1 + 1)'"),
    ("pip", "pip --version && pip list -q"),
    ("go", "go version && go env GOMODCACHE"),
    ("git", "git --version && git config --list --show-origin && git status"),
];

#[test]
fn programs_of_this_machine_do_in_the_sandbox_as_outside() {
    if lacking(Need::Sandbox) {
        return;
    }
    let arena = Arena::new();
    arena.outside("git init -q && mkdir src && echo 'fn main() {}' > src/main.rs");
    arena.file("workspace/Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\n");
    arena.file("workspace/package.json", "{}");
    // The programs are tried in the real home, with the versions that are installed there.
    let Some(home) = std::env::home_dir() else { return };
    for (program, line) in PROGRAMS {
        let run = |mut command: std::process::Command| {
            let output = command.env("HOME", &home).env("TANDEM_CONFIG_DIR", arena.path());
            let output = output.env("TANDEM_STATE_DIR", arena.path().join("state")).output();
            let output = output.unwrap();
            (output.status.success(), text(&output))
        };
        let mut outside = arena.program("/bin/bash");
        outside.args(["-c", line]);
        let outside = run(outside);
        if !outside.0 {
            // The program is not installed, or not set up.
            continue;
        }
        for mechanism in mechanisms() {
            let inside =
                run(arena.sandboxed(mechanism, "workspace-write", &["/bin/bash", "-c", line]));
            assert_eq!(inside, outside, "{mechanism}: {program}");
        }
    }
}
