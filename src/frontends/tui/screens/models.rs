//! Screens of the choice of a model and of its level of thinking.

use super::super::input::Edit;
use super::super::model_menu::{CurrentModel, ModelMenu, ModelMenuChoice};
use super::*;
use tandem_agent::session::TokenPrice;

fn levels(names: &[&str]) -> ThinkingLevels {
    let levels = names.iter().map(|name| (*name).to_owned()).collect();
    ThinkingLevels { levels, default: Some("high".to_owned()) }
}

fn current(level: Option<&str>) -> CurrentModel {
    CurrentModel {
        id: "gemini-3.8-flash".to_owned(),
        thinking: levels(&["low", "medium", "high"]),
        level: level.map(str::to_owned),
    }
}

fn groups() -> Vec<ModelGroup> {
    let price = Some(TokenPrice { input: 0.75, output: 3.75 });
    let gemini = |id| OfferedModel {
        price,
        thinking: levels(&["low", "high"]),
        ..offered(id, Some(1_048_576))
    };
    vec![
        group(Provider::Gemini, vec![gemini("gemini-3.1-pro-preview"), gemini("gemini-3.8-flash")]),
        group(Provider::LlamaCpp, vec![offered("llamacpp:smol.gguf", Some(8192))]),
        group(Provider::Vllm, vec![offered("vllm:evil\u{1b}[2J", None)]),
    ]
}

fn menu() -> ModelMenu {
    let mut menu = ModelMenu::of_models(current(None));
    menu.read(groups());
    menu
}

fn type_text(menu: &mut ModelMenu, text: &str) {
    menu.edit(&Edit::Insert(text.to_owned()));
}

/// Chooses the marked model, and then the level after the marked one.
fn choose_next_level(mut menu: ModelMenu) -> Option<ModelMenuChoice> {
    assert_eq!(menu.enter(), None, "a level is to be chosen");
    menu.select(true);
    menu.enter()
}

#[test]
fn models_are_offered_with_the_one_that_answers_marked() {
    let mut stage = Stage::new();
    stage.state.models = Some(ModelMenu::of_models(current(None)));
    stage.check("models_asking.txt");
    stage.state.models = Some(menu());
    stage.check("models.txt");
    type_text(stage.state.models.as_mut().unwrap(), "smol 8k");
    stage.check("models_filtered.txt");
    type_text(stage.state.models.as_mut().unwrap(), " nothing");
    stage.check("models_none.txt");
}

#[test]
fn the_levels_of_the_chosen_model_are_offered() {
    let mut stage = Stage::new();
    let mut menu = ModelMenu::of_models(current(Some("medium")));
    menu.read(groups());
    assert_eq!(menu.enter(), None);
    stage.state.models = Some(menu);
    stage.check("models_levels.txt");
}

#[test]
fn a_model_without_levels_is_chosen_at_once() {
    let mut menu = menu();
    type_text(&mut menu, "SMOL");
    let choice = menu.enter().unwrap();
    assert_eq!(choice.model.as_deref(), Some("llamacpp:smol.gguf"));
    assert_eq!(choice.level, None);
}

#[test]
fn only_what_changes_is_chosen() {
    let choice = choose_next_level(menu()).unwrap();
    assert_eq!((choice.model, choice.level.as_deref()), (None, Some("low")));
    let mut menu = menu();
    menu.select(false);
    let choice = choose_next_level(menu).unwrap();
    assert_eq!(choice.model.as_deref(), Some("gemini-3.1-pro-preview"));
    let mut menu = ModelMenu::of_levels(current(Some("low"))).unwrap();
    assert_eq!(menu.enter(), Some(ModelMenuChoice { model: None, level: None }));
}

#[test]
fn esc_goes_from_the_levels_to_the_models_and_from_the_models_away() {
    let mut menu = menu();
    assert_eq!(menu.enter(), None);
    assert!(menu.back());
    assert!(!menu.back());
    let mut levels = ModelMenu::of_levels(current(None)).unwrap();
    assert!(!levels.back(), "the models were not asked for");
}

#[test]
fn a_model_that_no_list_has_is_offered_all_the_same_if_it_answers() {
    let mut menu = ModelMenu::of_models(CurrentModel {
        id: "replay".to_owned(),
        thinking: ThinkingLevels::default(),
        level: None,
    });
    assert!(menu.rows().is_none() && menu.enter().is_none());
    menu.read(groups());
    assert_eq!(menu.enter(), Some(ModelMenuChoice { model: None, level: None }));
    let other = CurrentModel { thinking: ThinkingLevels::default(), ..current(None) };
    assert!(ModelMenu::of_levels(other).is_none());
}

#[test]
fn the_menu_fits_any_terminal_and_shows_what_is_marked() {
    for (columns, rows) in [(80, 24), (40, 8), (20, 5)] {
        let mut stage = Stage::new().sized(columns, rows);
        let many = (0..50).map(|n| offered(&format!("ollama:model-{n}"), None)).collect();
        let mut menu = ModelMenu::of_models(current(None));
        menu.read(vec![group(Provider::Ollama, many)]);
        stage.state.models = Some(menu);
        for _ in 0..51 {
            let frame = stage.frame();
            assert!(frame.rows.len() <= rows.into(), "{columns}x{rows}: {:#?}", frame.rows);
            let marked = frame.rows.iter().any(|row| row.to_string().starts_with('›'));
            assert!(marked, "{columns}x{rows}: {:#?}", frame.rows);
            stage.state.models.as_mut().unwrap().select(true);
        }
    }
}
