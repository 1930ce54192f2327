//! The policy on files outside of the workspace that neither tools nor commands in the sandbox read without a question.

use std::path::{Path, PathBuf};

use super::always::Always;
use tandem_approval::{BuiltInRule, Question, Scope};
use tandem_content::visible::visible_line;
use tandem_host::workspace::OutsideFile;

/// Returns the question about files outside of the workspace that a call reads; `None` if an "always" covers all of
/// them.
pub(super) fn question(always: &Always, files: &[OutsideFile]) -> Option<Question> {
    // A file without a folder may hold secrets and is asked about every time, also below a folder with an "always".
    let is_covered =
        |file: &&OutsideFile| file.folder.is_some() && always.covers_reading(&file.path);
    let files = files.iter().filter(|file| !is_covered(file));
    let files: Vec<_> = files.collect();
    if files.is_empty() {
        return None;
    }
    let paths = outermost(files.iter().map(|file| file.path.clone()));
    let names: Vec<_> = paths.iter().map(|path| name(path)).collect();
    let are = if names.len() == 1 { "is" } else { "are" };
    let why = format!(
        "{} {are} outside the workspace, where nothing is read without a question",
        names.join(", ")
    );
    // If one of the files has no folder, no "always" is offered: none could cover the whole call.
    let folders: Option<Vec<_>> = files.iter().map(|file| file.folder.clone()).collect();
    let scopes = folders.map(|folders| Scope::Reads(outermost(folders.into_iter())));
    Some(Question {
        why,
        rules: vec![BuiltInRule::Reads.into()],
        scopes: scopes.into_iter().collect(),
        ..Question::default()
    })
}

/// Returns a path as a question names it.
pub(super) fn name(path: &Path) -> String {
    format!("`{}`", visible_line(&path.display().to_string()))
}

/// Returns whether a question is about files outside of the workspace.
pub(super) fn asks(question: &Question) -> bool {
    question.rules.contains(&BuiltInRule::Reads.into())
}

/// Returns the paths in their order, without each path that is below another of them.
fn outermost(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut paths: Vec<_> = paths.collect();
    paths.sort();
    paths.dedup_by(|path, above| path.starts_with(above));
    paths
}
