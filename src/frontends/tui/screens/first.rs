//! Screens for new users: the help, and the offer to log in.

use serde_json::json;

use super::super::Login;
use super::super::input::TextInput;
use super::super::item::{HistoryItem, ItemBody};
use super::super::local;
use super::super::offer::{self, LoginChoice, LoginOffer, NextStep, OfferReason};
use super::super::setup::KeyProvider;
use super::{Stage, drawn, group, offered};
use tandem_agent::session::{ModelGroup, Provider};

/// Returns a screen with the offer to log in, at a stage.
fn login(cause: OfferReason, then: NextStep, offered: offer::LoginStage) -> Stage {
    let login = Login {
        whose: "Gemini".to_owned(),
        made_at: "https://keys.example/".to_owned(),
        typed: Box::new(|_| Box::pin(async { Ok(String::new()) })),
        browser: Box::new(|_| Box::pin(async { Ok(String::new()) })),
    };
    let mut stage = Stage::new();
    stage.state.offer.insert(LoginOffer::new(cause, &login, &[], None, then)).stage = offered;
    stage
}

/// Returns a screen with the choice of a provider.
fn providers(cause: OfferReason) -> Stage {
    let mut stage = login(cause, NextStep::Nothing, offer::LoginStage::Providers);
    let provider = |title: &str, made_at: &str| KeyProvider {
        title: title.to_owned(),
        made_at: made_at.to_owned(),
        model: String::new(),
    };
    stage.state.offer.as_mut().unwrap().providers = vec![
        provider("Gemini", "https://keys.example/g"),
        provider("Anthropic", "https://keys.example/a"),
        provider("OpenAI", "https://keys.example/o"),
    ];
    stage
}

#[test]
fn with_nothing_set_up_all_providers_are_offered() {
    let mut stage = providers(OfferReason::Missing);
    stage.check("login_providers.txt");
    let offer = stage.state.offer.as_mut().unwrap();
    assert_eq!(offer.marked(), Some(LoginChoice::Provider(0)));
    assert_eq!(offer.chosen('a'), Some(LoginChoice::Provider(1)));
    offer.choose_provider(1);
    stage.check("login_anthropic.txt");
    let offer = stage.state.offer.as_mut().unwrap();
    assert!(offer.back() && !offer.back());
}

#[test]
fn a_model_of_this_machine_is_marked() {
    let mut stage = providers(OfferReason::Missing);
    let offer = stage.state.offer.as_mut().unwrap();
    offer.found_models(found(), 0);
    assert_eq!(offer.marked(), Some(LoginChoice::Found(0)));
    assert_eq!(offer.chosen('2'), Some(LoginChoice::Found(1)));
    assert_eq!(offer.chosen('l'), None);
    stage.check("login_found.txt");
    let mut stage = providers(OfferReason::Missing);
    let offer = stage.state.offer.as_mut().unwrap();
    offer.select(true);
    offer.found_models(found(), 0);
    assert_eq!(offer.marked(), Some(LoginChoice::Provider(1)), "the user has marked another");
}

#[test]
fn of_many_models_of_this_machine_the_first_are_offered() {
    let mut stage = providers(OfferReason::Missing);
    let models = (0..100).map(|n| offered(&format!("ollama:m{n}"), None)).collect();
    let offer = stage.state.offer.as_mut().unwrap();
    offer.found_models(vec![group(Provider::Ollama, models)], 0);
    assert_eq!(offer.keys(), "gao123456d");
}

/// Returns models of two servers of this machine.
fn found() -> Vec<ModelGroup> {
    let local = |provider, id| group(provider, vec![offered(id, None)]);
    vec![
        local(Provider::Ollama, "ollama:qwen3:8b"),
        local(Provider::LlamaCpp, "llamacpp:smol.gguf"),
    ]
}

#[test]
fn sessions_of_gemini_cli_are_offered_while_nothing_is_typed() {
    let mut stage = Stage::new();
    stage.state.offer_import();
    stage.check("import.txt");
    let mut typed = Stage::new();
    typed.state.input.set("h");
    typed.state.offer_import();
    assert_eq!(typed.state.hint, None);
}

