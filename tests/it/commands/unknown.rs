//! Prompts that look like commands and are none: answered, and not sent to a model.

use tandem_agent::commands::unknown;

use super::*;

/// The answer to a prompt for which there is no command.
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

/// The answer to an unknown command, with or without a similar one.
async fn check_unknown(prompt: &str, similar: Option<&str>) {
    let name = prompt.split_whitespace().next().unwrap();
    let similar = similar.map(|it| format!(" Did you mean `{it}`?")).unwrap_or_default();
    let expected = format!("Unknown command `{name}`.{similar} {}", unknown::HINT);
    check(prompt, &expected).await;
}

#[tokio::test]
async fn a_command_that_is_not_there_is_answered_with_the_one_like_it() {
    for (prompt, similar) in [
        ("/compres", Some("/compress")),
        ("/compres  all of it\nand more", Some("/compress")),
        ("/hlep", Some("/help")),
        ("/Help", Some("/help")),
        ("/helpful", Some("/help")),
        ("/stat", Some("/stats")),
        ("/?", Some("/help")),
        ("/bashes", Some("/shells")),
        ("/policies", Some("/permissions list")),
        ("/unknown command", None),
        ("/git:comit", None),
    ] {
        check_unknown(prompt, similar).await;
    }
}

#[tokio::test]
async fn a_word_that_would_leave_is_answered_with_how_to() {
    for prompt in ["exit", "quit", ":q", " exit\n", "/quit", "/exit"] {
        let word = prompt.trim();
        check(prompt, &format!("`{word}` is not sent to the model. {}", unknown::LEAVING)).await;
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
