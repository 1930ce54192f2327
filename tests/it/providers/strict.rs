//! The real program, with its instructions and its tools, talks to the strict stand-in of each API.

use test_support::api_server::{Check, Reply, Server, anthropic, gemini, openai, responses};

use crate::agent::{Setup, text};

/// An API, as the program is told of it.
struct StrictApi {
    model: &'static str,
    /// Variable of the address.
    address: &'static str,
    /// Path of the API at the address.
    path: &'static str,
    /// Variable of the key.
    key: &'static str,
    step: fn() -> Reply,
    last: fn() -> Reply,
    check: Check,
}

const OPENAI: StrictApi = StrictApi {
    model: "openai:some/model-7b",
    address: "OPENAI_BASE_URL",
    path: "/v1",
    key: "OPENAI_API_KEY",
    step: openai::step,
    last: openai::last,
    check: openai::check,
};

const STRICT_APIS: [StrictApi; 4] = [
    OPENAI,
    StrictApi {
        model: "openai:gpt-6-sol",
        step: responses::step,
        last: responses::last,
        check: responses::check,
        ..OPENAI
    },
    StrictApi {
        model: "anthropic:claude-opus-5-5",
        address: "ANTHROPIC_BASE_URL",
        path: "",
        key: "ANTHROPIC_API_KEY",
        step: anthropic::step,
        last: anthropic::last,
        check: anthropic::check,
    },
    StrictApi {
        model: "gemini-3.8-flash",
        address: "GOOGLE_GEMINI_BASE_URL",
        path: "",
        key: "GEMINI_API_KEY",
        step: gemini::step,
        last: gemini::last,
        check: gemini::check,
    },
];

#[tokio::test]
async fn no_api_refuses_what_the_program_says() {
    for api in STRICT_APIS {
        let answers = vec![(api.step)(), (api.last)(), (api.last)()];
        let server = Server::of_pages(answers, &[], Some(api.check)).await;
        let setup = Setup::default()
            .arg("--model")
            .arg(api.model)
            .var(api.address, &format!("{}{}", server.address(), api.path))
            .var(api.key, "TestKey0123456789abcdef");
        let mut agent = setup.start();
        let id = agent.prompt("what is there?").await;
        let said = text(&agent.until_answered(id, "allow").await);
        assert_eq!(said, "Looking.All is well.", "{}", api.model);
        let id = agent.prompt("thanks").await;
        let said = text(&agent.until_answered(id, "allow").await);
        assert_eq!(said, "All is well.", "{}", api.model);
        assert_eq!(server.asked().len(), 3, "{}: no request is repeated", api.model);
    }
}
