//! Memory files: the `GEMINI.md` and `AGENTS.md` files of the user and of the project, with
//! instructions for the model.

mod import;
mod places;

use std::cell::OnceCell;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::import::{Importer, hidden, real, text};
pub use self::places::Places;
use tandem_host::memory_file;
use tandem_host::workspace::Workspace;

/// Function that returns `false` for a folder whose texts the model must not be told. It judges by the user's rules as
/// they were when the function was made. Blocks.
pub type FolderJudge = Box<dyn Fn(&Path) -> bool + Send>;

/// Function that reads the user's rules on folders, and returns their judge. Blocks.
pub(super) type TrustRules = Arc<dyn Fn() -> FolderJudge + Send + Sync>;

/// Reader of the memory files.
pub struct Memory {
    places: Places,
    trust: TrustRules,
}

/// A memory file, with its text or the reason why the model is not told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryFile {
    /// Absolute path of the file.
    pub path: PathBuf,
    /// Text of the file with its imports, trimmed and not empty. The error is the reason why the model is not told the
    /// file.
    pub content: Result<String, String>,
}

impl Memory {
    /// Returns a reader of the memory files in `places`. `trust` reads the user's rules on folders.
    pub fn new(places: Places, trust: impl Fn() -> FolderJudge + Send + Sync + 'static) -> Self {
        Self { places, trust: Arc::new(trust) }
    }

    /// Returns the function that reads the user's rules on folders.
    pub(super) fn trust(&self) -> &TrustRules {
        &self.trust
    }

    /// Returns the file to which facts are added that the user wants remembered; `None` if the user has no own
    /// directory.
    pub fn user_file(&self) -> Option<PathBuf> {
        self.places.user_file()
    }

    /// Returns the name that a new memory file gets.
    pub(crate) fn name(&self) -> &str {
        self.places.name()
    }

    /// Reads the memory files in this order: the user's own, the files at the workspace's roots and above, and the
    /// files in the directories `more` of the workspace. Later files count more. Blocks.
    pub(super) fn read(&self, workspace: &Workspace, more: &[PathBuf]) -> Vec<MemoryFile> {
        let (files, ids, judge) = (Vec::new(), HashSet::new(), OnceCell::new());
        let mut reading = MemoryReader { memory: self, workspace, files, ids, judge };
        let user: Vec<_> =
            self.places.user.iter().chain(&self.places.home).filter_map(|dir| real(dir)).collect();
        for directory in &self.places.user {
            reading.add(directory, false, &user);
        }
        for root in self.places.roots(workspace) {
            let top = self.places.project_root(root);
            for directory in self.places.upwards(root) {
                let allowed = top.clone().unwrap_or_else(|| directory.clone());
                let of_project = self.places.is_of_project(&directory, root);
                reading.add_trusted(&directory, of_project, &[allowed]);
            }
        }
        for directory in more {
            let mut roots = self.places.roots(workspace).iter();
            if let Some(root) = roots.find(|root| directory.starts_with(root)) {
                let allowed = self.places.project_root(root).unwrap_or_else(|| root.clone());
                reading.add_trusted(directory, true, &[allowed]);
            }
        }
        reading.files
    }

    /// Adds a line to the user's own file, which otherwise stays as it is. Returns the file.
    pub(crate) fn add(&self, fact: &str) -> Result<PathBuf, String> {
        let file = self.user_file().ok_or("Your home directory is unknown: set `HOME`.")?;
        memory_file::add(&file, fact).map_err(|err| err.message)?;
        Ok(file)
    }
}

/// The memory files that were read so far.
struct MemoryReader<'a> {
    memory: &'a Memory,
    workspace: &'a Workspace,
    files: Vec<MemoryFile>,
    /// Device and inode numbers of the files that were read: a file with several paths is read once.
    ids: HashSet<(u64, u64)>,
    /// Judge of folders, which is made when the first folder with a memory file is found.
    judge: OnceCell<FolderJudge>,
}

