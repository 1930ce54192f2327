//! What other agents left behind: sessions of Gemini CLI.

mod gemini_cli;

pub use self::gemini_cli::{GeminiCli, WithGeminiCli};
