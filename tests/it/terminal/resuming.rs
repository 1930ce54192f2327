//! Sessions that a user leaves and finds again.

use tandem_host::preimages::ContentId;

use super::*;

fn says(text: &str) -> Value {
    json!([[{ "text": text }]])
}

impl Terminal {
    /// Starts the agent again, with a script of one line.
    fn again(&self, answers: &Value, args: &str) {
        let script = json!({ "when": "", "answers": answers }).to_string();
        fs::write(self.home.path().join("script.jsonl"), script).unwrap();
        self.line("clear");
        let home = self.home.path().display();
        self.agent("", &format!("--model replay:{home}/script.jsonl {args}"));
        self.until(HINT);
    }

    /// Returns the number of stored sessions.
    fn stored(&self) -> usize {
        let sessions = self.home.path().join(".local/share/tandem/sessions");
        fs::read_dir(sessions).map_or(0, Iterator::count)
    }

    /// Has a prompt answered, and quits.
    fn ask_and_quit(&self, prompt: &str, answer: &str) {
        self.line(prompt);
        self.until(answer);
        self.wait("the end", |seen| seen.contains(HINT));
        self.keys(&["C-d"]);
        self.check_given_back();
    }
}

#[test]
fn a_killed_turn_is_shown_as_interrupted_and_enter_goes_on() {
    let hangs = json!([[{ "text": "Half of it.\n\nMore" }, { "hang": null }]]);
    let Some(terminal) = Terminal::start(hangs, "") else { return };
    terminal.line("tell me");
    terminal.until("Half of it.");
    terminal.signal("KILL");
    terminal.until("Killed");
    // The killed agent has left the terminal in its own mode, in which Enter ends no line.
    terminal.text("stty sane; echo $((6 * 7))");
    terminal.keys(&["C-j"]);
    terminal.until("42");
    terminal.line("clear");
    terminal.wait("the shell", |seen| seen.trim() == "ready>");
    terminal.again(&says("All of it."), "-c");
    let seen = terminal.until("Interrupted: the agent ended before this turn did.");
    assert!(seen.contains("› tell me") && seen.contains("Half of it."), "{seen}");
    terminal.until("Enter goes on;");
    terminal.keys(&["Enter"]);
    let seen = terminal.until("All of it.");
    assert!(!seen.contains("Enter goes on;"), "{seen}");
}

#[test]
fn another_session_is_found_by_its_title_and_shown() {
    let Some(terminal) = Terminal::start(says("Apples it is."), "") else { return };
    terminal.ask_and_quit("about apples", "Apples it is.");
    terminal.again(&says("Plums it is."), "");
    terminal.ask_and_quit("about plums", "Plums it is.");
    terminal.again(&says("Pears it is."), "");
    terminal.line("about pears");
    terminal.until("Pears it is.");
    terminal.line("/rename Fruit of a tree");
    terminal.until("The session's title is now: Fruit of a tree");
    terminal.line("/resume");
    let seen = terminal.until("2 sessions");
    assert!(seen.contains("  about apples") && seen.contains("› about plums"), "{seen}");
    terminal.text("apples");
    let seen = terminal.until("1 of 2 sessions");
    assert!(seen.contains("› about apples"), "{seen}");
    terminal.keys(&["Enter"]);
    terminal.until("Apples it is.");
    terminal.line("/resume fruit");
    let seen = terminal.until("1 of 2 sessions");
    assert!(seen.contains("› Fruit of a tree"), "{seen}");
    terminal.keys(&["Escape"]);
    terminal.wait("the line to type in", |seen| !seen.contains("1 of 2 sessions"));
    // The next prompt belongs to the session that was opened.
    terminal.ask_and_quit("more", "Pears it is.");
    terminal.again(&says("Hello."), "-c");
    terminal.until("Apples it is.");
}

#[test]
fn a_session_that_is_open_elsewhere_stays_there() {
    let Some(terminal) = Terminal::start(says("Apples it is."), "") else { return };
    let Some(other) = Terminal::start(says("Pears it is."), "") else { return };
    terminal.line("about apples");
    terminal.until("Apples it is.");
    other.keys(&["C-d"]);
    other.check_given_back();
    let sessions = terminal.home.path().join(".local/share/tandem/sessions");
    let script = other.home.path().join("script.jsonl");
    let vars = format!("TANDEM_SESSIONS={}", sessions.display());
    other.agent(&vars, &format!("--model replay:{}", script.display()));
    other.until(HINT);
    other.line("/resume");
    other.until("There is no other session.");
    other.keys(&["Tab"]);
    other.until("› [open] about apples");
    other.until("This session is open in process");
    other.keys(&["Enter"]);
    other.until("Not opened: the session is open in process");
    other.keys(&["Escape"]);
    other.until(HINT);
    other.line("about pears");
    other.until("Pears it is.");
}

