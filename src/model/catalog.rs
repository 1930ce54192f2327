//! The catalog of models: a table of data, which a file can extend and correct.
//!
//! A row has only the fields in which its model differs from rows with a shorter id. An id that ends in `*` stands
//! for a family of models; any other id also stands for its variants, such as dated ones. So every id has an entry,
//! whether the model is known or not. An alias, such as Gemini CLI's `auto`, stands for one id.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Prompt;
use super::answer_schema::AnswerSchema;
use super::bedrock;
use super::endpoint::Endpoint;
use super::http;
use super::model_api::ModelApi;
use super::price::Prices;
use super::provider::{OpenAiWire, Provider};
use super::thinking::ThinkingLevels;

const CATALOG_TEXT: &str = include_str!("catalog.json");

/// A table of models; the default is empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalog {
    default: String,
    /// Ids of default models by the names of providers.
    defaults: BTreeMap<String, String>,
    /// Ids of the Gemini API by their aliases.
    aliases: BTreeMap<String, String>,
    rows: Vec<Row>,
}

/// Properties of one model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelProperties {
    /// Provider that is asked.
    pub provider: Provider,
    /// Id in the provider's API, without the provider.
    pub id: String,
    /// Size of the context window in tokens; 0 if unknown.
    pub input_tokens: u64,
    /// Maximum number of tokens of one answer; 0 if unknown.
    pub output_tokens: u64,
    /// Ways to set the amount of thinking.
    pub thinking: Thinking,
    /// `true` if the result of a call can hold images.
    pub media_in_responses: bool,
    /// `true` if the API insists on the signatures of the model's calls.
    pub signatures: bool,
    /// `true` if an answer can go on over several requests.
    pub continuation: bool,
    /// Servers that enforce a schema of answers, and let the model call tools nevertheless.
    pub answer_schema: SchemaEnforcement,
    /// Prices of the model's tokens.
    pub prices: Prices,
    /// API to ask first: of a model of `OpenAI`'s own, or of a model for which the user has named the API.
    pub wire: Option<OpenAiWire>,
    /// API that the id or the settings name, so that no other API is asked.
    pub forced_wire: Option<OpenAiWire>,
}

/// Servers of a model that enforce a schema of answers, and let the model call tools nevertheless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SchemaEnforcement {
    /// No server is known to do so.
    #[default]
    Nowhere,
    /// The servers of the provider itself. Of a gateway that the user has put in their place, nothing is known.
    AtProvider,
    /// The server that the user has set up: a row of the user says so.
    Everywhere,
}

/// Ways to set the amount of thinking: by level, by budget, or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thinking {
    /// Names of levels. Anthropic's models with adaptive thinking have their efforts here, and `OFF` if they can
    /// answer without thinking.
    #[serde(default)]
    pub levels: Vec<String>,
    /// Budgets in tokens, by name.
    #[serde(default)]
    pub budgets: BTreeMap<String, i64>,
    /// Level or budget of requests that name none.
    #[serde(default)]
    pub default: Option<String>,
}

