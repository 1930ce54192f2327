//! Recorded streams, which give the same chunks however they are cut.

use expect_test::expect;
use tandem_model::Usage;

use super::*;
use crate::api::{ask_for_all, assert_lines, plays_however_cut};

const SIGNATURE: &str = "EsECCokBCBAYAipA9i3HF1aHpQITkdN8OvLd33gdPZEyLKJA9EvxTXumYzG5xg==";

async fn check(name: &str, expected: &[&str]) {
    let model = |server: &Server| anthropic(server, options());
    plays_however_cut(&format!("anthropic/{name}.sse"), model, expected).await;
}

#[tokio::test]
async fn text_is_streamed_and_pings_say_nothing() {
    let text = "text: Hello, wörld 🦀.\n\n```rust\nfn main() {}\n```\n\u{2028}done";
    check("text", &[text, "finish: Stop 12/0/22/0"]).await;
}

#[tokio::test]
async fn events_blocks_and_deltas_that_are_not_known_are_ignored() {
    let kept = r#"native: {"type":"text","text":"one two"}"#;
    check("unknown", &["text: one two", "finish: Stop 12/0/2/0", kept]).await;
}

#[tokio::test]
async fn a_count_of_the_wrong_type_costs_the_count_and_not_the_answer() {
    check("odd-counts", &["text: one two", "finish: Stop 0/0/2/0"]).await;
}

#[tokio::test]
async fn thinking_is_kept_with_its_signature_and_what_is_redacted_as_it_came() {
    check(
        "thinking",
        &[
            "thought: The user wants a greeting.",
            "text: Good morning.",
            "finish: Stop 2340/2000/11/62",
            &format!(
                "native: {{\"type\":\"thinking\",\"thinking\":\"The user wants a \
                 greeting.\",\"signature\":\"{SIGNATURE}\"}}"
            ),
            "native: {\"type\":\"redacted_thinking\",\"data\":\
             \"EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIw\"}",
            r#"native: {"type":"text","text":"Good morning."}"#,
        ],
    )
    .await;
}

