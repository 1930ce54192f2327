//! A choice among the stored sessions: those of this directory, or all; typing filters them. Pure: it
//! is given what a store lists.

use std::mem;
use std::path::{Path, PathBuf};

use super::input::{Edit, TextInput};
use tandem_agent::session::{Listed, Query};

/// Number of sessions that are read first: as many as may be shown.
const FIRST: usize = 50;

/// A choice among the stored sessions.
#[derive(Debug)]
pub(super) struct Picker {
    /// The directory that is worked in.
    directory: PathBuf,
    /// The id of the session that is on the screen, which is not offered.
    current: Option<String>,
    /// `true` if the sessions of all directories are offered.
    pub(super) all: bool,
    pub(super) filter: TextInput,
    /// The sessions, the last changed first; `None` until some have been read.
    sessions: Option<Vec<PickerSession>>,
    /// Indexes of the sessions that the filter leaves.
    fitting: Vec<usize>,
    /// Place of the marked one among them.
    pub(super) selected: usize,
    /// Reason why the last choice was not opened, or the sessions cannot be read.
    pub(super) failure: Option<String>,
    /// `true` while the chosen session is opened.
    pub(super) opening: bool,
}

/// A session that may be chosen.
#[derive(Debug)]
pub(super) struct PickerSession {
    pub(super) listed: Listed,
    /// Text that the filter looks in.
    searched: String,
}

impl Picker {
    /// A choice for who works in a directory. What is typed first is the filter.
    pub(super) fn new(directory: &Path, current: Option<String>, filter: &str) -> Self {
        let mut input = TextInput::default();
        input.set(filter);
        Self {
            directory: directory.to_owned(),
            current,
            all: false,
            filter: input,
            sessions: None,
            fitting: Vec::new(),
            selected: 0,
            failure: None,
            opening: false,
        }
    }

    /// Returns the query for the sessions to read first.
    pub(super) fn first_query(&self) -> Query {
        Query { most: Some(FIRST), ..self.query() }
    }

    /// Returns the query for all of them.
    pub(super) fn query(&self) -> Query {
        let directory = (!self.all).then(|| self.directory.clone());
        Query { directory, ..Query::default() }
    }

    /// Takes in what was read for a query. Returns `true` if there may be more.
    pub(super) fn read(&mut self, query: &Query, listed: Result<Vec<Listed>, String>) -> bool {
        if query.directory != self.query().directory {
            // The scope has been changed meanwhile.
            return false;
        }
        let listed = listed.unwrap_or_else(|why| {
            self.failure = Some(format!("The stored sessions cannot be read: {why}"));
            Vec::new()
        });
        let has_more = query.most.is_some_and(|most| listed.len() == most);
        let others = listed.into_iter().filter(|it| self.current.as_ref() != Some(&it.head.id));
        let marked = self.marked().map(|marked| marked.head.id.clone());
        self.sessions = Some(others.map(PickerSession::new).collect());
        self.fit();
        let place = self.fitting().position(|it| Some(&it.head.id) == marked.as_ref());
        self.selected = place.unwrap_or(0);
        has_more
    }

    /// Offers the sessions of all directories in place of those of this one, or the other way round:
    /// they are read anew.
    pub(super) fn change_scope(&mut self) {
        self.all = !self.all;
        (self.sessions, self.selected, self.failure) = (None, 0, None);
        self.fitting.clear();
    }

    pub(super) fn edit(&mut self, edit: &Edit) {
        if let Edit::Insert(text) = edit
            && text.contains('\n')
        {
            let line = text.replace('\n', " ");
            self.filter.edit(&Edit::Insert(line));
        } else {
            self.filter.edit(edit);
        }
        self.failure = None;
        self.selected = 0;
        self.fit();
    }

    /// Marks the next session, or the one before.
    pub(super) fn select(&mut self, down: bool) {
        let last = self.fitting.len().saturating_sub(1);
        self.selected =
            if down { (self.selected + 1).min(last) } else { self.selected.saturating_sub(1) };
    }

    /// Returns the marked session.
    pub(super) fn marked(&self) -> Option<&Listed> {
        self.fitting().nth(self.selected)
    }

    /// Returns the sessions that the filter leaves.
    pub(super) fn fitting(&self) -> impl Iterator<Item = &Listed> {
        let sessions = self.sessions.as_deref().unwrap_or_default();
        self.fitting.iter().filter_map(|at| sessions.get(*at)).map(|session| &session.listed)
    }

    /// Returns the number of sessions that the filter leaves, and the number of all; `None` until
    /// some have been read.
    pub(super) fn count(&self) -> Option<(usize, usize)> {
        Some((self.fitting.len(), self.sessions.as_ref()?.len()))
    }

    /// Returns a session's directory, if it is another than the one that is worked in.
    pub(super) fn other_directory<'a>(&self, listed: &'a Listed) -> Option<&'a Path> {
        Some(&*listed.head.directory).filter(|directory| *directory != self.directory)
    }

    /// Finds the sessions that have all words of the filter.
    fn fit(&mut self) {
        let words = self.filter.text().to_lowercase();
        let words: Vec<_> = words.split_whitespace().collect();
        let fits = |session: &PickerSession| words.iter().all(|it| session.searched.contains(it));
        let sessions = self.sessions.as_deref().unwrap_or_default().iter().enumerate();
        let mut fitting = mem::take(&mut self.fitting);
        fitting.clear();
        fitting.extend(sessions.filter(|(_, session)| fits(session)).map(|(at, _)| at));
        self.fitting = fitting;
    }
}

impl PickerSession {
    fn new(listed: Listed) -> Self {
        let Listed { head, title, .. } = &listed;
        let tag = head.tag.as_deref().unwrap_or_default();
        let searched = format!("{title} {tag} {} {}", head.directory.display(), head.id);
        let searched = searched.to_lowercase();
        Self { listed, searched }
    }
}