/// Returns `true` if a model has been trained to edit files by patches. These are GPT models from 4.1 on, whichever
/// provider the id names.
pub(super) fn edits_by_patch(id: &str) -> bool {
    let name = id.rsplit(['/', ':', '.']).find(|part| part.starts_with("gpt-"));
    let name = name.unwrap_or_default();
    let older = ["gpt-3", "gpt-4"].iter().any(|older| name.starts_with(older));
    !name.is_empty() && (!older || id.contains("gpt-4.1"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    default: Option<String>,
    #[serde(default)]
    defaults: BTreeMap<String, String>,
    #[serde(default)]
    aliases: BTreeMap<String, String>,
    #[serde(default)]
    models: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Row {
    id: String,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    thinking: Option<Thinking>,
    media_in_responses: Option<bool>,
    signatures: Option<bool>,
    continuation: Option<bool>,
    answer_schema: Option<bool>,
    /// `true` if the row is of a file of the user.
    #[serde(skip)]
    is_users: bool,
    wire: Option<OpenAiWire>,
    /// Prices. They hold for all variants if the id ends in `*`, else only for the model and its dated versions.
    prices: Option<Prices>,
}

impl Catalog {
    /// Returns the table that comes with the program.
    pub fn embedded() -> &'static Self {
        // Parsed once: every session needs the table, and the first one needs it before it can answer.
        static EMBEDDED_CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
            // A test parses the table, so this cannot fail.
            Catalog::default().with_file(CATALOG_TEXT).unwrap_or_default()
        });
        &EMBEDDED_CATALOG
    }

    /// Adds the rows of a file of the user, which override those of the table. The error names the line and the
    /// field.
    pub fn with_overrides(self, json: &str) -> Result<Self, String> {
        let own = self.rows;
        let mut users = Self { rows: Vec::new(), ..self }.with_file(json)?;
        users.rows.iter_mut().for_each(|row| row.is_users = true);
        let rows = own.into_iter().chain(users.rows).collect();
        Ok(Self { rows, ..users }.sorted())
    }

    /// Adds the rows of a file, which override those of the table. The error names the line and the field.
    fn with_file(mut self, json: &str) -> Result<Self, String> {
        let file: File = serde_json::from_str(json).map_err(|error| {
            // Parsed again to find the name of the wrong field, because tracking it in the first run would be slow.
            let mut reader = serde_json::Deserializer::from_str(json);
            match serde_path_to_error::deserialize::<_, File>(&mut reader) {
                Err(error) => format!("`{}`: {}", error.path(), error.inner()),
                Ok(_) => error.to_string(),
            }
        })?;
        let of_others = |id: &str| Provider::parse_id(id, Provider::Gemini).0 != Provider::Gemini;
        if let Some((name, id)) = file.aliases.iter().find(|(_, id)| of_others(id)) {
            return Err(format!("`aliases.{name}`: `{id}` is not a model's id of the Gemini API"));
        }
        self.aliases.extend(file.aliases);
        self.rows.extend(file.models);
        self.defaults.extend(file.defaults);
        self.default = file.default.unwrap_or(self.default);
        Ok(self.sorted())
    }

    fn sorted(mut self) -> Self {
        // The sort is stable: of rows with equal ids, the later one stays last, and so overrides.
        self.rows.sort_by_key(|row| row.prefix().len());
        self
    }

    /// Returns the id of the default model.
    pub fn default_model(&self) -> &str {
        &self.default
    }

    /// Returns the id of a provider's default model, if there is one.
    pub fn default_of(&self, provider: Provider) -> Option<String> {
        if Provider::parse_id(&self.default, Provider::Gemini).0 == provider {
            return Some(self.default.clone());
        }
        self.defaults.get(provider.name()).map(|id| provider.qualify(id))
    }

    /// Lists the ids of the models that are known by name.
    pub fn ids(&self) -> Vec<&str> {
        let ids = self.rows.iter().map(|row| row.id.as_str());
        let mut ids: Vec<_> = ids.filter(|id| !id.ends_with('*')).collect();
        // Ids without a provider's name come first, because most users want one of these.
        ids.sort_unstable_by_key(|id| (id.contains(':'), *id));
        ids.dedup();
        ids
    }

    /// Splits an id into its provider, which is Gemini if the id names none, and the provider's own id. Resolves an
    /// alias.
    fn resolve<'a>(&'a self, id: &'a str) -> (Provider, &'a str) {
        let (provider, own) = Provider::parse_id(id, Provider::Gemini);
        let alias = (provider == Provider::Gemini).then(|| self.aliases.get(own)).flatten();
        (provider, alias.map_or(own, String::as_str))
    }

    /// Returns `true` if a row matches the model, apart from rows for all models.
    pub fn knows(&self, id: &str) -> bool {
        let (provider, own) = self.resolve(id);
        let id = provider.qualify(own);
        self.rows.iter().any(|row| !row.prefix().is_empty() && id.starts_with(row.prefix()))
    }

    /// Looks up a model. Every id has an entry, and an alias has the entry of its id. Unless the id names its
    /// provider (`openai:gpt-5`), it belongs to the Gemini API.
    pub fn lookup(&self, id: &str) -> ModelProperties {
        let (provider, own) = self.resolve(id);
        let model = self.lookup_at(provider, ModelApi::of_built_in(provider, own), own);
        // The id may name one of the APIs of its provider.
        let forced_wire = OpenAiWire::forced_by(id).or(model.forced_wire);
        ModelProperties { forced_wire, ..model }
    }

    /// Looks up a model of a provider that is asked in an API. Facts on the model at the vendor of the API hold at
    /// other providers, too, unless a row says otherwise; prices do not.
    pub fn lookup_at(&self, provider: Provider, api: ModelApi, id: &str) -> ModelProperties {
        let mut model =
            ModelProperties { provider, id: id.to_owned(), ..ModelProperties::default() };
        let vendor = api.vendor();
        let at_vendor = match provider {
            Provider::Bedrock => bedrock::id_at_vendor(id),
            _ => id,
        };
        self.add_rows(&vendor.qualify(at_vendor), |_| true, &mut model);
        if vendor != provider {
            model.prices = Prices::default();
            // Azure serves the models of `OpenAI` with the API of `OpenAI`. The vendor's documentation says nothing about
            // other servers.
            if provider != Provider::Azure {
                model.answer_schema = SchemaEnforcement::Nowhere;
            }
            // The row for all models has been added. Added again, it would override those of the vendor's models.
            self.add_rows(&provider.qualify(id), |row| !row.prefix().is_empty(), &mut model);
        }
        if let ModelApi::OpenAi(wire) = api {
            model.forced_wire = wire;
        }
        model
    }

    /// Adds the facts of the rows that match an id with its provider, and that are `wanted`.
    fn add_rows(&self, full: &str, wanted: impl Fn(&Row) -> bool, model: &mut ModelProperties) {
        for row in self.rows.iter().filter(|row| full.starts_with(row.prefix()) && wanted(row)) {
            row.add_to(model);
            if let Some(prices) = row.prices.as_ref().filter(|_| row.is_same_model(full)) {
                model.prices = prices.clone();
            }
        }
    }
}

