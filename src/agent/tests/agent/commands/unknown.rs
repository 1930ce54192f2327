//! Prompts that look like commands and are no commands: they are answered, and no model gets them.

use std::sync::atomic::{AtomicUsize, Ordering};

use tandem_agent::commands::{
    CommandDirectory, CommandOwner, Custom, CustomLimits, Registry, unknown,
};

use super::*;

/// Checks the answer to a prompt for which there is no command.
async fn check(prompt: &str, expected: &str) {
    let stage = Stage::new(vec![]);
    let events = stage.turn(prompt).await;
    let [command, failed, end] = &events[..] else { panic!("{prompt}: {events:?}") };
    assert!(matches!(**command, Event::CommandStarted { .. }), "{prompt}: {events:?}");
    let Event::CommandFailed(why) = &**failed else { panic!("{prompt}: {events:?}") };
    assert_eq!(why, expected, "{prompt}");
    assert_eq!(reason(end), StopReason::EndTurn);
    assert!(stage.told().is_empty(), "{prompt}");
    assert!(!stage.session.needs_model(&text(prompt)), "{prompt}");
    assert!(!stage.session.is_command(&text(prompt)), "{prompt}");
}

/// Checks the answer to an unknown command, with or without a sentence on the command that is meant.
async fn check_unknown(prompt: &str, similar: &str) {
    let name = prompt.split_whitespace().next().unwrap();
    check(prompt, &format!("Unknown command `{name}`.{similar} {}", unknown::HELP_HINT)).await;
}

#[tokio::test]
async fn a_command_that_is_not_there_is_answered_with_the_one_like_it() {
    for (prompt, similar) in [
        ("/compres", "/compress"),
        ("/compres  all of it\nand more", "/compress"),
        ("/hlep", "/help"),
        ("/Help", "/help"),
        ("/helpful", "/help"),
        ("/stat", "/stats"),
    ] {
        check_unknown(prompt, &format!(" Did you mean `{similar}`?")).await;
    }
    check_unknown("/unknown command", "").await;
    check_unknown("/git:comit", "").await;
}

#[tokio::test]
async fn a_command_of_another_agent_is_answered_with_the_one_here() {
    for (prompt, similar) in [
        ("/?", "/help"),
        ("/bashes", "/shells"),
        ("/policies", "/permissions list"),
        ("/compact", "/compress"),
        ("/cost", "/stats"),
    ] {
        check_unknown(prompt, &format!(" Did you mean `{similar}`?")).await;
    }
    let undo =
        " `/restore` takes back changes of files, and `/rewind` goes back to before a prompt.";
    check_unknown("/undo", undo).await;
    check_unknown("/undo that", undo).await;
}

#[tokio::test]
async fn a_word_that_would_leave_is_answered_with_how_to() {
    for prompt in ["exit", "quit", ":q", " exit\n", "/quit", "/exit"] {
        let word = prompt.trim();
        check(prompt, &format!("`{word}` is not sent to the model. {}", unknown::QUIT_HINT)).await;
    }
}

#[tokio::test]
async fn a_path_a_comment_and_a_sentence_are_prompts() {
    let prompts = [
        "/etc/passwd is a file",
        "/etc is a directory",
        "/tmp",
        "//help",
        "// comment",
        "/* comment */",
        "/ help",
        "/",
        "/v1.2/users answers 404",
        "/main.rs does not compile",
        "see /help",
        "exit the loop early",
        "how do I quit?",
        "/größe",
    ];
    let stage = Stage::new(prompts.iter().map(|_| says("hm")).collect());
    for prompt in prompts {
        stage.turn(prompt).await;
        assert_eq!(stage.told().last().unwrap(), &format!("user: {prompt}"));
    }
    let parts = [PromptPart::Path("x".to_owned()), PromptPart::Text("/help".to_owned())];
    assert!(!stage.session.is_command(&parts) && stage.session.is_command(&text("/help")));
}

/// Returns how often a prompt's turn searches the directories of commands.
async fn looks(prompt: &str) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let stage = Stage::with(vec![says("heard")], |parts| {
        let count = Arc::clone(&count);
        let home = parts.host.workspace.roots()[0].join("commands");
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("own.toml"), "prompt = \"say something\"").unwrap();
        let places = move || {
            count.fetch_add(1, Ordering::Relaxed);
            vec![CommandDirectory { dir: home.clone(), owner: CommandOwner::User }]
        };
        let custom = Custom::new(places, CustomLimits::default());
        Parts { commands: Arc::new(Registry::with(Arc::new(custom))), ..parts }
    });
    stage.turn(prompt).await;
    count.load(Ordering::Relaxed)
}

#[tokio::test]
async fn the_files_of_commands_are_looked_for_once_a_prompt_and_only_if_it_may_name_one() {
    for (prompt, expected) in
        [("/mistyped", 1), ("/own", 1), ("/help", 1), ("/about", 0), ("hello", 0), ("quit", 0)]
    {
        assert_eq!(looks(prompt).await, expected, "{prompt}");
    }
}
