//! The audience of a tool's texts: a model and its session.

/// Facts on a model and its session on which the texts of tools depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolAudience {
    /// `true` if a person can be asked.
    pub is_attended: bool,
    /// `true` if the model is told of the short set of built-in tools alone, which has no tool for commands in the
    /// background.
    pub has_short_set: bool,
    /// Name of the tool that changes parts of files; `None` if the model has no such tool.
    pub edit_tool: Option<&'static str>,
}

impl Default for ToolAudience {
    fn default() -> Self {
        Self { is_attended: true, has_short_set: false, edit_tool: Some("replace") }
    }
}
