//! Choice among the stored sessions of this directory or of all directories, with a filter that the user types. This
//! module is pure: it gets the list of sessions as a parameter.

use std::mem;
use std::path::{Path, PathBuf};

use super::input::{Edit, TextInput};
use tandem_agent::session::{Listed, Query};
use tandem_agent::sessions::SearchHit;

/// Maximum number of sessions in the first list: as many as may be shown.
const FIRST_LIST_SESSIONS: usize = 50;

/// A choice among the stored sessions.
#[derive(Debug)]
pub(super) struct Picker {
    /// Working directory of this process.
    directory: PathBuf,
    /// Id of the session on the screen, which is not offered; `None` before there is such a session.
    current: Option<String>,
    /// `true` if the sessions of all directories are offered.
    pub(super) all: bool,
    pub(super) filter: TextInput,
    /// Listed sessions, the last changed first; `None` until the first list has come.
    sessions: Option<Vec<PickerSession>>,
    /// Indexes of the sessions that match the filter.
    fitting: Vec<usize>,
    /// Results of the last search in the texts of the sessions; they are offered in place of the filtered sessions.
    hits: Option<Vec<SearchHit>>,
    /// `true` while the texts of the sessions are searched.
    pub(super) searching: bool,
    /// Index of the marked session among the offered sessions.
    pub(super) selected: usize,
    /// Reason why the chosen session was not opened, or why the sessions cannot be read.
    pub(super) failure: Option<String>,
    /// `true` while the chosen session is being opened.
    pub(super) opening: bool,
}

/// A listed session.
#[derive(Debug)]
pub(super) struct PickerSession {
    pub(super) listed: Listed,
    /// Text that the filter is compared with, in lower case.
    searched: String,
}

impl Picker {
    /// Creates a choice for a user who works in `directory`. `filter` is the filter's first text.
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
            hits: None,
            searching: false,
            selected: 0,
            failure: None,
            opening: false,
        }
    }

    /// Returns the query for the sessions to read first.
    pub(super) fn first_query(&self) -> Query {
        Query { most: Some(FIRST_LIST_SESSIONS), ..self.query() }
    }

    /// Returns the query for all sessions of the current scope.
    pub(super) fn query(&self) -> Query {
        let directory = (!self.all).then(|| self.directory.clone());
        Query { directory, ..Query::default() }
    }

    /// Takes in the list for a query, and keeps the same session marked. Returns `true` if there may be more sessions.
    pub(super) fn read(&mut self, query: &Query, listed: Result<Vec<Listed>, String>) -> bool {
        if query.directory != self.query().directory {
            // The user has changed the scope meanwhile, so this list comes too late.
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

    /// Switches between the sessions of this directory and of all directories. The caller must list the sessions anew.
    pub(super) fn change_scope(&mut self) {
        self.all = !self.all;
        (self.sessions, self.selected, self.failure) = (None, 0, None);
        self.fitting.clear();
        self.forget_search();
    }

    /// Begins a search for the typed text in the texts of the sessions, and returns the text; `None` if nothing is
    /// typed.
    pub(super) fn begin_search(&mut self) -> Option<String> {
        let text = self.filter.text().trim().to_owned();
        if text.is_empty() {
            self.failure = Some("Type what to search for first.".to_owned());
            return None;
        }
        (self.searching, self.failure) = (true, None);
        Some(text)
    }

    /// Takes in the results of a search, unless the user has typed another text by now.
    pub(super) fn set_search_results(&mut self, text: &str, found: Result<Vec<SearchHit>, String>) {
        if !self.searching || text != self.filter.text().trim() {
            return;
        }
        self.forget_search();
        match found {
            Ok(mut hits) => {
                hits.retain(|hit| self.current.as_ref() != Some(&hit.listed.head.id));
                (self.hits, self.selected) = (Some(hits), 0);
            }
            Err(why) => self.failure = Some(format!("The stored sessions cannot be read: {why}")),
        }
    }

    fn forget_search(&mut self) {
        (self.hits, self.searching) = (None, false);
    }

    /// Returns the number of sessions that the search has found, if there was a search.
    pub(super) fn hits(&self) -> Option<usize> {
        self.hits.as_ref().map(Vec::len)
    }

    /// Returns the line in which the search has found the text in the marked session.
    pub(super) fn marked_line(&self) -> Option<&str> {
        self.hits.as_ref()?.get(self.selected).map(|hit| hit.line.as_str())
    }

    /// Returns `true` if no session is on the screen yet.
    pub(super) fn is_first(&self) -> bool {
        self.current.is_none()
    }

    /// Begins to open the marked session, and returns its id; `None` if a session is being opened already.
    pub(super) fn begin_opening(&mut self) -> Option<String> {
        if self.opening {
            return None;
        }
        let id = self.marked()?.head.id.clone();
        (self.opening, self.failure) = (true, None);
        Some(id)
    }

    /// Notes why the session that was chosen was not opened.
    pub(super) fn not_opened(&mut self, why: &str) {
        (self.opening, self.failure) = (false, Some(format!("Not opened: {why}.")));
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
        self.forget_search();
        self.fit();
    }

    /// Marks the next session, or the previous session.
    pub(super) fn select(&mut self, down: bool) {
        let last = self.fitting().count().saturating_sub(1);
        self.selected =
            if down { (self.selected + 1).min(last) } else { self.selected.saturating_sub(1) };
    }

    /// Returns the marked session.
    pub(super) fn marked(&self) -> Option<&Listed> {
        self.fitting().nth(self.selected)
    }

    /// Returns the offered sessions: the results of the search, or else the sessions that match the filter.
    pub(super) fn fitting(&self) -> impl Iterator<Item = &Listed> {
        let sessions = self.sessions.as_deref().unwrap_or_default();
        let fitting = if self.hits.is_some() { &[] } else { self.fitting.as_slice() };
        let fitting = fitting.iter().filter_map(|at| sessions.get(*at)).map(|it| &it.listed);
        fitting.chain(self.hits.iter().flatten().map(|hit| &hit.listed))
    }

    /// Returns the number of sessions that match the filter, and the number of all; `None` until the first list has
    /// come.
    pub(super) fn count(&self) -> Option<(usize, usize)> {
        Some((self.fitting.len(), self.sessions.as_ref()?.len()))
    }

    /// Returns a session's directory, unless it is the working directory.
    pub(super) fn other_directory<'a>(&self, listed: &'a Listed) -> Option<&'a Path> {
        Some(&*listed.head.directory).filter(|directory| *directory != self.directory)
    }

    /// Finds the sessions that contain all words of the filter.
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
        let directory = head.directory.display();
        let searched = format!("{title} {tag} {directory} {}", head.id).to_lowercase();
        Self { listed, searched }
    }
}