impl MemoryReader<'_> {
    /// Reads the memory files in a directory of a project, or above a project, if the folder is trusted. Otherwise
    /// lists them as not told.
    fn add_trusted(&mut self, directory: &Path, of_project: bool, allowed: &[PathBuf]) {
        let files = self.memory.places.in_directory(directory, of_project);
        // Most directories have no memory file, and there may be very many of them. Judging the trust in each would
        // resolve its whole path.
        if of_project && files.is_empty() {
            return;
        }
        let judge = self.judge.get_or_init(|| (self.memory.trust)());
        if judge(directory) {
            return self.add(directory, of_project, allowed);
        }
        for path in files {
            let content = Err("you have distrusted its folder".to_owned());
            self.files.push(MemoryFile { path, content });
        }
    }

    /// Reads the memory files in a directory. Files that they link to or import must be in one of the directories in
    /// `allowed`. Outside of a project, also lists the files that only the project's settings name, as not told.
    fn add(&mut self, directory: &Path, of_project: bool, allowed: &[PathBuf]) {
        let before = self.files.len();
        for path in self.memory.places.in_directory(directory, of_project) {
            let found = fs::metadata(&path).ok();
            if found.is_some_and(|found| !self.ids.insert((found.dev(), found.ino()))) {
                continue;
            }
            let content = self.content(&path, allowed);
            // The model is told the same text under two names only once.
            let known = self.files[before..].iter().any(|file| file.content == content);
            if content.as_deref() != Ok("") && !known {
                self.files.push(MemoryFile { path, content });
            }
        }
        if of_project {
            return;
        }
        for path in self.memory.places.named_by_project(directory) {
            let why = "only the project's settings name the file, and they have no effect outside the project";
            self.files.push(MemoryFile { path, content: Err(why.to_owned()) });
        }
    }

    fn content(&self, path: &Path, allowed: &[PathBuf]) -> Result<String, String> {
        let real = fs::canonicalize(path).map_err(|err| err.to_string())?;
        if let Some(rules) = hidden(self.workspace, &real) {
            return Err(format!("it is ignored by {rules}"));
        }
        // A file in the user's own directories may link to any place, also to a file that may hold secrets.
        let places = &self.memory.places;
        let own = path.parent().is_some_and(|dir| places.user.iter().any(|user| user == dir));
        let directory = allowed.iter().find(|dir| real.starts_with(dir)).filter(|_| !own);
        if !own && directory.is_none() {
            return Err(format!("it is a link to {}, outside the project", real.display()));
        }
        if let Some(why) = self.workspace.secrets().why(&real).filter(|_| !own) {
            return Err(format!("it leads to a file that may hold secrets: {why}"));
        }
        let text = text(&real, directory, places.file_bytes)?;
        let home = places.home.as_deref();
        let room = places.file_bytes.saturating_sub(text.len() as u64);
        let seen = HashSet::new();
        let mut importer = Importer { workspace: self.workspace, allowed, home, room, seen };
        Ok(importer.expand(&text, &real))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread;

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    use super::*;

    /// Number of times that the files are read: enough that, without the protection, some reads are outside.
    const READ_ROUNDS: usize = 1000;

    #[test]
    fn trust_is_looked_up_only_for_directories_that_have_a_memory_file() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let below: Vec<_> = (1..=100).map(|depth| root.join("d/".repeat(depth))).collect();
        fs::create_dir_all(&below[99]).unwrap();
        fs::write(below[41].join("AGENTS.md"), "words\n").unwrap();
        let looked_up = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looked_up);
        let workspace = Workspace::new(&root, &[]).unwrap();
        let memory = Memory::new(Places::default(), move || {
            let counted = Arc::clone(&counted);
            Box::new(move |_| {
                counted.fetch_add(1, Ordering::Relaxed);
                true
            })
        });
        let files = memory.read(&workspace, &below);
        assert_eq!(files.len(), 1, "{files:?}");
        assert_eq!(looked_up.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn no_memory_file_outside_is_read_while_a_directory_and_a_link_change_places() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("ws"), dir.path().join("outside"));
        for (directory, text) in [(&root.join("rules"), "inside"), (&outside, "the key")] {
            fs::create_dir_all(directory).unwrap();
            fs::write(directory.join("file"), text).unwrap();
        }
        fs::write(root.join("AGENTS.md"), "Rules: @rules/file\n").unwrap();
        symlink("rules/file", root.join("GEMINI.md")).unwrap();
        symlink(&outside, root.join("link")).unwrap();
        let workspace = Workspace::new(&root, &[]).unwrap();
        let memory = Memory::new(Places::default(), || Box::new(|_| true));
        let is_over = AtomicBool::new(false);
        let (one, other) = (root.join("rules"), root.join("link"));
        let exchange = || renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
        let exchanging = || {
            while !is_over.load(Ordering::Relaxed) {
                exchange();
            }
        };
        let told = thread::scope(|scope| {
            scope.spawn(exchanging);
            let told: Vec<_> = (0..READ_ROUNDS).map(|_| memory.read(&workspace, &[])).collect();
            is_over.store(true, Ordering::Relaxed);
            told
        });
        let told: Vec<_> =
            told.iter().flatten().filter_map(|file| file.content.as_ref().ok()).collect();
        assert!(told.iter().all(|text| !text.contains("the key")), "{told:?}");
        if one.is_symlink() {
            exchange();
        }
        let told = memory.read(&workspace, &[]);
        assert!(told.iter().any(|file| file.content.as_deref() == Ok("inside")), "{told:?}");
    }
}
