//! Content of sessions, which is what people, models and tools say, as attributes of spans, if the user wants it there.

use std::sync::OnceLock;

use serde_json::Value;
use tracing::Span;

/// Options of the user; unset if spans have no content. Set at most once in the life of the process.
static CONTENT_OPTIONS: OnceLock<ContentOptions> = OnceLock::new();

/// Length at which texts are not shortened further, in bytes.
const MIN_TEXT_BYTES: usize = 16;

/// Form of the content of sessions in attributes of spans.
pub struct ContentOptions {
    /// Maximum length of an attribute, in bytes.
    pub most: usize,
    /// Function that replaces the secrets in a text.
    pub redact: Box<dyn Fn(&mut String) + Send + Sync>,
}

/// Lets spans have content of sessions from now on. To be called once.
pub fn record_content(options: ContentOptions) {
    // A second call has no effect.
    let _ = CONTENT_OPTIONS.set(options);
}

/// Returns `true` if spans have content of sessions.
pub fn records_content() -> bool {
    CONTENT_OPTIONS.get().is_some()
}

/// Records a value as an attribute of a span, in JSON, if the user wants content in spans. Secrets are replaced, and
/// long texts are shortened so that the value fits.
pub fn record_value(span: &Span, name: &'static str, value: impl FnOnce() -> Value) {
    if let Some(options) = CONTENT_OPTIONS.get() {
        span.record(name, options.json(value(), options.most).as_str());
    }
}

/// Records a list as an attribute of a span, in JSON, if the user wants content in spans. The list has the newest
/// items, as many as fit, in their order.
pub fn record_newest(
    span: &Span,
    name: &'static str,
    newest_first: impl IntoIterator<Item = Value>,
) {
    if let Some(options) = CONTENT_OPTIONS.get() {
        span.record(name, options.newest(newest_first).as_str());
    }
}

impl ContentOptions {
    fn newest(&self, newest_first: impl IntoIterator<Item = Value>) -> String {
        let (mut items, mut left) = (Vec::new(), self.most.saturating_sub("[]".len()));
        for item in newest_first {
            let room = if items.is_empty() { left } else { usize::MAX };
            let json = self.json(item, room);
            if json.len() > left {
                break;
            }
            left = left.saturating_sub(json.len() + ",".len());
            items.push(json);
        }
        items.reverse();
        format!("[{}]", items.join(","))
    }

    fn json(&self, mut value: Value, most: usize) -> String {
        change_texts(&mut value, &|text| (self.redact)(text));
        let (mut json, mut longest) = (value.to_string(), most);
        while json.len() > most && longest > MIN_TEXT_BYTES {
            longest /= 2;
            let mut short = value.clone();
            change_texts(&mut short, &|text| cut(text, longest));
            json = short.to_string();
        }
        if json.len() > most {
            let left_out = format!("[{} bytes are left out]", value.to_string().len());
            return Value::from(left_out).to_string();
        }
        json
    }
}

/// Changes each text in a value. Names of fields stay as they are.
fn change_texts(value: &mut Value, change: &impl Fn(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| change_texts(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|it| change_texts(it, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Cuts a text, and adds a remark that says so.
fn cut(text: &mut String, longest: usize) {
    if text.len() > longest {
        let end = text.floor_char_boundary(longest);
        let left_out = format!("… [{} bytes are left out]", text.len() - end);
        text.truncate(end);
        text.push_str(&left_out);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn options(most: usize) -> ContentOptions {
        let redact = |text: &mut String| *text = text.replace("secret", "[key]");
        ContentOptions { most, redact: Box::new(redact) }
    }

    #[test]
    fn a_long_text_is_cut_and_what_is_short_stays() {
        let value = json!({ "command": "x".repeat(1000), "directory": "src", "n": 5 });
        let json = options(200).json(value, 200);
        assert!(json.len() <= 200, "{json}");
        let cut: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&cut["directory"], &cut["n"]), (&json!("src"), &json!(5)));
        let command = cut["command"].as_str().unwrap();
        assert!(command.starts_with("xxx") && command.ends_with(" bytes are left out]"), "{json}");
    }

    #[test]
    fn what_cannot_be_cut_is_left_out() {
        let json = options(100).json(json!(vec![1; 1000]), 100);
        assert_eq!(json, "\"[2001 bytes are left out]\"");
    }

    #[test]
    fn of_a_list_the_end_stays() {
        let newest_first = (0..100).rev().map(|n| json!({ "n": n }));
        assert_eq!(options(20).newest(newest_first), r#"[{"n":98},{"n":99}]"#);
        let json = options(100).newest([json!("é".repeat(1000)), json!("old")]);
        assert!(json.len() <= 100 && json.contains("left out"), "{json}");
    }

    #[test]
    fn a_secret_is_taken_out_before_a_text_is_cut() {
        let json = options(100).json(json!({ "a": ["the secret"] }), 100);
        assert_eq!(json, r#"{"a":["the [key]"]}"#);
    }
}