#[tokio::test]
async fn calls_are_put_together_and_one_without_arguments_has_none() {
    let call = |id: &str, name: &str, input: &str| {
        format!(r#"native: {{"type":"tool_use","id":"{id}","name":"{name}","input":{input}}}"#)
    };
    let (first, second) =
        (r#"{"file_path":"src/main.rs","offset":1}"#, r#"{"file_path":"src/lib.rs"}"#);
    check(
        "calls",
        &[
            "thought: Two files matter.",
            "text: I'll read both.",
            &format!("call: read_file({first}) toolu_01A"),
            &format!("call: read_file({second}) toolu_01B"),
            "call: list({}) toolu_01C",
            "finish: Stop 12/0/80/0",
            &format!(
                "native: {{\"type\":\"thinking\",\"thinking\":\"Two files matter.\",\
                 \"signature\":\"{SIGNATURE}\"}}"
            ),
            r#"native: {"type":"text","text":"I'll read both."}"#,
            &call("toolu_01A", "read_file", first),
            &call("toolu_01B", "read_file", second),
            &call("toolu_01C", "list", "{}"),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_answer_at_the_output_limit_is_cut_and_half_a_call_is_not_made() {
    check("cut-in-text", &["text: As far as", "finish: MaxTokens 12/0/9/0"]).await;
    let kept = r#"native: {"type":"text","text":"Writing."}"#;
    check("cut-in-call", &["text: Writing.", "finish: MaxTokens 12/0/9/0", kept]).await;
    let (lines, _) = play(vec![recorded("cut-in-only-call")]).await;
    expect![[r#"error: BadAnswer("The model reached its output limit within a call, which was not made. Ask for less at once.")"#]].assert_eq(&lines[0]);
    let (lines, _) = play(vec![recorded("cut-in-thinking")]).await;
    expect![[r#"error: BadAnswer("The model reached its output limit before it said anything. Compress the conversation with /compress, or ask for less thinking.")"#]].assert_eq(&lines[1]);
}

#[tokio::test]
async fn a_refusal_says_why_and_what_it_would_have_called_is_not_called() {
    check(
        "refusal",
        &[
            "text: First you",
            "refused: The provider refused to answer (cyber): This was blocked under \
             the usage policy. Rephrase the prompt. 18/0/5/0",
            r#"native: {"type":"text","text":"First you"}"#,
            r#"native: {"type":"tool_use","id":"toolu_04A","name":"glob","input":{}}"#,
        ],
    )
    .await;
}

#[tokio::test]
async fn what_the_server_has_ready_when_it_begins_counts() {
    let kept = r#"{"type":"tool_use","id":"toolu_06A","name":"glob","input":{"pattern":"*"}}"#;
    check(
        "prepared",
        &[
            "text: Ready.",
            r#"call: glob({"pattern":"*"}) toolu_06A"#,
            "finish: Stop 3/0/4/0",
            r#"native: {"type":"text","text":"Ready."}"#,
            &format!("native: {kept}"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let whole = r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],
        "stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":1}}"#;
    let reply = Reply::stream(whole).header("content-type", "application/json");
    let (lines, _) = play(vec![reply]).await;
    assert_lines(&lines, &["text: hi", "finish: Stop 5/0/1/0"]);
}

#[tokio::test]
async fn after_a_pause_the_answer_is_sent_back_as_it_is_and_goes_on() {
    let (lines, server) = play(vec![recorded("pause-1"), recorded("pause-2")]).await;
    let expected = "text: Looking it up. It is a language.";
    assert_eq!(lines[..2], [expected, "finish: Stop 240/0/40/0"], "{lines:?}");
    assert!(lines[5].contains(r#""citations":[{"type":"web_search_result_location""#), "{lines:?}");
    let [first, second] = &server.asked()[..] else { panic!("{:?}", server.asked()) };
    let messages = |body: &Value| body["messages"].as_array().unwrap().clone();
    let (before, after) = (messages(&first.body), messages(&second.body));
    assert_eq!(after[..1], before[..]);
    assert_eq!(after[1]["role"], "assistant");
    let kinds: Vec<_> =
        after[1]["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["text", "server_tool_use", "web_search_tool_result"]);
    assert_eq!(after[1]["content"][1]["input"]["query"], "rust");
    assert_eq!(after[1]["content"][2]["content"][0]["encrypted_content"], "Eo8B");
}

#[tokio::test]
async fn what_breaks_off_after_a_pause_begins_anew() {
    let (lines, server) = play(vec![recorded("pause-1"), recorded("no-stop"), says("ok")]).await;
    assert_lines(
        &lines,
        &[
            "text: Looking it up. half",
            "retry: the connection was lost, 2/4, discard",
            "text: ok",
            "finish: Stop 1/0/1/0",
        ],
    );
    assert_eq!(server.asked()[0].body, server.asked()[2].body);
}

#[tokio::test]
async fn an_answer_that_never_ends_is_given_up() {
    let (lines, server) = play((0..99).map(|_| recorded("pause-1")).collect()).await;
    expect![[r#"error: BadAnswer("The model's answer did not end within 64 requests, and was dropped. Ask for less at once, or try another model.")"#]]
    .assert_eq(lines.last().unwrap());
    assert_eq!(server.asked().len(), 64);
}

#[tokio::test]
async fn a_full_window_is_a_conversation_that_is_too_long() {
    let (lines, _) = play(vec![recorded("window")]).await;
    assert!(lines[1].starts_with("error: ContextTooLong"), "{lines:?}");
}

#[tokio::test]
async fn an_answer_that_is_worth_nothing_is_asked_for_again_with_a_word() {
    for (name, reason, word) in [
        ("empty", "empty answer", "was empty"),
        ("thoughts-only", "reasoning without an answer", "failed to give an answer"),
        ("malformed-call", "malformed tool call", "malformed"),
    ] {
        let (lines, server) = play(vec![recorded(name), says("ok")]).await;
        let retry = lines.iter().position(|line| line.starts_with("retry: ")).unwrap();
        assert!(lines[retry].starts_with(&format!("retry: {reason}, 2/4")), "{lines:?}");
        assert_eq!(lines[retry + 1], "text: ok");
        let told = server.asked()[1].body["messages"][0]["content"][1]["text"].to_string();
        assert!(told.contains(word), "{told}");
    }
}

#[tokio::test]
async fn what_is_written_into_the_cache_is_counted_apart() {
    let usage = json!({ "input_tokens": 10, "cache_creation_input_tokens": 200,
        "cache_read_input_tokens": 3000, "output_tokens": 7 });
    let message = json!({ "content": [{ "type": "text", "text": "ok" }], "usage": usage });
    let start = json!({ "type": "message_start", "message": message });
    let end = json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } });
    let reply = Reply::stream(format!("data: {start}\n\ndata: {end}\n\n"));
    let server = Server::start(vec![reply]).await;
    let (_, finish) = ask_for_all(&anthropic(&server, options()), prompt(vec![user("hi")])).await;
    let expected = Usage { input: 3210, cached: 3000, written: 200, output: 7, thoughts: 0 };
    assert_eq!(finish.unwrap().usage, expected);
}
