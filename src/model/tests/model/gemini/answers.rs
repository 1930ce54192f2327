//! Recorded streams, which give the same chunks however they are cut.

use super::*;
use crate::api::plays_however_cut;

const SIGNATURE: &str = "AY89a18iOcFus5wr5bW5xN6zZ4aUiCyhgmg6HE2YjtYDV/dwZ5oZlZHeTmiUKv34qq0=";

async fn check(name: &str, expected: &[&str]) {
    let model = |server: &Server| gemini(server, options());
    plays_however_cut(&format!("gemini/{name}.sse"), model, expected).await;
}

#[tokio::test]
async fn text_is_streamed() {
    let text = "text: Hello, wörld 🦀.\n\n```rust\nfn main() {}\n```\n\u{2028}done";
    check("text", &[text, "finish: Stop 12/0/22/0"]).await;
    check("crlf", &["text: one two", "finish: Stop 5/0/2/0"]).await;
    check("comments", &["text: one two", "finish: Stop 5/0/2/0"]).await;
}

#[tokio::test]
async fn a_count_of_the_wrong_type_costs_the_count_and_not_the_answer() {
    check("odd-counts", &["text: one two", "finish: Stop 0/0/2/0"]).await;
}

#[tokio::test]
async fn a_signature_on_an_empty_text_is_kept() {
    let native = format!(r#"native: {{"text":"","thoughtSignature":"{SIGNATURE}"}}"#);
    let text = "Hello! How can I help you today?";
    let (shown, kept) = (format!("text: {text}"), format!(r#"native: {{"text":"{text}"}}"#));
    check("text-signed", &[&shown, "finish: Stop 9/0/9/31", &kept, &native]).await;
}

#[tokio::test]
async fn thoughts_are_shown_and_kept_only_for_their_signatures() {
    let thoughts = "thought: **Reading the request**\n\nThe user wants a greeting.\
                    **Answering**\n\nI will greet them.";
    check("thoughts", &[thoughts, "text: Good morning.", "finish: Stop 20/16/3/85"]).await;
    let signed = format!(r#"{{"text":"","thought":true,"thoughtSignature":"{SIGNATURE}"}}"#);
    check(
        "signed-thought",
        &[
            "thought: **Weighing options**\n\nOne is better.",
            "text: Take the first.",
            "finish: Stop 30/0/4/9",
            &format!("native: {signed}"),
            r#"native: {"text":"Take the first."}"#,
        ],
    )
    .await;
}

#[tokio::test]
async fn calls_come_whole_and_in_order() {
    let first = r#"{"file_path":"src/main.rs","offset":1}"#;
    let (second, third) = (r#"{"file_path":"src/lib.rs"}"#, r#"{"pattern":"**/*.rs"}"#);
    let native = |id: &str, name: &str, args: &str| {
        format!(r#"native: {{"functionCall":{{"id":"{id}","name":"{name}","args":{args}}}"#)
    };
    check(
        "parallel-calls",
        &[
            "thought: **Looking around**\n\nTwo files matter.",
            "text: I'll read both files.",
            &format!("call: read_file({first}) 8f2kq1"),
            &format!("call: read_file({second}) 8f2kq2"),
            &format!("call: glob({third}) 8f2kq3"),
            "finish: Stop 300/0/70/60",
            r#"native: {"text":"I'll read both files."}"#,
            &format!(
                r#"{},"thoughtSignature":"{SIGNATURE}"}}"#,
                native("8f2kq1", "read_file", first)
            ),
            &format!("{}}}", native("8f2kq2", "read_file", second)),
            &format!("{}}}", native("8f2kq3", "glob", third)),
        ],
    )
    .await;
    let call = r#"{"command":"cargo test","timeout":1.5}"#;
    check(
        "step",
        &[
            &format!("call: run_shell_command({call}) made"),
            "finish: Stop 420/0/15/10",
            &format!(
                "native: {{\"functionCall\":{{\"name\":\"run_shell_command\",\"args\":{call}}},\
                 \"thoughtSignature\":\"U1RFUDI=\"}}"
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn calls_are_made_although_there_were_too_many() {
    let call = r#"{"id":"a","name":"glob","args":{"pattern":"*"}}"#;
    check(
        "too-many-calls",
        &[
            r#"call: glob({"pattern":"*"}) a"#,
            "finish: Stop 10/0/9/0",
            &format!(r#"native: {{"functionCall":{call},"thoughtSignature":"{SIGNATURE}"}}"#),
            "native: {\"text\":\"[Too many calls were made at once, and not all of them were \
             taken. Those that are still needed must be made again, fewer at a time.]\"}",
        ],
    )
    .await;
}

#[tokio::test]
async fn parts_that_are_not_known_are_kept_as_they_are() {
    check(
        "unknown-parts",
        &[
            "text: See above. And this.",
            "finish: Stop 10/0/5/0",
            "native: {\"hologram\":{\"mimeType\":\"model/x\",\"pixels\":[1,2.5,1e+300]},\
             \"thoughtSignature\":\"SE9MTw==\"}",
            r#"native: {"text":"See above."}"#,
            r#"native: {"text":" And this.","partMetadata":{"source":"x"}}"#,
        ],
    )
    .await;
    check(
        "media",
        &[
            "text: Here it is:",
            "finish: Stop 10/0/1290/0",
            r#"native: {"text":"Here it is:"}"#,
            r#"native: {"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}"#,
        ],
    )
    .await;
    check(
        "code",
        &[
            "text: It is 42.",
            "finish: Stop 10/0/15/0",
            r#"native: {"executableCode":{"language":"PYTHON","code":"print(6*7)\n"}}"#,
            r#"native: {"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"42\n"}}"#,
            r#"native: {"text":"It is 42."}"#,
        ],
    )
    .await;
    check("grounding", &["text: Rust 1.0 came in 2015.", "finish: Stop 10/0/8/0"]).await;
}

#[tokio::test]
async fn what_the_provider_stops_is_refused() {
    check(
        "safety",
        &[
            "text: First you take",
            "refused: The answer was stopped by the provider's safety filter (SAFETY): Blocked by \
             the filter. Rephrase the prompt. 15/0/3/0",
        ],
    )
    .await;
    check(
        "prompt-blocked",
        &["error: Refused(\"The prompt was blocked (PROHIBITED_CONTENT): The prompt could not be \
           submitted. Rephrase the prompt.\")"],
    )
    .await;
}

#[tokio::test]
async fn an_answer_at_the_output_limit_is_cut_or_an_error() {
    check("max-tokens", &["text: A very long story", "finish: MaxTokens 10/0/65536/0"]).await;
    check(
        "max-tokens-thoughts",
        &[
            "thought: **Thinking**\n\nOn and on.",
            "error: BadAnswer(\"The model reached its output limit before it said anything. \
             Compress the conversation with /compress, or ask for less thinking.\")",
        ],
    )
    .await;
}
