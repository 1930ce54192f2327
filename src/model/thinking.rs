//! Levels of thinking, as people choose them.

/// Levels of thinking that a model offers, in lowercase.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThinkingLevels {
    /// Levels, from less to more; empty if the model offers none.
    pub levels: Vec<String>,
    /// Level of requests that name none, if known: the user's setting, else the model's own.
    pub default: Option<String>,
}

impl ThinkingLevels {
    /// Returns the level that a person has named, in the model's spelling, if the model offers it.
    pub fn find(&self, wanted: &str) -> Option<&str> {
        let wanted = wanted.trim();
        let level = self.levels.iter().find(|level| level.eq_ignore_ascii_case(wanted));
        level.map(String::as_str)
    }
}
