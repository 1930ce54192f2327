//! Doors of Amazon Bedrock: which of its APIs has the model of an id.

/// Beginnings of ids of models that Bedrock runs in any region of an area.
const AREA_PREFIXES: [&str; 8] = ["us.", "eu.", "apac.", "au.", "jp.", "ca.", "us-gov.", "global."];

/// A door of Bedrock: a host, and an API there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BedrockDoor {
    /// Anthropic's Messages API for the models of one region.
    Messages,
    /// Anthropic's Messages API for models that any region of an area may run.
    AreaMessages,
    /// The APIs of `OpenAI` for the newer models of `OpenAI`, in one region.
    OpenAi,
    /// The APIs of `OpenAI` for the models of other vendors, and for the open ones of `OpenAI`.
    Others,
    /// The APIs of `OpenAI` for models that any region of an area may run.
    AreaOpenAi,
}

/// A host of Bedrock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BedrockHost {
    /// `bedrock-mantle.REGION.api.aws`.
    Mantle,
    /// `bedrock-runtime.REGION.amazonaws.com`.
    Runtime,
}

impl BedrockDoor {
    /// Returns the door that has the model of an id.
    pub fn of(id: &str) -> Self {
        let (area, own) = split(id);
        match (area, own.split_once('.')) {
            ("", Some(("anthropic", _))) => Self::Messages,
            (_, Some(("anthropic", _))) => Self::AreaMessages,
            ("", Some(("openai", model))) if !model.starts_with("gpt-oss") => Self::OpenAi,
            ("", _) => Self::Others,
            _ => Self::AreaOpenAi,
        }
    }

    /// Returns the host of the door.
    pub fn host(self) -> BedrockHost {
        match self {
            Self::Messages | Self::OpenAi | Self::Others => BedrockHost::Mantle,
            Self::AreaMessages | Self::AreaOpenAi => BedrockHost::Runtime,
        }
    }

    /// Returns the path of the API on the host.
    pub fn path(self) -> &'static str {
        match self {
            Self::Messages | Self::AreaMessages => "/anthropic/v1",
            Self::OpenAi | Self::AreaOpenAi => "/openai/v1",
            Self::Others => "/v1",
        }
    }
}

impl BedrockHost {
    /// Returns the URL of the host in a region.
    pub fn url(self, region: &str) -> String {
        match self {
            Self::Mantle => format!("https://bedrock-mantle.{region}.api.aws"),
            Self::Runtime => format!("https://bedrock-runtime.{region}.amazonaws.com"),
        }
    }

    /// Returns the name of the service in signatures.
    pub fn service(self) -> &'static str {
        match self {
            Self::Mantle => "bedrock-mantle",
            Self::Runtime => "bedrock",
        }
    }
}

/// Refuses ids that no door has, such as `us.anthropic.claude-3-7-sonnet-20250219-v1:0`: they are those of Bedrock's
/// older API. The error says what to do.
pub fn check(id: &str) -> Result<(), String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let version = id.rsplit_once(':').filter(|(_, minor)| is_number(minor));
    if id.starts_with("arn:") || version.is_some() {
        let (_, own) = split(id);
        let vendor = own.split_once('.').map_or("VENDOR", |(vendor, _)| vendor);
        return Err(format!(
            "Bedrock serves the model `{id}` by InvokeModel alone, an older API that tandem does not have. Choose a \
             newer model, whose id has no version at its end, such as `bedrock:{vendor}.MODEL`."
        ));
    }
    Ok(())
}

/// Returns the id that a model has at its vendor: `gpt-6-sol` for `us.openai.gpt-6-sol`.
pub(super) fn id_at_vendor(id: &str) -> &str {
    let (_, own) = split(id);
    own.split_once('.').map_or(own, |(_, model)| model)
}

/// Splits an id into its area, which is empty for the models of one region, and the rest.
fn split(id: &str) -> (&str, &str) {
    let area = AREA_PREFIXES.into_iter().find(|area| id.starts_with(area)).unwrap_or_default();
    id.split_at(area.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;

    #[track_caller]
    fn leads(id: &str, door: BedrockDoor, expected: &str) {
        let found = BedrockDoor::of(id);
        assert_eq!(found, door, "{id}");
        assert_eq!(format!("{}{}", found.host().url("r"), found.path()), expected, "{id}");
        assert_eq!(check(id), Ok(()), "{id}");
    }

    #[test]
    fn an_id_says_which_door_has_the_model() {
        let (mantle, runtime) =
            ("https://bedrock-mantle.r.api.aws", "https://bedrock-runtime.r.amazonaws.com");
        let at = |host: &str, path: &str| format!("{host}{path}");
        leads("anthropic.claude-opus-5", BedrockDoor::Messages, &at(mantle, "/anthropic/v1"));
        let area = at(runtime, "/anthropic/v1");
        leads("eu.anthropic.claude-opus-5", BedrockDoor::AreaMessages, &area);
        leads("openai.gpt-5.6-sol", BedrockDoor::OpenAi, &at(mantle, "/openai/v1"));
        leads("openai.gpt-oss-120b", BedrockDoor::Others, &at(mantle, "/v1"));
        leads("qwen.qwen3-coder-next", BedrockDoor::Others, &at(mantle, "/v1"));
        leads("", BedrockDoor::Others, &at(mantle, "/v1"));
        for id in ["us.openai.gpt-5.6-sol", "global.openai.gpt-5.6-sol"] {
            leads(id, BedrockDoor::AreaOpenAi, &at(runtime, "/openai/v1"));
        }
    }

    #[test]
    fn ids_of_the_older_api_are_refused() {
        for id in [
            "us.anthropic.claude-sonnet-4-20250514-v1:0",
            "anthropic.claude-3-haiku-20240307-v1:0",
            "amazon.nova-pro-v1:0",
            "arn:aws:bedrock:us-east-1:1:application-inference-profile/x",
        ] {
            assert!(check(id).unwrap_err().contains("InvokeModel"), "{id}");
        }
        let error = check("us.amazon.nova-pro-v1:0").unwrap_err();
        assert!(error.ends_with("such as `bedrock:amazon.MODEL`."), "{error}");
    }

    #[test]
    fn a_model_has_the_facts_of_its_vendor_and_no_price() {
        let catalog = Catalog::embedded();
        for (id, vendors) in [
            ("bedrock:anthropic.claude-opus-5", "anthropic:claude-opus-5"),
            ("bedrock:us.openai.gpt-6-sol", "openai:gpt-6-sol"),
        ] {
            let (here, there) = (catalog.lookup(id), catalog.lookup(vendors));
            assert!(here.input_tokens > 0);
            assert_eq!(
                (here.input_tokens, here.thinking, here.wire),
                (there.input_tokens, there.thinking, there.wire)
            );
            assert_eq!(here.prices, crate::Prices::default());
        }
    }
}
