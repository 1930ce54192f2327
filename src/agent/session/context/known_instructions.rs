//! The system instruction of a conversation, and the instructions that the model knows, folded from the log. So a
//! session that is loaded, forked or rewound goes on with the same system instruction, byte by byte.

use std::collections::BTreeMap;
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
    /// Index of the event by which each subject of the surroundings was told last.
    surroundings_told_at: BTreeMap<String, usize>,
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

    /// Folds in the event at an index of the log.
    pub(super) fn fold(&mut self, event: &Event, index: usize) {
        match event {
            Event::SystemPrompt(text) => self.last_text = Some(Arc::clone(text)),
            Event::InstructionsTold(told) => {
                if told.by_system
                    && let Some(text) = self.last_text.clone()
                {
                    self.system = Some(SystemInstruction { text, told: Arc::clone(told) });
                }
                let known = |subject: &String| self.told.surroundings.get(subject);
                let changed = told
                    .surroundings
                    .iter()
                    .filter(|(subject, text)| known(subject) != Some(*text));
                let changed = changed.map(|(subject, _)| (subject.clone(), index));
                self.surroundings_told_at.extend(changed.collect::<Vec<_>>());
                self.told = Arc::clone(told);
            }
            Event::Compressed(short) => self.told = Arc::new(self.after_compression(short.from)),
            Event::Forgotten => (self.system, self.told) = Default::default(),
            _ => {}
        }
    }

    /// Returns the instructions that the model knows for certain after a compression that keeps the messages from the
    /// index `kept_from` on: those of the system instruction, and the surroundings in the kept messages. Other texts
    /// that were added since may be among the messages that are replaced. The list of visited directories stays without
    /// the digests of their files, so that these files are told again.
    fn after_compression(&self, kept_from: usize) -> ToldInstructions {
        let of_system = self.system.as_ref().map(|system| ToldInstructions::clone(&system.told));
        let mut told = of_system.unwrap_or_default();
        let is_kept = |subject: &String| {
            self.surroundings_told_at.get(subject).is_some_and(|at| *at >= kept_from)
        };
        let kept = self.told.surroundings.iter().filter(|(subject, _)| is_kept(subject));
        told.surroundings.extend(kept.map(|(subject, text)| (subject.clone(), text.clone())));
        ToldInstructions { directories: self.told.directories.clone(), ..told }
    }

    /// Folds in an event of a rewound part: the system instruction in it counts no more. A conversation that is rewound
    /// to before its first request begins with a new one.
    pub(super) fn fold_rewound(&mut self, event: &Event) {
        if let Event::SystemPrompt(text) = event {
            self.last_text = Some(Arc::clone(text));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::session::events::event::Compressed;

    use super::*;

    #[track_caller]
    fn check(kept_from: usize, expected: &str) {
        let told = |mode: &str, by_system| {
            let surroundings = [("mode".to_owned(), mode.to_owned())].into();
            Event::InstructionsTold(Arc::new(ToldInstructions {
                by_system,
                surroundings,
                ..ToldInstructions::default()
            }))
        };
        let short = Compressed { from: kept_from, ..Compressed::default() };
        let events = [
            Event::SystemPrompt("Rules.".into()),
            told("default", true),
            told("plan", false),
            Event::Compressed(Arc::new(short)),
        ];
        let mut known = KnownInstructions::default();
        for (index, event) in events.iter().enumerate() {
            known.fold(event, index);
        }
        assert_eq!(known.told().surroundings["mode"], expected);
    }

    #[test]
    fn after_a_compression_the_model_knows_what_the_kept_messages_say() {
        check(2, "plan");
        check(3, "default");
    }
}
