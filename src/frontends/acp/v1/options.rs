//! Options of a session that an editor can set: the approval mode, the model, and the model's level of thinking.

use tandem_agent::session::{DEFAULT_THINKING, Mode, Session, ThinkingLevels, shown_id};
use tandem_wire::acp::v1::{ConfigOption, ConfigValue, SessionMode, SessionModes, SessionOptions};

/// Id of the option that is the approval mode.
const MODE_ID: &str = "mode";

/// Id of the option that is the model.
const MODEL_ID: &str = "model";

/// Id of the option that is the level of thinking.
const THINKING_ID: &str = "thinking";

/// A setting that an editor changes.
pub(super) enum Setting {
    Mode(Mode),
    Model(String),
    /// Level of thinking; `None` for the default of the settings or the model.
    Thinking(Option<String>),
}

impl Setting {
    /// Reads a value of an option. The error for an unknown option lists the options.
    pub(super) fn read(option: &str, value: String) -> Result<Self, String> {
        match option {
            MODE_ID => Self::mode(&value).map(Self::Mode),
            MODEL_ID => Ok(Self::Model(value)),
            THINKING_ID => {
                Ok(Self::Thinking(Some(value).filter(|level| level != DEFAULT_THINKING)))
            }
            _ => Err(format!(
                "unknown option `{option}`; the options are `{MODE_ID}`, `{MODEL_ID}` and `{THINKING_ID}`"
            )),
        }
    }

    /// Reads the id of an approval mode.
    pub(super) fn mode(id: &str) -> Result<Mode, String> {
        id.parse().map_err(|why| format!("`{id}` is not a mode: it {why}"))
    }
}

/// Options of a session, with their current and possible values.
pub(super) struct Choices {
    modes: SessionModes,
    options: Vec<ConfigOption>,
}

/// Returns the options of a session. `known` are the ids of the models that can be chosen.
pub(super) fn session_options(session: &Session, known: &[String]) -> Choices {
    let option = |id, name, category, current_value, options| ConfigOption {
        id,
        name,
        category,
        r#type: "select",
        current_value,
        options,
    };
    let modes = SessionModes {
        current_mode_id: session.modes().current().to_string(),
        available_modes: session.modes().allowed().into_iter().map(session_mode).collect(),
    };
    let mode_values = modes.available_modes.iter().map(|mode| ConfigValue {
        value: mode.id.clone(),
        name: mode.name.to_owned(),
        description: Some(mode.description.into()),
    });
    let current = session.model();
    let others = known.iter().filter(|id| **id != current);
    let ids = std::iter::once(&current).chain(others).map(|id| ConfigValue {
        value: id.clone(),
        name: shown_id(id),
        description: None,
    });
    let mut options = vec![
        option(
            MODE_ID,
            "Approval mode",
            MODE_ID,
            modes.current_mode_id.clone(),
            mode_values.collect(),
        ),
        option(MODEL_ID, "Model", MODEL_ID, current.clone(), ids.collect()),
    ];
    let levels = thinking_values(session.thinking_levels());
    if !levels.is_empty() {
        let level = session.thinking().unwrap_or_else(|| DEFAULT_THINKING.to_owned());
        options.push(option(THINKING_ID, "Thinking", "thought_level", level, levels));
    }
    Choices { modes, options }
}

impl Choices {
    /// Returns the result of a request that opens a session. The result for a new session has the session's id.
    pub(super) fn opened(self, session_id: Option<String>) -> SessionOptions {
        let Self { modes, options } = self;
        SessionOptions { session_id, modes: Some(modes), config_options: options }
    }

    /// Returns the result of a request that changes an option.
    pub(super) fn changed(self) -> SessionOptions {
        SessionOptions { session_id: None, modes: None, config_options: self.options }
    }

    /// Returns all options.
    pub(super) fn options(self) -> Vec<ConfigOption> {
        self.options
    }
}

/// Returns the levels of thinking to choose from, the default first; none if the model offers no levels.
fn thinking_values(ThinkingLevels { levels, default }: ThinkingLevels) -> Vec<ConfigValue> {
    if levels.is_empty() {
        return Vec::new();
    }
    let description =
        default.map(|level| format!("As the settings or the model have it: {level}").into());
    let default = ConfigValue {
        value: DEFAULT_THINKING.to_owned(),
        name: title(DEFAULT_THINKING),
        description,
    };
    let levels = levels.into_iter().map(|value| {
        let name = title(&value);
        ConfigValue { value, name, description: None }
    });
    std::iter::once(default).chain(levels).collect()
}

/// Returns the name of a level with a capital first letter.
fn title(level: &str) -> String {
    let mut rest = level.chars();
    rest.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(rest).collect()
}

fn session_mode(mode: Mode) -> SessionMode {
    let (name, description) = match mode {
        Mode::Default => ("Ask", "Asks before it changes something"),
        Mode::AutoEdit => ("Edit", "Changes files of the workspace without a question"),
        Mode::Yolo => ("Everything", "Runs everything without a question"),
        Mode::Plan => ("Plan", "Only reads, and answers with a plan"),
    };
    SessionMode { id: mode.to_string(), name, description }
}
