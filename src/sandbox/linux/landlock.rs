//! Confinement with Landlock: rules for files, without namespaces.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ::landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use rustix::fs::FileType;

use super::beneath::{Opened, Root};
use super::{Naming as _, privileges, seccomp, sys};
use crate::profile::{KnownPath, Profile};

/// Oldest version of Landlock that is used: the first that restricts truncation. With an older one, a command could
/// empty a file that it may only read.
const OLDEST_VERSION: i64 = 3;

/// Newest version of Landlock whose access rights are requested. Rights that the kernel does not know are left out.
const NEWEST_ABI: ABI = ABI::V7;

/// Devices that programs rely on. Pseudo-terminals and shared memory are left out: those of the user's other programs,
/// the agent among them, lie in the same directories, and a rule cannot tell them from the command's own.
const DEVICE_PATHS: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Returns the reason why Landlock does not work here, if it does not.
pub(crate) fn unavailable() -> Option<String> {
    match sys::landlock_version() {
        0 => Some("this kernel has no Landlock, or it is switched off".to_owned()),
        version if version < OLDEST_VERSION => Some(format!(
            "this kernel's Landlock (version {version}) does not hold truncation back"
        )),
        _ => Root::open().err().map(|error| error.to_string()),
    }
}

/// Confines this process.
pub(crate) fn confine(profile: &Profile) -> io::Result<()> {
    privileges::forgo_new(privileges::beside_others(profile.limits)).naming("no new privileges")?;
    privileges::drop_capabilities().naming("capabilities")?;
    sys::leave_terminal();
    restrict_files(profile).naming("Landlock")?;
    let surroundings = if profile.network {
        seccomp::SharedSurroundings::Machine
    } else {
        seccomp::SharedSurroundings::MachineWithoutNetwork
    };
    seccomp::apply(surroundings).naming("filter of system calls")
}

fn restrict_files(profile: &Profile) -> io::Result<()> {
    let all = AccessFs::from_all(NEWEST_ABI);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)
        .and_then(|rules| rules.scope(Scope::AbstractUnixSocket | Scope::Signal))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    let root = Root::open()?;
    // Directories can be listed everywhere: a rule cannot exclude a directory from a rule that covers its parent.
    rules = allow(rules, root.find(Path::new("/"))?, AccessFs::ReadDir.into())?;
    for path in readable(profile)? {
        // A file that was removed since its directory was listed, or that has become a link, needs no rule.
        if let Ok(found) = root.find(&path) {
            rules = allow(rules, found, AccessFs::from_read(NEWEST_ABI))?;
        }
    }
    for device in DEVICE_PATHS.iter().filter_map(|path| root.find(Path::new(path)).ok()) {
        rules = allow(rules, device, all)?;
    }
    let roots = if profile.writes_roots { &profile.roots[..] } else { &[] };
    for place in roots.iter().chain(profile.temporary_directory()).chain(&profile.writable) {
        rules = allow(rules, root.find_place(place)?, all)?;
    }
    let status = rules.restrict_self().map_err(io::Error::other)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(io::Error::other("this kernel does not enforce it"));
    }
    Ok(())
}

fn allow(
    rules: RulesetCreated,
    found: Opened,
    access: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    let access = match found.kind {
        FileType::Directory => access,
        // A link has no content of its own. The file that the link leads to has a rule of its own, or is hidden.
        FileType::Symlink => return Ok(rules),
        _ => access & AccessFs::from_file(NEWEST_ABI),
    };
    rules.add_rule(PathBeneath::new(found.file, access)).map_err(io::Error::other)
}

/// Returns paths that together cover all files but for devices, hidden files, and the part of the home that the profile
/// does not show.
fn readable(profile: &Profile) -> io::Result<Vec<PathBuf>> {
    let mut hidden: Vec<_> = profile.hidden.iter().map(PathBuf::as_path).collect();
    // A command run by root could read a whole disk through its device.
    hidden.push(Path::new("/dev"));
    let mut readable = Vec::new();
    let home = profile.home.as_ref().map(|home| home.path.as_path());
    let outside: Vec<_> = hidden.iter().copied().chain(home).collect();
    collect(Path::new("/"), &outside, &mut readable)?;
    let places = profile.roots.iter().chain(&profile.writable).map(KnownPath::path);
    let places = places.chain(profile.readable_in_home());
    for place in places.filter(|place| home.is_some_and(|home| place.starts_with(home))) {
        if !hidden.iter().any(|hidden| hidden.starts_with(place)) {
            readable.push(place.to_owned());
        } else if !hidden.contains(&place) {
            // An error is ignored: a directory that the user cannot list is not readable for a command either.
            let _ = collect(place, &hidden, &mut readable);
        }
    }
    Ok(readable)
}

fn collect(directory: &Path, hidden: &[&Path], readable: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory).naming(directory.to_string_lossy())? {
        let entry = entry?;
        let path = entry.path();
        if hidden.contains(&&*path) || entry.file_type()?.is_symlink() {
            continue;
        }
        if hidden.iter().any(|hidden| hidden.starts_with(&path)) {
            // An error is ignored: a directory that the user cannot list is not readable for a command either.
            let _ = collect(&path, hidden, readable);
        } else {
            readable.push(path);
        }
    }
    Ok(())
}
