//! Events that this version does not know: kept as they were written.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::Event;

/// An event as JSON, exactly as another version wrote it.
#[derive(Debug, Clone)]
pub struct UnknownEvent(Box<RawValue>);

impl UnknownEvent {
    /// The JSON.
    pub fn json(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for UnknownEvent {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unknown(unknown) => unknown.0.serialize(serializer),
            // The derived one, which is no trait's.
            known => Self::serialize(known, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Event {
    /// Reads an event. Any JSON is one: what is of no known shape is [`Event::Unknown`].
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let known = Self::deserialize(&mut serde_json::Deserializer::from_str(json.get()));
        Ok(known.unwrap_or_else(|_| Self::Unknown(UnknownEvent(json))))
    }
}
