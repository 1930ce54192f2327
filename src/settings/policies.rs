//! Files with policy rules, and the file with the user's saved answers.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::env::Env;
use super::file::system_dir;
use super::options::Settings;
use super::owned_file;
use super::trust::{Trust, trust};
use parking_lot::Mutex;
use tandem_approval::{LoadedRules, Mode, PolicySetup, RuleStore, Saved};
use tandem_host::secrets::Secrets;
use tandem_policy::rules::{Broken, Rule, RuleSet, Tier, ToolSettings, old_rules, parse};

/// Maximum size of one file in KiB.
const MAX_KIB: u64 = 1024;

/// Name of the file with saved answers, in the user's own directory of policies.
const SAVED_FILE: &str = "saved.toml";

const SAVED_HEADER: &str =
    "# Answers that count for good. `/permissions` lists and removes them.\n";

/// Returns the policy that a session begins with: the policy of the settings, and the rules from files, which are read
/// when they are first needed. `interactive` is `true` if a user can be asked.
pub fn policy(env: &Env, settings: &Settings, folder: &Path, interactive: bool) -> PolicySetup {
    let security = &settings.security;
    let why = if security.disable_yolo_mode {
        Some(format!(
            "it is switched off by {}",
            setting_with_origins(settings, "security.disableYoloMode")
        ))
    } else if trust(env, folder) == Trust::Never {
        Some("you have distrusted this folder".to_owned())
    } else {
        None
    };
    let no_yolo = why.map(|why| format!("There is no mode `{}` here: {why}.", Mode::Yolo));
    PolicySetup {
        store: Arc::new(PolicyFiles::new(env, settings)),
        interactive,
        always: !security.disable_always_allow,
        can_save: security.enable_permanent_tool_approval,
        no_yolo,
        secrets: secrets(env),
    }
}

/// Returns the set of secret files. It includes the directories of the agent's keys, state and sessions, which
/// variables may have moved.
fn secrets(env: &Env) -> Secrets {
    let directories = [env.config_dir(), env.state_dir(), env.sessions_dir()];
    Secrets::with(directories.into_iter().flatten().collect())
}

/// Returns a setting's name with its origins, for a sentence.
fn setting_with_origins(settings: &Settings, key: &str) -> String {
    let origins: Vec<_> = settings.origin(key).iter().map(ToString::to_string).collect();
    if origins.is_empty() {
        format!("`{key}`")
    } else {
        format!("`{key}` in {}", origins.join(", "))
    }
}

/// A file with rules, or a directory of such files, and the tier of its rules.
struct PolicySource {
    path: PathBuf,
    tier: Tier,
    /// `true` if a setting names the path. An error is reported if such a path does not exist.
    named: bool,
    /// `true` if the file must belong to root, because only root decides for the machine.
    root: bool,
}

/// The places of policy files, and the rules from settings.
struct PolicyFiles {
    places: Vec<PolicySource>,
    /// Rules that follow from the tool settings.
    rules: Vec<Rule>,
    saved: Option<PathBuf>,
    home: Option<PathBuf>,
    /// Guard of the file of saved answers. If two calls of this process read and replaced the file at the same time, an
    /// answer would be lost.
    writing: Mutex<()>,
}

impl PolicyFiles {
    fn new(env: &Env, settings: &Settings) -> Self {
        let own = env.config_dir().map(|dir| dir.join("policies"));
        let gemini = env.gemini_dir().map(|dir| dir.join("policies"));
        let named = |paths: &[PathBuf], tier| -> Vec<PolicySource> {
            let place = |path: &PathBuf| PolicySource {
                path: path.clone(),
                tier,
                named: true,
                root: false,
            };
            paths.iter().map(place).collect()
        };
        let system = system_dir(env).join("policies");
        let root = env.var("GEMINI_CLI_SYSTEM_SETTINGS_PATH").is_none();
        let mut places = vec![PolicySource { path: system, tier: Tier::Admin, named: false, root }];
        places.extend(named(&settings.admin_policy_paths, Tier::Admin));
        places.extend(named(&settings.policy_paths, Tier::User));
        places.extend([own.clone(), gemini].into_iter().flatten().map(|path| PolicySource {
            path,
            tier: Tier::User,
            named: false,
            root: false,
        }));
        Self {
            places,
            rules: old_rules(&old(settings), |key| setting_with_origins(settings, key)),
            saved: own.map(|dir| dir.join(SAVED_FILE)),
            home: env.var("HOME").map(PathBuf::from),
            writing: Mutex::default(),
        }
    }