impl Row {
    fn prefix(&self) -> &str {
        self.id.strip_suffix('*').unwrap_or(&self.id)
    }

    /// Returns `true` if an id with the row's prefix names the row's own model, or a dated version of it (`-001`,
    /// `-2025-08-07`, `@20250929`), but not another model such as `-mini`.
    fn is_same_model(&self, id: &str) -> bool {
        let rest = &id[self.prefix().len()..];
        let is_dated = |version: &str| {
            let digits = version.bytes().take_while(u8::is_ascii_digit).count();
            digits >= 3 && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
        };
        self.id.ends_with('*')
            || rest.is_empty()
            || rest.strip_prefix(['-', '@']).is_some_and(is_dated)
    }

    fn add_to(&self, model: &mut ModelProperties) {
        model.input_tokens = self.input_tokens.unwrap_or(model.input_tokens);
        model.output_tokens = self.output_tokens.unwrap_or(model.output_tokens);
        model.media_in_responses = self.media_in_responses.unwrap_or(model.media_in_responses);
        model.signatures = self.signatures.unwrap_or(model.signatures);
        model.continuation = self.continuation.unwrap_or(model.continuation);
        model.answer_schema = match self.answer_schema {
            Some(true) if self.is_users => SchemaEnforcement::Everywhere,
            Some(true) => SchemaEnforcement::AtProvider,
            Some(false) => SchemaEnforcement::Nowhere,
            None => model.answer_schema,
        };
        model.wire = self.wire.or(model.wire);
        if let Some(thinking) = &self.thinking {
            model.thinking = thinking.clone();
        }
    }
}

