//! Commands that the user of an editor types.

use std::fs;

use expect_test::expect;
use serde_json::{Value, json};

use crate::agent::{Setup, text};

fn project() -> Setup {
    Setup::script(vec![
        json!({ "when": "Look around", "answers": [
            [{ "call": { "name": "write_file",
                         "args": { "file_path": "GEMINI.md", "content": "# It\n" } } }],
            [{ "text": "Written." }]
        ] }),
        json!({ "when": "", "answers": [[{ "text": "The model says so." }]] }),
    ])
}

#[tokio::test]
async fn a_command_is_answered_in_the_editor_and_so_is_an_unknown_one() {
    let mut agent = project().start();
    for (prompt, expected) in [
        ("/help memory", "- `/memory show`: the content that the model is told\n"),
        ("/nonsense", "Unknown command `/nonsense`."),
        ("exit", "`exit` is not sent to the model."),
        ("/etc/hosts: what is it?", "The model says so."),
    ] {
        let id = agent.prompt(prompt).await;
        let read = agent.until_answered(id, "allow").await;
        assert!(text(&read).starts_with(expected), "{prompt}: {}", text(&read));
        assert_eq!(read.last().unwrap()["result"], Value::Null);
    }
}

#[tokio::test]
async fn init_asks_the_editor_before_it_writes() {
    let mut agent = project().start();
    let id = agent.prompt("/init").await;
    let read = agent.until_answered(id, "allow").await;
    assert!(read.iter().any(|message| message["method"] == "requestToolCallConfirmation"));
    assert_eq!(text(&read), "Written.");
    assert_eq!(fs::read_to_string(agent.workspace().join("GEMINI.md")).unwrap(), "# It\n");
    let id = agent.prompt("/memory show").await;
    let read = agent.until_answered(id, "allow").await;
    assert!(text(&read).ends_with("GEMINI.md**\n\n# It"), "{}", text(&read));
}

#[tokio::test]
async fn commands_need_no_key_and_the_model_does() {
    let mut agent = Setup::default().arg("--model").arg("gemini-3.8-flash").start();
    let id = agent.prompt("/model set gemini-2.5-pro").await;
    let read = agent.until_answered(id, "allow").await;
    let home = agent.workspace().parent().unwrap().display().to_string();
    expect![[r#"
        The model is now `gemini-2.5-pro`.

        The model cannot answer yet: There is no Gemini API key. Set GEMINI_API_KEY in the environment, or run `tandem login` in a terminal, or put a line GEMINI_API_KEY=… into HOME/.gemini/.env. You get a key at https://aistudio.google.com/apikey. A key of Anthropic (ANTHROPIC_API_KEY) or OpenAI (OPENAI_API_KEY) works as well; a model of Ollama needs no key (`--model ollama:MODEL`)."#]].assert_eq(&text(&read).replace(&home, "HOME"));
    let id = agent.prompt("/model show").await;
    let said = text(&agent.until_answered(id, "allow").await);
    assert!(said.contains("- `gemini-2.5-pro` (this one)\n"), "{said}");
    let id = agent.prompt("hello").await;
    assert!(agent.until_answered(id, "allow").await[0]["error"].is_object());
    let id = agent.prompt("/init").await;
    assert!(agent.until_answered(id, "allow").await[0]["error"].is_object());
}

#[tokio::test]
async fn a_model_can_be_set_to_a_script_and_not_to_nonsense() {
    let mut agent =
        project().file("s.jsonl", "{\"when\":\"\",\"answers\":[[{\"text\":\"I play.\"}]]}").start();
    let script = agent.workspace().join("s.jsonl").display().to_string();
    for (prompt, expected) in [
        ("/model set x-9", "Unknown model `x-9`. Known models: `gemini-2.5-flash`"),
        ("/model set gpt-9", "Unknown model `gpt-9` for Gemini: use `openai:gpt-9`"),
        ("/model set nowhere:x", "Unknown provider `nowhere` in the model `nowhere:x`."),
        ("/model set gemini-3/../x", "Unknown model"),
        ("/model set replay:none", "cannot read the replay script none"),
        ("hello", "The model says so."),
        (&*format!("/model set replay:{script}"), "The model is now `replay:"),
        ("hello", "I play."),
    ] {
        let id = agent.prompt(prompt).await;
        let said = text(&agent.until_answered(id, "allow").await);
        assert!(said.starts_with(expected), "{prompt}: {said}");
    }
}

#[tokio::test]
async fn what_is_added_is_in_the_users_own_file() {
    let mut agent = project().start();
    let id = agent.prompt("/memory add I like tabs").await;
    let said = text(&agent.until_answered(id, "allow").await);
    assert!(said.starts_with("The text is added to `"), "{said}");
    let file = agent.workspace().join("../.gemini/GEMINI.md");
    assert_eq!(fs::read_to_string(file).unwrap(), "## Gemini Added Memories\n- I like tabs\n");
}
