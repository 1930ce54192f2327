//! Screens of the choice among the stored sessions.

use std::path::{Path, PathBuf};

use super::super::input::Edit;
use super::super::picker::Picker;
use super::*;
use tandem_agent::session::{Head, Holder, Listed, Shares};
use tandem_agent::sessions::SearchHit;

const PROJECT_PATH: &str = "/home/me/src/project";
const MINUTE_MS: Millis = 60_000;

fn listed(id: &str, title: &str, turns: u64, directory: &str, changed: Millis) -> Listed {
    let head = Head {
        id: id.to_owned(),
        created: 0,
        directory: PathBuf::from(directory),
        title: title.to_owned(),
        by: String::new(),
        served: false,
        owner: None,
        context: None,
        from: None,
        git: None,
        tag: None,
    };
    let shares = Shares::new();
    let title = title.to_owned();
    Listed { head, title, turns, changed, shares, held_by: None }
}

/// Returns the sessions of this directory, or of all directories.
fn sessions(all: bool, now: Millis) -> Vec<Listed> {
    let here = |id, title, turns, age| listed(id, title, turns, PROJECT_PATH, now - age);
    let mut sessions = vec![
        here("0", "what is on the screen", 3, 0),
        here("1", "Why does the parser lose the last line of a file?", 1, 5 * MINUTE_MS),
        here("2", "refactor\x1b[2J the lexer", 12, 26 * 60 * MINUTE_MS),
    ];
    if all {
        let other = "/home/me/src/other";
        sessions.insert(2, listed("3", "release notes", 4, other, now - 3 * 60 * MINUTE_MS));
    }
    sessions
}

fn picking(stage: Stage) -> Stage {
    let mut stage = stage;
    let mut picker = Picker::new(Path::new(PROJECT_PATH), Some("0".to_owned()), "");
    let query = picker.first_query();
    assert!(!picker.read(&query, Ok(sessions(false, stage.now))));
    stage.state.picker = Some(picker);
    stage
}

fn picker(stage: &mut Stage) -> &mut Picker {
    stage.state.picker.as_mut().unwrap()
}

fn ids(stage: &mut Stage) -> Vec<String> {
    picker(stage).fitting().map(|listed| listed.head.id.clone()).collect()
}

#[test]
fn the_sessions_of_this_directory_are_offered() {
    picking(Stage::new()).check("sessions.txt");
}

#[test]
fn a_session_that_is_open_elsewhere_is_marked_with_the_way_to_it() {
    let mut stage = picking(Stage::new());
    let query = picker(&mut stage).query();
    let mut open = sessions(false, stage.now);
    open[1].held_by = Some(Holder { pid: 7, port: Some(41242), node: None });
    open[2].held_by = Some(Holder { pid: 8, port: None, node: None });
    picker(&mut stage).read(&query, Ok(open));
    stage.check("sessions_open.txt");
    picker(&mut stage).select(true);
    stage.check("sessions_open_alone.txt");
}

#[test]
fn the_sessions_of_all_directories_are_offered_and_filtered() {
    let mut stage = picking(Stage::new());
    picker(&mut stage).change_scope();
    assert_eq!(picker(&mut stage).count(), None);
    let late = Picker::new(Path::new(PROJECT_PATH), None, "").first_query();
    // The list belongs to an earlier query, so the picker does not show it.
    picker(&mut stage).read(&late, Ok(Vec::new()));
    assert_eq!(picker(&mut stage).count(), None);
    let (query, now) = (picker(&mut stage).query(), stage.now);
    picker(&mut stage).read(&query, Ok(sessions(true, now)));
    picker(&mut stage).select(true);
    stage.check("sessions_all.txt");
    for (typed, expected) in [("RE", &["3", "2"][..]), (" other", &["3"]), (" fac", &[])] {
        picker(&mut stage).edit(&Edit::Insert(typed.to_owned()));
        assert_eq!(ids(&mut stage), expected, "{typed}");
    }
    assert_eq!(picker(&mut stage).marked(), None);
    picker(&mut stage).failure = Some("Not opened: there is no session `3`.".to_owned());
    stage.check("sessions_none.txt");
}

#[test]
fn what_was_marked_stays_marked_when_all_are_read() {
    let mut stage = picking(Stage::new());
    picker(&mut stage).select(true);
    let query = picker(&mut stage).query();
    let mut more = sessions(false, stage.now);
    more.insert(0, listed("9", "newer", 1, PROJECT_PATH, stage.now));
    picker(&mut stage).read(&query, Ok(more));
    assert_eq!(picker(&mut stage).marked().unwrap().head.id, "2");
    picker(&mut stage).select(true);
    assert_eq!(picker(&mut stage).marked().unwrap().head.id, "2");
}

#[test]
fn a_low_terminal_shows_the_marked_session() {
    let mut stage = picking(Stage::new().sized(40, 8));
    picker(&mut stage).select(true);
    stage.check("sessions_low.txt");
}

#[test]
fn what_was_said_is_searched() {
    let mut stage = picking(Stage::new());
    assert_eq!(picker(&mut stage).begin_search(), None, "nothing is typed");
    picker(&mut stage).edit(&Edit::Insert("token stream".to_owned()));
    assert_eq!(picker(&mut stage).begin_search().unwrap(), "token stream");
    let hit = |listed: Listed| {
        let line = "The token stream ends\x1b[2J too early.".to_owned();
        SearchHit { listed, number: 1, line }
    };
    let mut hits: Vec<_> = sessions(false, stage.now).into_iter().map(hit).collect();
    hits[1].listed.head.tag = Some("before the lexer".to_owned());
    picker(&mut stage).set_search_results("another", Ok(Vec::new()));
    assert_eq!(picker(&mut stage).hits(), None, "what was asked for before comes too late");
    picker(&mut stage).set_search_results("token stream", Ok(hits));
    picker(&mut stage).select(true);
    stage.check("sessions_found.txt");
    assert_eq!(picker(&mut stage).marked().unwrap().head.id, "2");
    picker(&mut stage).edit(&Edit::Backspace);
    assert_eq!(ids(&mut stage), [""; 0], "the titles are filtered again");
}

#[test]
fn sessions_are_offered_before_there_is_one() {
    let mut stage = Stage::new();
    let mut picker = Picker::new(Path::new(PROJECT_PATH), None, "");
    let query = picker.first_query();
    picker.read(&query, Ok(sessions(false, stage.now)));
    stage.state.picker = Some(picker);
    stage.check("sessions_first.txt");
    let picker = stage.state.picker.as_mut().unwrap();
    picker.read(&query, Ok(Vec::new()));
    stage.check("sessions_first_none.txt");
}
