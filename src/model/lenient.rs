//! Fields that only inform: read where their type is right, else left out.

use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Deserializer};
use serde_json::Value;

/// Deserializes a field; `None` where its type is another one. For what only informs, such as
/// token counts: a gateway that writes `"12"` for `12` must not cost the answer.
pub(super) fn optional<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).ok())
}
