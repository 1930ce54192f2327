//! Thinking levels, sent as each generation of models wants them.

use super::*;

/// Returns the thinking and effort fields of a request at a level.
async fn said(id: &str, level: Option<&str>) -> Value {
    let server = Server::start(vec![says("ok")]).await;
    let options = RequestOptions { thinking: level.map(str::to_owned), ..options() };
    ask(&of_model(id, endpoint(&server), options), prompt(vec![user("hi")])).await;
    let body = server.asked().pop().unwrap().body;
    json!([body.get("thinking"), body.get("output_config"), body["max_tokens"]])
}

fn adaptive() -> Value {
    json!({ "type": "adaptive", "display": "summarized" })
}

fn budget(tokens: u64) -> Value {
    json!({ "type": "enabled", "budget_tokens": tokens })
}

#[tokio::test]
async fn newer_models_think_as_much_as_they_find_right_with_an_effort() {
    for id in ["claude-opus-5-5", "claude-fable-5-1", "claude-opus-4-7", "claude-opus-9"] {
        assert_eq!(said(id, None).await, json!([adaptive(), null, 128_000]), "{id}");
        let high = json!([adaptive(), { "effort": "xhigh" }, 128_000]);
        assert_eq!(said(id, Some("XHigh")).await, high, "{id}");
    }
    let off = json!([{ "type": "disabled" }, null, 128_000]);
    assert_eq!(said("claude-sonnet-5-5", Some("off")).await, off);
}

#[tokio::test]
async fn older_models_think_within_a_budget() {
    assert_eq!(said("claude-sonnet-4-5", None).await, json!([budget(8192), null, 64_000]));
    assert_eq!(said("claude-haiku-4-5-20251001", Some("low")).await[0], budget(2048));
    assert_eq!(
        said("claude-opus-4-1-20250805", Some("5000")).await,
        json!([budget(5000), null, 32_000])
    );
    assert_eq!(said("claude-opus-4-5", Some("off")).await[0], json!({ "type": "disabled" }));
}

#[tokio::test]
async fn nothing_is_said_of_thinking_to_models_that_cannot_or_are_not_known() {
    assert_eq!(said("claude-3-5-haiku-20241022", None).await, json!([null, null, 8192]));
    assert_eq!(said("qwen3-coder", None).await, json!([null, null, 8192]));
}

#[tokio::test]
async fn a_level_that_the_model_refuses_is_refused_here() {
    for (id, level, said) in [
        (
            "claude-opus-5-5",
            "off",
            "Unknown thinking level `off` for `claude-opus-5-5`. Known levels: LOW",
        ),
        ("claude-opus-5-5", "8000", "Unknown thinking level `8000`"),
        ("claude-opus-4-6", "xhigh", "Unknown thinking level `xhigh`"),
        ("claude-sonnet-4-5", "500", "must be from 1024 to 63999 tokens, or 0"),
        ("claude-sonnet-4-5", "64000", "must be from 1024 to 63999 tokens, or 0"),
        ("qwen3-coder", "high", "No thinking levels are known"),
    ] {
        let connect: Connect = Arc::new(|| Err(Error::NotAuthenticated(String::new())));
        let options = RequestOptions { thinking: Some(level.to_owned()), ..options() };
        let model = Catalog::embedded().lookup(&format!("anthropic:{id}"));
        let error = Anthropic::new(model, connect, options).err().unwrap().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[tokio::test]
async fn a_budget_leaves_room_for_the_answer() {
    let message = "max_tokens: 64000 > 4096, which is the maximum";
    let error = format!(r#"{{"error":{{"type":"invalid_request_error","message":"{message}"}}}}"#);
    let server = Server::start(vec![Reply::error(400, error), says("ok")]).await;
    ask(&of_model("claude-sonnet-4-5", endpoint(&server), options()), prompt(vec![user("hi")]))
        .await;
    assert_eq!(server.asked()[1].body["thinking"], budget(3072));
}

#[tokio::test]
async fn thinking_that_a_gateway_refuses_is_left_out_from_then_on() {
    for (field, message) in [
        ("thinking", "thinking: Extra inputs are not permitted"),
        ("thinking", "Unknown parameter: thinking"),
        ("thinking", "adaptive thinking is not supported on this model"),
        ("output_config", "output_config: Extra inputs are not permitted"),
    ] {
        let error = json!({ "type": "error", "error": { "type": "invalid_request_error",
            "message": message } });
        let replies = vec![Reply::error(400, error.to_string()), says("one"), says("two")];
        let server = Server::start(replies).await;
        let options = RequestOptions { thinking: Some("high".to_owned()), ..options() };
        let model = of_model("claude-opus-5-5", endpoint(&server), options);
        for _ in 0..2 {
            ask(&model, prompt(vec![user("hi")])).await;
        }
        let sent: Vec<_> =
            server.asked().iter().map(|asked| asked.body.get(field).is_some()).collect();
        assert_eq!(sent, [true, false, false], "{message}");
    }
}
