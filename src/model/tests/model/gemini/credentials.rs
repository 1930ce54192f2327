//! Keys: the requests that have them, and the requests that must not.

use expect_test::expect;
use tandem_model::gemini::{check, models};

use super::*;

#[tokio::test]
async fn the_key_is_sent_in_one_header_and_not_in_the_address() {
    let headers = vec![("X-Team".to_owned(), "blue".to_owned())];
    for (bearer, name, value) in [
        (false, "x-goog-api-key", KEY.to_owned()),
        (true, "authorization", format!("Bearer {KEY}")),
    ] {
        let server = Server::start(vec![Reply::text("ok")]).await;
        let endpoint = Endpoint { bearer, headers: headers.clone(), ..endpoint(&server) };
        ask(&of_model(MODEL, endpoint, options()), prompt(vec![user("hi")])).await;
        let asked = server.asked().remove(0);
        assert_eq!(asked.headers[name], value);
        assert_eq!(asked.headers["x-team"], "blue");
        let holders = asked.headers.values().filter(|it| it.to_str().unwrap().contains(KEY));
        assert_eq!(holders.count(), 1);
        assert!(!asked.what.contains(KEY) && !asked.body.to_string().contains(KEY));
    }
}

#[tokio::test]
async fn a_gateway_may_need_no_key() {
    for key in [None, Some(Secret::new(" "))] {
        let server = Server::start(vec![Reply::text("ok")]).await;
        let endpoint = Endpoint { key, ..endpoint(&server) };
        ask(&of_model(MODEL, endpoint, options()), prompt(vec![user("hi")])).await;
        let headers = server.asked().remove(0).headers;
        assert!(!headers.contains_key("x-goog-api-key") && !headers.contains_key("authorization"));
    }
}

