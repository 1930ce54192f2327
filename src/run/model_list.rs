//! `tandem models`: lists the models that can be used now, and says which one is the default.

use std::fmt::Write as _;

use anyhow::anyhow;
use serde_json::{Value, json};

use super::models::{ModelReport, UsedModel};
use super::printing::print;
use super::session_factory::SessionFactory;
use crate::cli::{ModelsArgs, ModelsCommand};
use tandem_content::visible::{escaped_json, visible_line};
use tandem_model::offer::{ModelGroup, OfferedModel, shown_id};
use tandem_settings::Env;

/// Number of columns of a model's id in the list, if the id is not longer.
const ID_COLUMNS: usize = 34;

/// Prints the models that can be used now.
pub(crate) async fn models(args: &ModelsArgs) -> anyhow::Result<()> {
    // Without a subcommand, the list is meant.
    let ModelsCommand::List = args.command.unwrap_or(ModelsCommand::List);
    let (factory, settings) = SessionFactory::new(&args.work)?;
    let (_, models) = factory.model(&settings)?;
    let report = models.report(&settings).await.map_err(|why| anyhow!(why))?;
    if args.json {
        return print(&*escaped_json(&format!("{:#}\n", as_json(&report))));
    }
    print(as_text(&report, factory.env()))
}

fn as_json(report: &ModelReport) -> Value {
    let model = |model: &OfferedModel| {
        json!({
            "id": model.id,
            "window": model.window,
            "price": model.price.map(|price| json!({ "input": price.input, "output": price.output })),
            "thinking": model.thinking.levels,
        })
    };
    let group = |group: &ModelGroup| {
        json!({
            "provider": group.provider.name(),
            "address": group.address,
            "models": group.models.iter().map(model).collect::<Vec<_>>(),
        })
    };
    let silent = |(provider, address): &(tandem_model::provider::Provider, String)| json!({ "provider": provider.name(), "address": address });
    json!({
        "default": { "id": report.used.id, "reason": report.used.reason },
        "groups": report.groups.iter().map(group).collect::<Vec<_>>(),
        "notAnswering": report.silent.iter().map(silent).collect::<Vec<_>>(),
    })
}

fn as_text(report: &ModelReport, env: &Env) -> String {
    let mut out = default_line(&report.used, env);
    for group in &report.groups {
        // Writing to a string cannot fail.
        let _ = write!(out, "\n{}\n", visible_line(&group.heading()));
        for model in &group.models {
            let _ = writeln!(out, "{}", model_line(model));
        }
        if group.models.is_empty() {
            out.push_str("  no model that can chat\n");
        }
    }
    let silent: Vec<_> = report
        .silent
        .iter()
        .map(|(provider, at)| format!("{} at {at}", provider.title()))
        .collect();
    if !silent.is_empty() {
        let _ = write!(out, "\nNot answering: {}\n", visible_line(&silent.join(", ")));
    }
    if report.groups.is_empty() {
        out.push_str(
            "\nThere is no model yet. Store a key with `tandem login --provider NAME`, or start a server on this \
             machine:\n`ollama serve`, or `llama-server --jinja -m FILE`.\n",
        );
    }
    out
}

/// Returns the line on the default model and the reason for it.
fn default_line(used: &UsedModel, env: &Env) -> String {
    let reason = match env.var("HOME") {
        Some(home) => used.reason.replace(&format!("{home}/"), "~/"),
        None => used.reason.clone(),
    };
    let id = used.id.as_deref().map_or_else(|| "none".to_owned(), shown_id);
    format!("Default: {} ({})\n", visible_line(&id), visible_line(&reason))
}

/// Returns the line of a model: its id, its window and its price.
fn model_line(model: &OfferedModel) -> String {
    let window = model.window.map(|tokens| format!("{} tokens", with_commas(tokens)));
    let price = model
        .price
        .map(|price| format!("${} in, ${} out for a million tokens", price.input, price.output));
    let id = visible_line(&model.id);
    let window = window.unwrap_or_default();
    let price = price.unwrap_or_default();
    format!("  {id:<ID_COLUMNS$}  {window:>16}  {price}").trim_end().to_owned()
}

/// Returns a number with a comma before each group of three digits.
fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_model::ThinkingLevels;
    use tandem_model::offer::TokenPrice;

    #[test]
    fn numbers_have_commas() {
        for (number, expected) in
            [(0, "0"), (999, "999"), (8192, "8,192"), (1_048_576, "1,048,576")]
        {
            assert_eq!(with_commas(number), expected);
        }
    }

    #[test]
    fn a_line_has_what_is_known_of_the_model() {
        let model = |window, price| OfferedModel {
            id: "work:qwen3".to_owned(),
            window,
            price,
            thinking: ThinkingLevels::default(),
        };
        assert_eq!(model_line(&model(None, None)), "  work:qwen3");
        let price = TokenPrice { input: 0.5, output: 2.0 };
        let line = model_line(&model(Some(32_768), Some(price)));
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            "work:qwen3 32,768 tokens $0.5 in, $2 out for a million tokens"
        );
    }
}
