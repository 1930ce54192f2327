//! The system instruction of a conversation, and the instructions that the model knows, folded from the log. So a
//! session that is loaded, forked or rewound goes on with the same system instruction, byte by byte.

use std::sync::Arc;

use crate::session::events::event::{Event, ToldInstructions};
use tandem_model::tokens;

/// The system instruction of the conversation, and the instructions that the model knows.
#[derive(Clone, Default)]
pub(crate) struct KnownInstructions {
    /// Text of the last event with a system instruction.
    last_text: Option<Arc<str>>,
    /// The system instruction; `None` before the first request of the conversation.
    system: Option<SystemInstruction>,
    /// The instructions that the model knows.
    told: Arc<ToldInstructions>,
}

/// A system instruction, with the instructions in it.
#[derive(Clone)]
struct SystemInstruction {
    text: Arc<str>,
    told: Arc<ToldInstructions>,
}

impl KnownInstructions {
    /// Returns the system instruction; `None` before the first request of the conversation.
    pub(crate) fn system(&self) -> Option<&Arc<str>> {
        self.system.as_ref().map(|system| &system.text)
    }

    /// Returns the instructions that the model knows.
    pub(crate) fn told(&self) -> &ToldInstructions {
        &self.told
    }

    /// Returns `true` if a text was the last system instruction of the log.
    pub(crate) fn is_last(&self, text: &str) -> bool {
        self.last_text.as_deref() == Some(text)
    }

    /// Returns the number of tokens of the system instruction; 0 before the first request of the conversation.
    pub(super) fn tokens(&self) -> u64 {
        self.system().map_or(0, |text| tokens::of_text(text))
    }

    /// Folds in an event.
    pub(super) fn fold(&mut self, event: &Event) {
        match event {
            Event::SystemPrompt(text) => self.last_text = Some(Arc::clone(text)),
            Event::InstructionsTold(told) => {
                if told.by_system
                    && let Some(text) = self.last_text.clone()
                {
                    self.system = Some(SystemInstruction { text, told: Arc::clone(told) });
                }
                self.told = Arc::clone(told);
            }
            Event::Compressed(_) => self.told = Arc::new(self.after_compression()),
            Event::Forgotten => (self.system, self.told) = Default::default(),
            _ => {}
        }
    }

    /// Returns the instructions that the model knows for certain after a compression: those of the system instruction.
    /// The texts that were added since may be among the messages that are replaced. The directories stay, so that their
    /// files are told again.
    fn after_compression(&self) -> ToldInstructions {
        let of_system = self.system.as_ref().map(|system| ToldInstructions::clone(&system.told));
        let directories = self.told.directories.clone();
        ToldInstructions { directories, ..of_system.unwrap_or_default() }
    }

    /// Folds in an event of a rewound part: the system instruction in it counts no more. A conversation that is rewound
    /// to before its first request begins with a new one.
    pub(super) fn fold_rewound(&mut self, event: &Event) {
        if let Event::SystemPrompt(text) = event {
            self.last_text = Some(Arc::clone(text));
        }
    }
}