#[test]
fn help_says_what_matters() {
    let mut stage = Stage::new();
    stage
        .state
        .transcript
        .aside(HistoryItem::new(ItemBody::Help("/about /auth /clear /help /quit".to_owned())));
    let stage = stage.see(json!({ "ModeChanged": { "mode": "default" } }));
    stage.check("help.txt");
}

#[test]
fn the_help_there_is_fits_one_screen() {
    let mut stage = Stage::new();
    stage.state.transcript.aside(HistoryItem::new(ItemBody::Help(local::names())));
    let stage = stage.see(json!({ "ModeChanged": { "mode": "default" } }));
    assert!(stage.scrollback.len() + stage.frame().rows.len() <= 24);
}

#[test]
fn a_chosen_level_of_thinking_is_in_the_last_row() {
    let stage = Stage::new().see(json!({ "ThinkingChanged": { "level": "high" } }));
    assert!(drawn(&stage.frame().rows, 80).contains("thinking: high"));
    let stage = stage.see(json!({ "ThinkingChanged": {} }));
    assert!(!drawn(&stage.frame().rows, 80).contains("thinking"));
}

#[test]
fn help_does_not_break_what_is_being_said() {
    let mut stage = Stage::new().turn("go").see(json!({ "Text": "One " }));
    stage
        .state
        .transcript
        .aside(HistoryItem::new(ItemBody::Help("/about /auth /clear /help /quit".to_owned())));
    let stage = stage.see(json!({ "Text": "sentence." }));
    assert!(drawn(&stage.frame().rows, 80).contains("One sentence."));
}

#[test]
fn the_offer_to_log_in() {
    use offer::LoginStage::{Browser, Checking, Choosing, Typing};
    login(OfferReason::Missing, NextStep::Nothing, Choosing).check("login.txt");
    login(OfferReason::Missing, NextStep::Say("hi".to_owned()), Choosing).check("login_waits.txt");
    let mut key = TextInput::default();
    key.set("AIza-secret");
    let mut typing = login(OfferReason::Wanted, NextStep::Nothing, Typing(key));
    typing.state.offer.as_mut().unwrap().failure = Some("The key was not accepted.".to_owned());
    typing.check("login_key.txt");
    login(OfferReason::Refused, NextStep::Nothing, Checking).check("login_checking.txt");
    let page = Browser(Some("http://127.0.0.1:40000/f00d".to_owned()));
    login(OfferReason::Missing, NextStep::Nothing, page).check("login_page.txt");
}

#[test]
fn a_turn_of_this_terminal_that_a_refused_key_ends_is_to_go_on() {
    let refused = json!({ "Failed": { "not_authenticated": "No." } });
    let end = json!({ "TurnFinished": { "turn": 1, "reason": refused } });
    let stage = Stage::new().turn("go").see(end.clone());
    assert_eq!(stage.state.refused, Some((stage.now, NextStep::GoOn)));
    let stage = Stage::new().turn_of("go", json!({ "A2a": { "number": 1 } })).see(end);
    assert_eq!(stage.state.refused, Some((stage.now, NextStep::Nothing)));
}

#[test]
fn an_offer_fits_a_small_terminal_and_shows_what_is_marked() {
    for (columns, rows) in [(40, 10), (40, 5), (20, 3)] {
        let mut stage = providers(OfferReason::Missing).sized(columns, rows);
        for _ in 0..stage.state.offer.as_ref().unwrap().choices().len() {
            let frame = stage.frame();
            assert!(frame.rows.len() <= rows.into(), "{columns}x{rows}: {:#?}", frame.rows);
            let marked = frame.rows.iter().any(|row| row.to_string().starts_with('›'));
            assert!(marked, "{columns}x{rows}: {:#?}", frame.rows);
            let wide = frame.rows.iter().find(|row| row.width() > columns.into());
            assert!(wide.is_none(), "{columns}x{rows}: {wide:?}");
            stage.state.offer.as_mut().unwrap().select(true);
        }
    }
}
