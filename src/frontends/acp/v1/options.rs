//! Options that an editor can set in a session: the approval mode and the model.

use tandem_agent::session::{Mode, Session};
use tandem_wire::acp::v1::{ConfigOption, ConfigValue, SessionMode, SessionModes, SessionOptions};

/// Id of the option that is the approval mode.
const MODE: &str = "mode";

/// Id of the option that is the model.
const MODEL: &str = "model";

/// A setting that an editor changes.
pub(super) enum Setting {
    Mode(Mode),
    Model(String),
}

impl Setting {
    /// Reads a value of an option. The error lists what there is.
    pub(super) fn read(option: &str, value: String) -> Result<Self, String> {
        match option {
            MODE => Self::mode(&value).map(Self::Mode),
            MODEL => Ok(Self::Model(value)),
            _ => Err(format!("unknown option `{option}`; the options are `{MODE}` and `{MODEL}`")),
        }
    }

    /// Reads the id of an approval mode.
    pub(super) fn mode(id: &str) -> Result<Mode, String> {
        id.parse().map_err(|why| format!("`{id}` is no mode: it {why}"))
    }
}

/// The choices of a session, as they are now.
pub(super) struct Choices {
    modes: SessionModes,
    options: Vec<ConfigOption>,
}

/// Returns the choices of a session. `known`: the models that are known by name.
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
        current_mode_id: session.mode().to_string(),
        available_modes: session.modes().into_iter().map(session_mode).collect(),
    };
    let mode_values = modes.available_modes.iter().map(|mode| ConfigValue {
        value: mode.id.clone(),
        name: mode.name.to_owned(),
        description: Some(mode.description),
    });
    let current = session.model();
    let others = known.iter().filter(|id| **id != current);
    let ids = std::iter::once(&current).chain(others).map(|id| ConfigValue {
        value: id.clone(),
        name: id.clone(),
        description: None,
    });
    let options = vec![
        option(MODE, "Approval mode", MODE, modes.current_mode_id.clone(), mode_values.collect()),
        option(MODEL, "Model", MODEL, current.clone(), ids.collect()),
    ];
    Choices { modes, options }
}

impl Choices {
    /// Returns the result of a session's opening; a new one has an id.
    pub(super) fn opened(self, session_id: Option<String>) -> SessionOptions {
        let Self { modes, options } = self;
        SessionOptions { session_id, modes: Some(modes), config_options: options }
    }

    /// Returns the result of a change.
    pub(super) fn changed(self) -> SessionOptions {
        SessionOptions { session_id: None, modes: None, config_options: self.options }
    }

    /// Returns all options.
    pub(super) fn options(self) -> Vec<ConfigOption> {
        self.options
    }
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
