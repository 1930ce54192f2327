//! Screens of the menu of earlier prompts.

use super::super::rewind::{RewindChoice, RewindMenu};
use super::*;
use tandem_agent::session::TurnId;

/// Adds a turn that has ended, in which a call may have changed a file.
fn said(stage: Stage, turn: u64, prompt: &str, changed: Option<&str>) -> Stage {
    let queued = json!({ "turn": turn, "prompt": [{ "Text": prompt }], "origin": "Terminal" });
    let mut stage =
        stage.see(json!({ "TurnQueued": queued })).see(json!({ "TurnStarted": { "turn": turn } }));
    if let Some(path) = changed {
        let change = json!({
            "path": path,
            "before": "Nothing",
            "after": { "bytes": 1, "sha256": "00".repeat(32) },
        });
        let call = format!("c{turn}");
        stage = stage.see(json!({ "FileChanged": { "call": call, "change": change } }));
    }
    stage.see(json!({ "TurnFinished": { "turn": turn, "reason": "EndTurn" } })).wait(40 * 60 * 1000)
}

/// Returns a screen after some prompts, and after a command, which is no prompt.
fn prompts() -> Stage {
    let stage = said(Stage::new(), 1, "Why does the parser\nlose the last line?", None);
    let stage = said(stage, 2, "fix it\x1b[2J", Some("/p/parser.rs"));
    let queued = json!({ "turn": 3, "prompt": [{ "Text": "/stats" }], "origin": "Terminal" });
    let stage = stage
        .see(json!({ "TurnQueued": queued }))
        .see(json!({ "TurnStarted": { "turn": 3 } }))
        .see(json!({ "CommandStarted": { "name": "stats" } }))
        .see(json!({ "TurnFinished": { "turn": 3, "reason": "EndTurn" } }));
    said(stage, 4, "now the tests", Some("/p/tests.rs"))
}

fn offered(mut stage: Stage) -> Stage {
    stage.state.rewind = RewindMenu::new(stage.state.earlier.list());
    stage
}

fn menu(stage: &mut Stage) -> &mut RewindMenu {
    stage.state.rewind.as_mut().unwrap()
}

#[test]
fn the_earlier_prompts_are_offered() {
    offered(prompts()).check("rewind.txt");
}

#[test]
fn where_files_were_changed_it_is_chosen_what_goes_back() {
    let mut stage = offered(prompts());
    menu(&mut stage).select(true);
    assert_eq!(menu(&mut stage).enter(), None);
    stage.check("rewind_choice.txt");
    assert_eq!(menu(&mut stage).enter(), Some(RewindChoice::WithFiles));
    for expected in [RewindChoice::Conversation, RewindChoice::Nothing, RewindChoice::Nothing] {
        menu(&mut stage).select(true);
        assert_eq!(menu(&mut stage).enter(), Some(expected));
    }
}

#[test]
fn where_no_file_was_changed_nothing_is_asked() {
    let mut stage = offered(said(Stage::new(), 1, "hi", None));
    assert_eq!(menu(&mut stage).enter(), Some(RewindChoice::WithFiles));
}

#[test]
fn a_low_terminal_shows_the_marked_prompt() {
    let mut stage = offered(prompts().sized(40, 6));
    menu(&mut stage).select(true);
    menu(&mut stage).select(true);
    stage.check("rewind_low.txt");
}

#[test]
fn the_prompt_is_in_the_line_when_the_conversation_has_gone_back_to_it() {
    let mut stage = prompts();
    stage.state.rewinding = Some((TurnId(2), "fix it".to_owned()));
    let stage = stage.see(json!({ "Rewound": { "turn": 2 } }));
    assert_eq!(stage.state.input.text(), "fix it");
    let earlier: Vec<_> = stage.state.earlier.list().iter().map(|it| it.turn).collect();
    assert_eq!(earlier, [TurnId(1)]);
    // The user has typed since this terminal asked to go back, so the prompt of turn 1 does not replace that text. The
    // second event stands for a request of another front end: it puts no prompt into this terminal's input line.
    let mut stage = stage.typed("mine");
    stage.state.rewinding = Some((TurnId(1), "Why?".to_owned()));
    let stage = stage.see(json!({ "Rewound": { "turn": 1 } })).typed("");
    let stage = stage.see(json!({ "Rewound": { "turn": 1 } }));
    assert_eq!(stage.state.input.text(), "");
}