    /// Returns a path for people: with `~` for the home directory.
    fn path_for_people(&self, path: &Path) -> String {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let path = real(path);
        let home = self.home.as_deref().map(real);
        let below = home.as_ref().and_then(|home| path.strip_prefix(home).ok());
        below.map_or_else(|| path.display().to_string(), |below| format!("~/{}", below.display()))
    }

    /// Returns the files of a place, in order of their names. The error says why they cannot be listed.
    fn files(place: &PolicySource) -> Result<Vec<PathBuf>, String> {
        let metadata = match fs::metadata(&place.path) {
            Ok(metadata) => metadata,
            Err(err) if err.kind() == ErrorKind::NotFound && !place.named => return Ok(Vec::new()),
            Err(err) => return Err(format!("it cannot be read: {err}")),
        };
        if !metadata.is_dir() {
            return Ok(vec![place.path.clone()]);
        }
        if metadata.mode() & 0o002 != 0 {
            let path = place.path.display();
            return Err(format!("other users can write it (run `chmod o-w {path}`)"));
        }
        if place.root && metadata.uid() != 0 {
            return Err("it does not belong to root".to_owned());
        }
        let entries = fs::read_dir(&place.path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = entries.map_err(|err| format!("it cannot be read: {err}"))?;
        let paths = entries.into_iter().map(|entry| entry.path());
        let mut files: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
        files.sort();
        Ok(files)
    }

    /// Reads a file, which must belong to root if `root` is set. The error says why the file cannot be read.
    fn text(path: &Path, root: bool) -> Result<String, String> {
        let file = owned_file::read(path, MAX_KIB).map_err(|why| format!("it {why}"))?;
        let file = file.ok_or("it was removed")?;
        if file.others_may_write() {
            return Err(format!("other users can write it (run `chmod go-w {}`)", path.display()));
        }
        if root && fs::metadata(path).is_ok_and(|metadata| metadata.uid() != 0) {
            return Err("it does not belong to root".to_owned());
        }
        Ok(file.text)
    }
}

impl RuleStore for PolicyFiles {
    fn load(&self) -> LoadedRules {
        let (mut rules, mut broken) = (self.rules.clone(), Vec::new());
        let (mut saved, mut remarks) = (Vec::new(), Vec::new());
        for place in &self.places {
            let files = Self::files(place).unwrap_or_else(|why| {
                broken.push(Broken::whole(&self.path_for_people(&place.path), &why));
                Vec::new()
            });
            for file in files {
                let shown = self.path_for_people(&file);
                match Self::text(&file, place.root) {
                    Err(why) => broken.push(Broken::whole(&shown, &why)),
                    Ok(text) => {
                        let parsed = parse(&text, &shown, place.tier);
                        rules.extend(parsed.rules);
                        broken.extend(parsed.broken);
                        saved.extend(parsed.saved);
                        remarks.extend(parsed.remarks);
                    }
                }
            }
        }
        LoadedRules { policy: Arc::new(RuleSet::new(rules, broken)), saved, remarks }
    }

    fn save(&self, saved: &Saved) -> Result<PathBuf, String> {
        let path = self.saved.as_ref().ok_or("there is no home directory: set HOME")?;
        let _one = self.writing.lock();
        let before = if path.exists() { Self::text(path, false)? } else { SAVED_HEADER.to_owned() };
        let text = saved.added_to(&before)?;
        owned_file::write(path, &text)?;
        Ok(path.clone())
    }

    fn remove(&self, saved: &Saved) -> Result<(), String> {
        let path = self.saved.as_ref().ok_or("there is no home directory: set HOME")?;
        let _one = self.writing.lock();
        let before = Self::text(path, false)
            .map_err(|why| format!("{}: {why}", self.path_for_people(path)))?;
        let Some(text) = saved.taken_from(&before) else {
            return Err(format!("it is not written in {}", self.path_for_people(path)));
        };
        owned_file::write(path, &text)
    }
}

/// Returns the rules that follow from the tool settings.
fn old(settings: &Settings) -> ToolSettings {
    let tools = &settings.tools;
    ToolSettings {
        allowed: tools.allowed.clone(),
        excluded: tools.exclude.clone(),
        core: tools.core.clone(),
        confirmed: tools.confirmation_required.clone(),
        servers: settings.mcp.allowed.clone(),
        servers_excluded: settings.mcp.excluded.clone(),
    }
}
