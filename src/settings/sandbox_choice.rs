//! The choice of a sandbox for commands.

use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use tandem_sandbox::SandboxMode;

/// Choice of a sandbox for commands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SandboxChoice {
    /// No sandbox.
    Off,
    /// The approval mode decides: `read-only` where it asks about changes, `workspace-write` elsewhere.
    #[default]
    Automatic,
    /// The given sandbox, independent of the approval mode.
    Mode(SandboxMode),
    /// A value that names no sandbox: commands are refused until it is corrected.
    Unreadable,
}

impl SandboxChoice {
    /// Reads a value of a settings file, a flag or a variable. The error says what the value must be.
    pub(super) fn read(value: &Value) -> Result<Self, String> {
        match value {
            // `null` never comes from a file, flag or variable: the merging of layers puts it in place of a wrong
            // value.
            Value::Null => Ok(Self::Unreadable),
            Value::Bool(false) => Ok(Self::Off),
            Value::Bool(true) => Ok(Self::Automatic),
            Value::String(name) => name.parse(),
            Value::Object(object) => match object.get("enabled") {
                None | Some(Value::Bool(true)) => Ok(Self::Automatic),
                Some(Value::Bool(false)) => Ok(Self::Off),
                Some(_) => Err("`enabled` must be true or false".to_owned()),
            },
            _ => Err("must be true, false, or the name of a mode".to_owned()),
        }
    }

    /// Returns the value of the choice in a settings file.
    pub fn value(self) -> Value {
        match self {
            Self::Unreadable => Value::Null,
            Self::Off => Value::Bool(false),
            Self::Automatic => Value::Bool(true),
            Self::Mode(mode) => Value::String(mode.name().to_owned()),
        }
    }
}

impl FromStr for SandboxChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "true" | "1" => Ok(Self::Automatic),
            "false" | "0" | "none" => Ok(Self::Off),
            "docker" | "podman" | "sandbox-exec" | "runsc" | "lxc" => Err(format!(
                "`{name}` is not supported: tandem fences commands in by itself (`true`); to put \
                 all of it into a container, start it there"
            )),
            name => match name.parse() {
                Ok(SandboxMode::DangerFullAccess) => Ok(Self::Off),
                Ok(mode) => Ok(Self::Mode(mode)),
                Err(why) => Err(format!("{why}, true, false")),
            },
        }
    }
}

impl<'de> Deserialize<'de> for SandboxChoice {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::read(&Value::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl Serialize for SandboxChoice {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(to)
    }
}