#[test]
fn a_checkpoint_is_found_from_a_session_of_another_directory() {
    let Some(terminal) = Terminal::start(says("Apples it is."), "") else { return };
    terminal.line("about apples");
    terminal.until("Apples it is.");
    terminal.line("/chat save fruit");
    terminal.until("The conversation is saved as fruit.");
    terminal.line("/rename Original");
    terminal.until("The session's title is now: Original");
    terminal.keys(&["C-d"]);
    terminal.check_given_back();
    terminal.line("cd ..");
    terminal.again(&says("Hello."), "-r Original");
    terminal.line("/chat resume fruit");
    terminal.wait("the copy", |seen| seen.matches("› about apples").count() == 2);
}

#[test]
fn a_session_is_chosen_before_there_is_one() {
    let Some(terminal) = Terminal::start(says("Apples it is."), "") else { return };
    terminal.ask_and_quit("about apples", "Apples it is.");
    terminal.again(&says("Plums it is."), "");
    terminal.ask_and_quit("about plums", "Plums it is.");
    let home = terminal.home.path().display();
    let pick = || {
        terminal.line("clear");
        terminal.agent("", &format!("--model replay:{home}/script.jsonl -r"));
        terminal.until("2 sessions")
    };
    let seen = pick();
    assert!(seen.contains("› about plums") && seen.contains("  about apples"), "{seen}");
    assert!(!seen.contains(HINT), "{seen}");
    // The search covers prompts and answers, not only titles.
    terminal.text("APPLES IT IS.");
    terminal.until("No session has these words in its title");
    terminal.keys(&["C-r"]);
    let seen = terminal.until("  Apples it is.");
    assert!(seen.contains("› about apples") && !seen.contains("about plums"), "{seen}");
    terminal.keys(&["Enter"]);
    terminal.until(HINT);
    terminal.until("Apples it is.");
    terminal.keys(&["C-d"]);
    terminal.check_given_back();
    pick();
    terminal.keys(&["C-c"]);
    terminal.check_given_back();
    pick();
    terminal.keys(&["Escape"]);
    let seen = terminal.until(HINT);
    assert!(!seen.contains("it is."), "{seen}");
    terminal.ask_and_quit("new", "Plums it is.");
    assert_eq!(terminal.stored(), 3);
}

#[test]
fn a_fork_is_gone_over_to_and_the_original_stays() {
    let Some(terminal) = Terminal::start(says("Apples it is."), "") else { return };
    terminal.line("/fork");
    terminal.until("this session stays open: nothing has been said yet");
    terminal.keys(&["C-u"]);
    terminal.line("about apples");
    terminal.until("Apples it is.");
    terminal.line("/fork");
    terminal.wait("the copy", |seen| seen.matches("Apples it is.").count() == 2);
    terminal.until(HINT);
    terminal.ask_and_quit("in the copy", "Apples it is.");
    assert_eq!(terminal.stored(), 2);
    terminal.again(&says("Hello."), "-r 2");
    let seen = terminal.until("Apples it is.");
    assert!(!seen.contains("in the copy") && !seen.contains("/fork"), "{seen}");
}

#[test]
fn a_checkpoint_is_gone_over_to_as_it_was() {
    let Some(terminal) = Terminal::start(says("Apples it is."), "") else { return };
    terminal.line("about apples");
    terminal.until("Apples it is.");
    terminal.line("/chat save fruit");
    terminal.until("The conversation is saved as fruit.");
    terminal.line("about plums");
    terminal.until("about plums");
    terminal.wait("the end", |seen| seen.contains(HINT));
    terminal.line("/chat resume nuts");
    terminal.until("there is no checkpoint `nuts` here");
    terminal.keys(&["C-u"]);
    terminal.line("/chat resume fruit");
    terminal.wait("the copy", |seen| seen.matches("› about apples").count() == 2);
    terminal.line("/resume");
    let seen = terminal.until("2 sessions");
    assert!(seen.contains("[fruit] about apples"), "{seen}");
    terminal.keys(&["Escape"]);
    terminal.until(HINT);
    terminal.line("/chat list");
    terminal.until("fruit: 1 turn, about apples");
}

#[test]
fn sessions_of_gemini_cli_are_offered_and_go_on_when_they_are_imported() {
    let Some(terminal) = Terminal::open() else { return };
    let project = fs::canonicalize(terminal.home.path()).unwrap().join("project");
    let hash = ContentId::hash(project.to_str().unwrap().as_bytes());
    let chats = terminal.home.path().join(".gemini/tmp").join(hash.sha256()).join("chats");
    fs::create_dir_all(&chats).unwrap();
    fs::write(chats.join("session-x.json"), include_str!("../../../fixtures/gemini_cli/0.9.json"))
        .unwrap();
    terminal.again(&says("Apples it is."), "");
    terminal.until("Gemini CLI has sessions of this directory: `tandem sessions import`");
    terminal.keys(&["C-d"]);
    terminal.check_given_back();
    terminal.agent("", "sessions import");
    terminal.until("Sessions of Gemini CLI: 1 imported.");
    terminal.again(&says("Apples it is."), "");
    terminal.line("/resume");
    let seen = terminal.until("1 session");
    assert!(seen.contains("› Where is the parser"), "{seen}");
    terminal.keys(&["Enter"]);
    let seen = terminal.until("This conversation was begun in Gemini CLI");
    assert!(seen.contains("› Rename it") && seen.contains("src/parser.rs"), "{seen}");
    terminal.ask_and_quit("more", "Apples it is.");
}
