//! `/thinking`.

use std::sync::Arc;

use tandem_agent::session::{Event, Parts};
use tandem_model::catalog::Catalog;
use tandem_model::gemini::Gemini;
use tandem_model::options::RequestOptions;
use tandem_model::{Error, Model};

use super::{Stage, contains};

/// Returns a session whose model has levels of thinking, and is not asked.
fn stage(set: Option<&str>) -> Stage {
    let options = RequestOptions { thinking: set.map(str::to_owned), ..RequestOptions::default() };
    let model = Catalog::embedded().lookup("gemini-2.5-flash");
    let model =
        Gemini::new(model, Arc::new(|| Err(Error::NotAuthenticated(String::new()))), options)
            .unwrap();
    let model: Arc<dyn Model> = Arc::new(model);
    Stage::with(vec![], |parts| Parts { model, ..parts })
}

#[tokio::test]
async fn without_a_level_it_shows_those_that_there_are() {
    let shown = stage(None).output("/thinking").await;
    let levels = "- `default`: auto (this one)\n- `auto`\n- `off`\n- `low`\n- `medium`\n- `high`\n";
    assert_eq!(shown, format!("How much `gemini-2.5-flash` thinks:\n\n{levels}"));
    let shown = stage(Some("Low")).output("/thinking").await;
    contains(&shown, &["- `default`: low (this one)"]);
}

#[tokio::test]
async fn a_level_counts_until_another_is_chosen() {
    let stage = stage(None);
    for (level, expected) in [("HIGH", Some("high")), ("low", Some("low")), ("Default", None)] {
        let events = stage.turn(&format!("/thinking {level}")).await;
        let expected = expected.map(str::to_owned);
        assert_eq!(*events[1], Event::ThinkingChanged { level: expected.clone() });
        assert_eq!(stage.session.thinking(), expected);
    }
    let said = stage.output("/thinking default").await;
    assert_eq!(said, "Thinking is now: default", "what is so already is no event");
}

#[tokio::test]
async fn a_level_that_the_model_does_not_offer_is_refused_with_those_that_it_does() {
    let refused = stage(None).output("/thinking maximal").await;
    let levels = "default, auto, off, low, medium, high";
    contains(&refused, &["Unknown thinking level `maximal`", levels]);
    let none = Stage::new(vec![]);
    contains(&none.output("/thinking").await, &["How much `spy` thinks cannot be chosen."]);
    contains(&none.output("/thinking low").await, &["cannot be chosen"]);
}