#[tokio::test]
async fn a_key_that_the_server_repeats_is_not_shown() {
    let secret = "header-secret-9";
    let echo = format!(r#"{{"error":{{"message":"bad key {KEY}, bad header {secret}"}}}}"#);
    let stream = format!("data: {echo}\n\n");
    let blocked = format!(
        r#"data: {{"promptFeedback":{{"blockReason":"SAFETY","blockReasonMessage":"bad key {KEY}, bad header {secret}"}}}}"#
    );
    let blocked = format!("{blocked}\n\n");
    let mut told = Vec::new();
    for reply in [Reply::error(400, echo.clone()), Reply::stream(stream), Reply::stream(blocked)] {
        let options = RequestOptions {
            retry: RetryPolicy { attempts: 1, ..RetryPolicy::default() },
            ..options()
        };
        let server = Server::start(vec![reply]).await;
        let headers = vec![("X-Secret".to_owned(), secret.to_owned())];
        let endpoint = Endpoint { headers, ..endpoint(&server) };
        let shown = format!("{endpoint:?}");
        assert!(!shown.contains(KEY) && !shown.contains(secret), "{shown}");
        let error = error_of(&of_model(MODEL, endpoint, options)).await.to_string();
        told.push(error);
    }
    expect![[r#"
        The API did not accept the request. The server says: bad key [key], bad header [key]
        The server failed (HTTP 500). Try again later. The server says: bad key [key], bad header [key]
        The prompt was blocked (SAFETY): bad key [key], bad header [key]. Rephrase the prompt."#]].assert_eq(&told.join("\n"));
}

#[tokio::test]
async fn a_key_is_not_shown_by_a_retry_or_a_refusal_either() {
    let quota = format!(
        r#"{{"error":{{"details":[{{"@type":"x.QuotaFailure","violations":[{{"quotaId":"{KEY}"}}]}}]}}}}"#
    );
    let refusal = format!(r#"{{"finishReason":"OTHER","finishMessage":"{KEY}"}}"#);
    let replies = vec![Reply::error(429, quota), Reply::stream(event(&refusal))];
    let (lines, _) = play(replies, options()).await;
    assert_eq!(lines[0], "retry: rate limited ([key]), 2/10");
    expect!["refused: The provider stopped the answer and does not say why (OTHER): [key]. Rephrase the prompt. 0/0/0/0"].assert_eq(&lines[1]);
}

#[tokio::test]
async fn a_key_does_not_follow_a_redirect_to_another_host() {
    let other = Server::start(vec![Reply::text("stolen")]).await;
    let elsewhere = format!("{}/v1beta", other.address());
    let reply = Reply::error(307, "").header("location", &elsewhere);
    let (lines, _) = play(vec![reply], options()).await;
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("error: Rejected(\"The API's address redirects"), "{lines:?}");
    assert!(lines[0].contains(&elsewhere), "{lines:?}");
    assert!(other.asked().is_empty());
}

#[tokio::test]
async fn a_redirect_on_the_same_host_is_followed() {
    let here = Reply::error(307, "").header("location", "/elsewhere");
    let (lines, server) = play(vec![here, Reply::text("ok")], options()).await;
    assert_eq!(lines[0], "text: ok");
    assert_eq!(server.asked()[1].what, "POST /elsewhere");
    assert_eq!(server.asked()[1].headers["x-goog-api-key"], KEY);
}

#[tokio::test]
async fn an_address_without_https_is_refused() {
    let models_url = "http://gateway.example.com/models".to_owned();
    let key = Some(Secret::new(KEY));
    let endpoint = Endpoint { key, ..Endpoint::new(Provider::Gemini, models_url) };
    let gemini = of_model(MODEL, endpoint.clone(), options());
    let why = "The API's address http://gateway.example.com is not https, so the key was not sent: others on the \
        network could read the key. Use an https address; http is for servers on this machine only.";
    let refused = Error::Rejected(why.to_owned());
    assert_eq!(gemini.ready(), Err(refused.clone()));
    assert_eq!(error_of(&gemini).await, refused);
    assert_eq!(check(&endpoint).await, Err(refused));
}

#[tokio::test]
async fn a_missing_key_is_said_before_anything_is_sent() {
    let missing = Error::NotAuthenticated("Run `tandem login`.".to_owned());
    let told = missing.clone();
    let connect: Connect = Arc::new(move || Err(told.clone()));
    let gemini = Gemini::new(Catalog::embedded().lookup(MODEL), connect, options()).unwrap();
    assert_eq!(gemini.ready(), Err(missing.clone()));
    assert_eq!(error_of(&gemini).await, missing);
}

#[tokio::test]
async fn a_key_that_cannot_be_sent_is_refused_without_being_shown() {
    let server = Server::start(Vec::new()).await;
    let endpoint = Endpoint { key: Some(Secret::new("bad\nkey")), ..endpoint(&server) };
    let error = error_of(&of_model(MODEL, endpoint, options())).await;
    assert!(matches!(error, Error::NotAuthenticated(_)), "{error:?}");
    expect!["The API key has characters that no key can have. Copy the key again, and run `tandem login` or set the variable."]
        .assert_eq(&error.to_string());
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_login_counts_at_the_next_attempt() {
    let server = Server::start(vec![Reply::error(500, "{}"), Reply::text("ok")]).await;
    let (first, keys) = (endpoint(&server), std::sync::atomic::AtomicUsize::new(0));
    let connect: Connect = Arc::new(move || {
        let n = keys.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(Endpoint { key: Some(Secret::new(&format!("key-{n}"))), ..first.clone() })
    });
    let gemini = Gemini::new(Catalog::embedded().lookup(MODEL), connect, options()).unwrap();
    ask(&gemini, prompt(vec![user("hi")])).await;
    let keys: Vec<_> =
        server.asked().into_iter().map(|asked| asked.headers["x-goog-api-key"].clone()).collect();
    assert_eq!(keys, ["key-0", "key-1"]);
}

#[tokio::test]
async fn a_key_is_checked_by_asking_for_a_list() {
    let invalid = r#"{"error":{"message":"API key not valid."}}"#;
    let list = r#"{"models":[{"name":"models/a"},{"name":"models/b"}]}"#;
    let replies = vec![
        Reply::error(200, "{}"),
        Reply::error(400, invalid),
        Reply::error(404, "<html>"),
        Reply::error(200, "<html>"),
        Reply::error(200, list),
    ];
    let server = Server::start(replies).await;
    let endpoint = endpoint(&server);
    assert_eq!(check(&endpoint).await, Ok(()));
    assert!(matches!(check(&endpoint).await, Err(Error::NotAuthenticated(_))));
    for _ in 0..2 {
        let error = check(&endpoint).await.unwrap_err().to_string();
        assert!(error.starts_with("There is no Gemini API at http://127.0.0.1"), "{error}");
    }
    assert_eq!(models(&endpoint).await, Ok(vec!["a".to_owned(), "b".to_owned()]));
    let asked = server.asked();
    assert_eq!(asked[0].what, "GET /v1beta/models?pageSize=1");
    assert_eq!(asked[0].headers["x-goog-api-key"], KEY);
}