impl ModelProperties {
    /// Returns the schema that a prompt wants its answer to fit, if the server at the endpoint is known to enforce
    /// schemas. Otherwise the schema is not sent.
    pub(super) fn enforced_schema<'a>(
        &self,
        endpoint: &Endpoint,
        prompt: &'a Prompt,
    ) -> Option<&'a AnswerSchema> {
        prompt.answer_schema.as_deref().filter(|_| self.enforces_schema_at(&endpoint.url))
    }

    /// Returns `true` if the server at an address is known to enforce a schema of answers.
    fn enforces_schema_at(&self, url: &str) -> bool {
        match self.answer_schema {
            SchemaEnforcement::Nowhere => false,
            // Azure has no host of its own in the table, as each user has another one. So every host counts.
            SchemaEnforcement::AtProvider => {
                self.provider.host().is_none_or(|host| http::is_on_host(url, host))
            }
            SchemaEnforcement::Everywhere => true,
        }
    }

    /// Returns the levels that a user can choose. `set` is the user's setting.
    pub fn thinking_levels(&self, set: Option<&str>) -> ThinkingLevels {
        let Thinking { levels, budgets, default } = &self.thinking;
        let mut by_size: Vec<_> = budgets.iter().collect();
        by_size.sort_by_key(|(_, budget)| **budget);
        let all = levels.iter().chain(by_size.into_iter().map(|(name, _)| name));
        ThinkingLevels {
            levels: all.map(|level| level.to_ascii_lowercase()).collect(),
            default: set.or(default.as_deref()).map(|level| level.trim().to_ascii_lowercase()),
        }
    }

    /// Returns the model's spelling of a thinking level. The error lists the levels.
    pub fn level(&self, asked: &str) -> Result<&str, String> {
        let is_it = |level: &&String| level.eq_ignore_ascii_case(asked.trim());
        let found = self.thinking.levels.iter().find(is_it);
        found.map(String::as_str).ok_or_else(|| self.no_such_level(asked.trim()))
    }

    /// Returns the `thinkingConfig` for a level, or for the default if none is asked for; `None` if the model does
    /// not think. The error lists the levels.
    pub(crate) fn thinking_config(&self, asked: Option<&str>) -> Result<Option<Value>, String> {
        let Thinking { levels, budgets, .. } = &self.thinking;
        let Some(asked) = asked.map(str::trim) else {
            let thinks = !levels.is_empty() || !budgets.is_empty();
            return Ok(thinks.then(|| json!({"includeThoughts": true})));
        };
        if let Some(level) = levels.iter().find(|level| level.eq_ignore_ascii_case(asked)) {
            return Ok(Some(json!({"includeThoughts": true, "thinkingLevel": level})));
        }
        let named = budgets.iter().find(|(name, _)| name.eq_ignore_ascii_case(asked));
        let named = named.map(|(_, budget)| *budget);
        let number = asked.parse().ok().filter(|_| !budgets.is_empty());
        if let Some(budget) = named.or(number) {
            let thoughts = budget != 0;
            return Ok(Some(json!({"includeThoughts": thoughts, "thinkingBudget": budget})));
        }
        Err(self.no_such_level(asked))
    }

    /// Returns the error for an unknown level, which lists the known levels.
    pub(super) fn no_such_level(&self, asked: &str) -> String {
        let Thinking { levels, budgets, .. } = &self.thinking;
        let mut allowed: Vec<_> = levels.iter().chain(budgets.keys()).map(String::as_str).collect();
        if !budgets.is_empty() {
            allowed.push("a number of tokens");
        }
        match allowed.as_slice() {
            [] => format!(
                "No thinking levels are known for `{}`: leave the level out, or add the model to \
                 `models.json`.",
                self.id
            ),
            allowed => format!(
                "Unknown thinking level `{asked}` for `{}`. Known levels: {}.",
                self.id,
                allowed.join(", ")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn gpt_models_edit_by_patch() {
        for id in [
            "openai:gpt-6.1-sol",
            "gpt-5",
            "openai-chat:gpt-4.1-mini",
            "openrouter:openai/gpt-5.4",
            "bedrock:us.openai.gpt-5.4",
            "ollama:gpt-oss:20b",
        ] {
            assert!(super::edits_by_patch(id), "{id}");
        }
        for id in
            ["gpt-4o", "gpt-3.5-turbo", "anthropic:claude-opus-4-8", "o3", "ollama:my-gpt-5", ""]
        {
            assert!(!super::edits_by_patch(id), "{id}");
        }
    }

    use super::*;
    use crate::Usage;

    #[test]
    fn the_embedded_table_is_right() {
        let catalog = Catalog::default().with_file(CATALOG_TEXT).unwrap();
        assert_eq!(&catalog, Catalog::embedded());
        assert_eq!(catalog.default_model(), "gemini-3.8-flash");
        assert!(catalog.ids().contains(&"gemini-3.8-flash"));
        for id in catalog.ids() {
            let model = catalog.lookup(id);
            let Thinking { levels, budgets, default } = model.thinking;
            let thinks = default.is_none_or(|it| levels.contains(&it) || budgets.contains_key(&it));
            assert!(thinks, "{id}");
            // Catalog entries of OpenAI may have no answer limit: requests then set no limit, and OpenAI applies the
            // model's limit.
            let has_limit = model.output_tokens > 0 || id.starts_with("openai:");
            assert!(model.input_tokens > 0 && has_limit, "{id}");
        }
    }

    #[track_caller]
    fn check(id: &str, expected: &Value) {
        let model = Catalog::embedded().lookup(id);
        let levels: Vec<_> = model.thinking.levels.iter().map(|level| &level[..1]).collect();
        let found = json!([
            levels.concat(),
            model.thinking.budgets.len(),
            model.media_in_responses,
            model.signatures,
            model.continuation
        ]);
        assert_eq!(found, *expected, "{id}");
    }

    #[test]
    fn any_id_is_looked_up_by_its_longest_known_beginning() {
        check("gemini-3.8-flash", &json!(["LMH", 0, true, true, false]));
        check("gemini-3.8-flash-001", &json!(["LMH", 0, true, true, false]));
        check("gemini-3.5-flash-lite", &json!(["MLMH", 0, true, true, false]));
        check("gemini-2.5-pro", &json!(["", 4, false, false, false]));
        check("gemini-2.5-flash", &json!(["", 5, false, false, false]));
        check("gemini-4-argon", &json!(["LMH", 0, true, true, true]));
        check("gemini-9-xenon", &json!(["LMH", 0, true, true, false]));
        check("gemma-4-27b", &json!(["", 0, false, false, false]));
        check("my-own/model", &json!(["", 0, false, false, false]));
        check("", &json!(["", 0, false, false, false]));
    }

    #[test]
    fn other_providers_have_rows_of_their_own() {
        let catalog = Catalog::embedded();
        for provider in ["openai", "anthropic", "ollama"] {
            let id = format!("{provider}:gemini-3.8-flash:x");
            assert!(catalog.knows(&id));
            let model = catalog.lookup(&id);
            assert_eq!((model.id.as_str(), model.input_tokens), ("gemini-3.8-flash:x", 0));
            assert!(!model.signatures);
        }
        assert_eq!(catalog.lookup("gemini:gemini-2.5-pro"), catalog.lookup("gemini-2.5-pro"));
    }

    #[test]
    fn at_a_server_of_the_settings_a_model_has_the_facts_of_its_vendor_and_of_the_servers_own_rows()
    {
        let json = r#"{"models": [{"id": "work:gpt-6-sol", "outputTokens": 5, "prices": [{"from": "2026-01-01",
            "input": 1, "output": 2}]}]}"#;
        let catalog = Catalog::embedded().clone().with_overrides(json).unwrap();
        let work = Provider::Named("work".parse().unwrap());
        let openai = catalog.lookup("openai:gpt-6-sol");
        let model = catalog.lookup_at(work, ModelApi::OpenAi(None), "gpt-6-sol");
        assert_eq!(model.input_tokens, openai.input_tokens);
        assert_eq!((model.wire, model.forced_wire), (Some(OpenAiWire::Responses), None));
        assert_eq!(model.output_tokens, 5);
        let usage = Usage { input: 1_000_000, ..Usage::default() };
        assert_eq!(model.prices.cost(&usage, "2026-11-22"), Some(1.0));
        let mini = catalog.lookup_at(work, ModelApi::OpenAi(Some(OpenAiWire::Chat)), "gpt-6-astra");
        assert_eq!((mini.prices, mini.forced_wire), (Prices::default(), Some(OpenAiWire::Chat)));
        assert_eq!(catalog.lookup("openrouter:a/b").input_tokens, 0);
    }

    #[test]
    fn gemini_clis_names_stand_for_ids_of_the_gemini_api() {
        let catalog = Catalog::embedded();
        for (name, id) in [
            ("auto", "gemini-3.1-pro-preview-customtools"),
            ("auto-gemini-3", "gemini-3.1-pro-preview-customtools"),
            ("pro", "gemini-3.1-pro-preview-customtools"),
            ("gemini-3-pro-preview", "gemini-3.1-pro-preview-customtools"),
            ("auto-gemini-2.5", "gemini-2.5-pro"),
            ("flash", "gemini-3.5-flash"),
            ("flash-lite", "gemini-3.1-flash-lite"),
            ("gemini:flash", "gemini-3.5-flash"),
        ] {
            assert!(catalog.knows(name), "{name}");
            assert_eq!(catalog.lookup(name), catalog.lookup(id), "{name}");
            assert_eq!(catalog.lookup(name).id, id, "{name}");
        }
        for id in ["gemini-2.5-flash", "openai:auto", "ollama:flash", "autopilot"] {
            assert_eq!(catalog.lookup(id).id, Provider::parse_id(id, Provider::Gemini).1, "{id}");
        }
    }

    #[test]
    fn a_file_corrects_an_alias_with_an_id_of_the_gemini_api() {
        let json = r#"{"aliases": {"auto": "gemini-9-pro"}}"#;
        let catalog = Catalog::embedded().clone().with_overrides(json).unwrap();
        assert_eq!(catalog.lookup("auto").id, "gemini-9-pro");
        assert_eq!(catalog.lookup("flash").id, "gemini-3.5-flash");
        refused(
            r#"{"aliases": {"fast": "openai:gpt-5"}}"#,
            "`aliases.fast`: `openai:gpt-5` is not a model's id of the Gemini API",
        );
    }

    #[track_caller]
    fn asked(id: &str, level: Option<&str>, expected: Result<Option<Value>, &str>) {
        let config = Catalog::embedded().lookup(id).thinking_config(level);
        assert_eq!(config, expected.map_err(str::to_owned), "{id} {level:?}");
    }

    #[test]
    fn a_thinking_level_is_sent_as_the_model_wants_it() {
        let thoughts = json!({"includeThoughts": true});
        asked("gemini-3.8-flash", None, Ok(Some(thoughts.clone())));
        asked("gemini-2.5-pro", None, Ok(Some(thoughts)));
        asked("gemma-4", None, Ok(None));
        let high = json!({"includeThoughts": true, "thinkingLevel": "HIGH"});
        asked("gemini-3.8-flash", Some("high"), Ok(Some(high)));
        let budget = json!({"includeThoughts": true, "thinkingBudget": 8192});
        asked("gemini-2.5-pro", Some("Medium"), Ok(Some(budget)));
        let number = json!({"includeThoughts": true, "thinkingBudget": 200});
        asked("gemini-2.5-pro", Some("200"), Ok(Some(number)));
        let off = json!({"includeThoughts": false, "thinkingBudget": 0});
        asked("gemini-2.5-flash", Some("off"), Ok(Some(off)));
    }

    #[test]
    fn a_level_that_the_model_refuses_is_refused_here() {
        for id in ["gemini-3.7-flash", "gemini-3.8-flash"] {
            let message = format!(
                "Unknown thinking level `MINIMAL` for `{id}`. Known levels: LOW, MEDIUM, HIGH."
            );
            asked(id, Some("MINIMAL"), Err(&message));
        }
        asked(
            "gemini-3.8-flash",
            Some("8000"),
            Err(
                "Unknown thinking level `8000` for `gemini-3.8-flash`. Known levels: LOW, MEDIUM, HIGH.",
            ),
        );
        assert!(Catalog::embedded().lookup("x").thinking_config(Some("LOW")).is_err());
    }

    #[test]
    fn a_price_is_of_a_model_and_its_dated_versions_and_no_other() {
        let catalog = Catalog::embedded();
        let usage = Usage { input: 1_000_000, output: 1_000_000, ..Usage::default() };
        for (id, expected) in [
            ("gemini-3.8-flash", Some(4.5)),
            ("gemini-3.8-flash-001", Some(4.5)),
            ("gemini-3.8-flash-lite", None),
            ("gemini-3.1-pro-preview", Some(22.0)),
            ("auto", Some(22.0)),
            ("gemini-3.5-flash-lite", Some(2.8)),
            ("gemini-4-argon-cyber-permissive", None),
            ("anthropic:claude-sonnet-4-5-20250929", Some(18.0)),
            ("anthropic:claude-opus-5-7", None),
            ("anthropic:claude-haiku-5-5", Some(3.0)),
            ("openai:gemini-3.8-flash", None),
            // A prompt of a million tokens is above the size from which a higher price applies to the whole request.
            ("openai:gpt-6.1-sol", Some(19.0)),
            ("openai-chat:gpt-6.1-sol", Some(19.0)),
            ("openai:gpt-6.1-sol-2026-09-29", Some(19.0)),
            ("openai:gpt-6-astra-law", None),
            ("openai:gpt-6.2-sol", None),
            ("ollama:qwen3:8b", None),
        ] {
            let cost = catalog.lookup(id).prices.cost(&usage, "2026-11-22");
            let rounded = |cost: f64| (cost * 1e6).round();
            assert_eq!(cost.map(rounded), expected.map(rounded), "{id}");
        }
    }

    #[test]
    fn openais_prices_double_past_272_000_tokens_of_the_prompt() {
        let prices = Catalog::embedded().lookup("openai:gpt-6.1-sol").prices;
        let cost = |input, cached, written| {
            let usage = Usage { input, cached, written, output: 10_000, thoughts: 10_000 };
            prices.cost(&usage, "2026-11-28").map(|cost| (cost * 1e6).round())
        };
        assert_eq!(
            cost(272_000, 200_000, 50_000),
            Some(44_000.0 + 20_000.0 + 125_000.0 + 200_000.0)
        );
        assert_eq!(
            cost(272_001, 200_000, 50_000),
            Some(88_004.0 + 40_000.0 + 250_000.0 + 300_000.0)
        );
    }

    #[test]
    fn models_of_openai_may_differ_from_their_family() {
        let [family, bare, cyber] =
            ["openai:gpt-5.6-nova", "openai:gpt-5.6", "openai:gpt-5.6-cyber"]
                .map(|id| Catalog::embedded().lookup(id));
        assert_eq!((family.input_tokens, &family.prices), (922_000, &Prices::default()));
        assert_eq!(bare.input_tokens, 922_000);
        assert_ne!(bare.prices, Prices::default(), "the bare id is a model, too");
        assert_eq!(cyber.input_tokens, 272_000);
        let levels = Catalog::embedded().lookup("openai:gpt-5.5-pro").thinking.levels;
        assert_eq!(levels, ["medium", "high", "xhigh"]);
    }

    #[test]
    fn an_id_or_the_catalog_says_which_of_openais_apis_is_asked_first() {
        use OpenAiWire::{Chat, Responses};
        let catalog = Catalog::embedded();
        for (id, wire, forced) in [
            ("openai:gpt-5.1", Some(Chat), None),
            ("openai:gpt-5.3-codex", Some(Responses), None),
            ("openai:gpt-5.4-mini-2026-03-17", Some(Responses), None),
            ("openai:gpt-5.6-sol", Some(Responses), None),
            ("openai:gpt-6.1-terra", Some(Responses), None),
            ("openai:gpt-6.9-nova", Some(Responses), None),
            ("openai:gpt-oss-120b", None, None),
            ("openai:some/model-7b", None, None),
            ("openai-chat:gpt-6-sol", Some(Responses), Some(Chat)),
            ("openai-responses:some/model-7b", None, Some(Responses)),
            ("gemini-3.8-flash", None, None),
        ] {
            let model = catalog.lookup(id);
            assert_eq!((model.wire, model.forced_wire), (wire, forced), "{id}");
        }
        let json = r#"{"models": [{"id": "openai:qwen3*", "wire": "responses"}]}"#;
        let catalog = catalog.clone().with_overrides(json).unwrap();
        assert_eq!(catalog.lookup("openai:qwen3-coder").wire, Some(Responses));
    }

    #[test]
    fn the_default_of_openai_is_one_with_a_price_and_tools() {
        let catalog = Catalog::embedded();
        let id = catalog.default_of(Provider::OpenAi).unwrap();
        let model = catalog.lookup(&id);
        assert_eq!(id, "openai:gpt-6.1-sol");
        assert_ne!(model.prices, Prices::default());
        assert_eq!(model.wire, Some(OpenAiWire::Responses));
        assert!(model.level("max").is_ok() && model.level("none").is_err());
    }

    #[test]
    fn prices_of_a_file_are_those_of_the_row_that_has_them() {
        let json = r#"{"models": [
            {"id": "openai:qwen3*", "prices": [{"from": "2026-01-01", "input": 1, "output": 2}]},
            {"id": "gemini-3.8-flash", "inputTokens": 1000}
        ]}"#;
        let catalog = Catalog::embedded().clone().with_overrides(json).unwrap();
        let usage = Usage { input: 1_000_000, ..Usage::default() };
        let cost = |id: &str| catalog.lookup(id).prices.cost(&usage, "2026-11-22");
        assert_eq!(cost("openai:qwen3-coder"), Some(1.0));
        assert_eq!(cost("gemini-3.8-flash"), Some(0.75));
    }

    #[test]
    fn schemas_of_answers_are_for_the_models_and_servers_that_are_known_to_enforce_them() {
        for (id, enforces) in [
            ("gemini-3.8-flash", true),
            ("gemini-2.5-pro", false),
            ("gemma-4-27b", false),
            ("openai:gpt-6.1-sol", true),
            ("openai:gpt-4.1-mini", true),
            ("openai:gpt-oss-20b", false),
            ("azure:gpt-5.4", true),
            ("azure:my-deployment", false),
            ("anthropic:claude-opus-4-5-20251101", true),
            ("anthropic:claude-sonnet-5-5", true),
            ("anthropic:claude-opus-4-1", false),
            ("anthropic:claude-fable-5", false),
            ("bedrock:anthropic.claude-opus-5", false),
            ("vertex:gemini-3.8-flash", false),
            ("openrouter:openai/gpt-6-sol", false),
            ("ollama:qwen3:8b", false),
        ] {
            let known = Catalog::embedded().lookup(id).answer_schema;
            assert_eq!(known != SchemaEnforcement::Nowhere, enforces, "{id}");
        }
    }

    #[test]
    fn of_a_gateway_only_the_user_can_say_that_it_enforces_schemas() {
        let own = Catalog::embedded().clone();
        let row = r#"{"models": [{"id": "openai:gpt-6*", "answerSchema": true}]}"#;
        let users = own.clone().with_overrides(row).unwrap();
        for (id, url, by_own, by_users) in [
            ("openai:gpt-6.1-sol", "https://api.openai.com/v1", true, true),
            ("openai:gpt-6.1-sol", "http://localhost:4000/v1", false, true),
            ("openai:gpt-6.1-sol", "https://eu.api.openai.com/v1", true, true),
            ("openai:gpt-6.1-sol", "https://api.openai.com.example/v1", false, true),
            ("openai:gpt-5.1", "https://gateway.example/v1", false, false),
            ("anthropic:claude-opus-5-5", "https://api.anthropic.com", true, true),
            ("anthropic:claude-opus-5-5", "https://gateway.example", false, false),
            (
                "gemini-3.8-flash",
                "https://generativelanguage.googleapis.com/v1beta/models",
                true,
                true,
            ),
            (
                "gemini-3.8-flash",
                "https://aiplatform.googleapis.com/v1/publishers/google/models",
                false,
                false,
            ),
            ("azure:gpt-5.4", "https://mine.openai.azure.com/openai/v1", true, true),
        ] {
            let enforces = |catalog: &Catalog| catalog.lookup(id).enforces_schema_at(url);
            assert_eq!((enforces(&own), enforces(&users)), (by_own, by_users), "{id} at {url}");
        }
    }

    #[test]
    fn a_file_adds_and_corrects() {
        let json = r#"{"default": "mine", "models": [
            {"id": "mine", "inputTokens": 1000},
            {"id": "gemini-3.8-flash", "continuation": true}
        ]}"#;
        let catalog = Catalog::embedded().clone().with_overrides(json).unwrap();
        assert_eq!(catalog.default_model(), "mine");
        assert_eq!(catalog.lookup("mine").input_tokens, 1000);
        assert_eq!(catalog.lookup("mine").output_tokens, 65536);
        let flash = catalog.lookup("gemini-3.8-flash");
        assert!(flash.continuation && flash.signatures);
    }

    #[track_caller]
    fn refused(json: &str, expected: &str) {
        assert_eq!(Catalog::embedded().clone().with_overrides(json), Err(expected.to_owned()));
    }

    #[test]
    fn a_wrong_file_is_refused_by_line_and_field() {
        refused(
            "{\"models\": [\n  {\"id\": \"x\", \"inputTokens\": \"many\"}\n]}",
            "`models[0].inputTokens`: invalid type: string \"many\", expected u64 at line 2 \
             column 35",
        );
        refused(
            "{\"models\": [{\"id\": \"x\", \"inputTokns\": 1}]}",
            "`models[0].inputTokns`: unknown field `inputTokns`, expected one of `id`, \
             `inputTokens`, `outputTokens`, `thinking`, `mediaInResponses`, `signatures`, \
             `continuation`, `answerSchema`, `wire`, `prices` at line 1 column 36",
        );
        refused("{} x", "trailing characters at line 1 column 4");
    }
}
