//! Objects of peers, read leniently, and the writer of objects whose fields differ between the versions.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::error;
use crate::jsonrpc::Error;

/// Object of a peer. A field is found under its name in camelCase and in `snake_case`. A null, and a value of another
/// type than the expected one, count as missing: one odd field must not make the whole object unreadable.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fields(pub Map<String, Value>);

impl From<Value> for Fields {
    /// Returns the fields of any JSON: none if the JSON is no object.
    fn from(json: Value) -> Self {
        Self::deserialize(json).unwrap_or_default()
    }
}

impl Fields {
    /// Returns the name under which a field is there.
    fn spelling<'a>(&self, name: &'a str) -> Cow<'a, str> {
        match self.0.get(name) {
            None | Some(Value::Null) => Cow::Owned(in_snake_case(name)),
            Some(_) => Cow::Borrowed(name),
        }
    }

    /// Returns a field of any type.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(&*self.spelling(name)).filter(|value| !value.is_null())
    }

    /// Returns a text that is not empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.value(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// Returns a copy of an object.
    pub fn object(&self, name: &str) -> Option<Self> {
        self.value(name)?.as_object().cloned().map(Self)
    }

    /// Returns a flag.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.value(name)?.as_bool()
    }

    /// Takes a field out of the object.
    pub fn take<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        let value = self.0.get_mut(&*self.spelling(name))?.take();
        if value.is_null() { None } else { T::deserialize(value).ok() }
    }

    /// Takes a field out of the object; a missing field has the default of its type.
    pub fn take_or_default<T: DeserializeOwned + Default>(&mut self, name: &str) -> T {
        self.take(name).unwrap_or_default()
    }

    /// Takes a list out of the object. An item of another type becomes the default of its type, so that all other items
    /// keep their places.
    pub fn take_list<T: DeserializeOwned + Default>(&mut self, name: &str) -> Vec<T> {
        let items = self.take_or_default::<Vec<Value>>(name).into_iter();
        items.map(|item| T::deserialize(item).unwrap_or_default()).collect()
    }

    /// Returns a count. Some clients write `1.0`.
    pub fn count(&self, name: &str) -> Result<Option<usize>, Error> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let whole = value.as_f64().filter(|number| *number >= 0.0 && number.fract() == 0.0);
        // A number too large for the type counts as the maximum.
        let count = whole.map(|number| format!("{number:.0}").parse().unwrap_or(usize::MAX));
        let wrong = || error::invalid_params(format!("`{name}` must be 0, 1, 2, ..."));
        count.ok_or_else(wrong).map(Some)
    }
}

/// Returns a name in `snake_case`.
fn in_snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// Writer of an object.
pub(crate) struct ObjectWriter<S: Serializer>(S::SerializeMap);

impl<S: Serializer> ObjectWriter<S> {
    pub(crate) fn new(serializer: S) -> Result<Self, S::Error> {
        serializer.serialize_map(None).map(Self)
    }

    /// Writes a field.
    pub(crate) fn field(
        &mut self,
        name: &str,
        value: &(impl Serialize + ?Sized),
    ) -> Result<(), S::Error> {
        self.0.serialize_entry(name, value)
    }

    /// Writes a field if there is a value.
    pub(crate) fn optional(
        &mut self,
        name: &str,
        value: Option<impl Serialize>,
    ) -> Result<(), S::Error> {
        value.map_or(Ok(()), |value| self.field(name, &value))
    }

    /// Writes a field under two names if there is a value.
    pub(crate) fn twice(
        &mut self,
        names: [&str; 2],
        value: Option<&impl Serialize>,
    ) -> Result<(), S::Error> {
        names.into_iter().try_for_each(|name| self.optional(name, value))
    }

    /// Writes a text unless the text is empty.
    pub(crate) fn text(&mut self, name: &str, text: &str) -> Result<(), S::Error> {
        self.optional(name, Some(text).filter(|text| !text.is_empty()))
    }

    pub(crate) fn end(self) -> Result<S::Ok, S::Error> {
        self.0.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(object: Value) -> Fields {
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_count_may_be_written_as_a_float() {
        let count = |value: Value| fields(json!({ "n": value })).count("n").map_err(|_| "wrong");
        assert_eq!(count(json!(2.0)), Ok(Some(2)));
        assert_eq!(count(json!(null)), Ok(None));
        assert_eq!(count(json!(1e300)), Ok(Some(usize::MAX)));
        assert_eq!(count(json!(-1)), Err("wrong"));
        assert_eq!(count(json!("1")), Err("wrong"));
    }

    #[test]
    fn a_field_has_two_spellings_and_may_be_odd() {
        let mut object =
            fields(json!({ "taskId": null, "task_id": "t", "odd": 5, "list": ["a", 5] }));
        assert_eq!(object.text("taskId"), Some("t"));
        assert_eq!(object.take::<String>("odd"), None);
        assert_eq!(object.take_list::<String>("list"), ["a", ""]);
        assert_eq!(object.take::<String>("taskId").as_deref(), Some("t"));
        assert_eq!(object.take::<Value>("taskId"), None);
    }
}
