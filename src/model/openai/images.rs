//! Images that a server has refused, and which are not sent again.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use crate::{Message, Part};
use tandem_content::media::Media;

/// Refused images, by the hashes of their data.
#[derive(Debug, Clone, Default)]
pub(super) struct RefusedImages(HashSet<u64>);

impl RefusedImages {
    /// Adds the images of a conversation that may be behind an error about one image; returns `false` if none is new.
    pub(super) fn add(&mut self, messages: &[Arc<Message>]) -> bool {
        // The server has already answered prompts with the images before the last answer, so an image after it is the
        // likelier cause.
        let is_answer = |message: &Arc<Message>| matches!(**message, Message::Assistant(_));
        let last = messages.iter().rposition(is_answer).unwrap_or_default();
        self.add_all(&messages[last..]) || self.add_all(messages)
    }

    /// Returns `true` if a server has refused an image.
    pub(super) fn has(&self, image: &Media) -> bool {
        // Images are megabytes long, and are hashed only if there is something to compare with.
        !self.0.is_empty() && self.0.contains(&hash(image))
    }

    fn add_all(&mut self, messages: &[Arc<Message>]) -> bool {
        let before = self.0.len();
        let media = messages.iter().flat_map(|message| media(message));
        self.0.extend(media.filter(|media| is_image(media)).map(hash));
        self.0.len() > before
    }
}

/// Returns `true` if media are an image.
pub(super) fn is_image(media: &Media) -> bool {
    media.mime_type.starts_with("image/")
}

fn media(message: &Message) -> Vec<&Media> {
    match message {
        Message::User(parts) => {
            let media = parts.iter().filter_map(|part| match part {
                Part::Media(media) => Some(media),
                Part::Text(_) => None,
            });
            media.collect()
        }
        Message::Assistant(_) => Vec::new(),
        Message::Results(results) => results.iter().flat_map(|result| &result.media).collect(),
    }
}

fn hash(image: &Media) -> u64 {
    let mut hasher = DefaultHasher::new();
    image.data.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Assistant;

    #[test]
    fn images_since_the_last_answer_are_suspected_before_older_ones() {
        let image = |data: &[u8]| Media::new("image/png", data);
        let shown = |data: &[u8]| Arc::new(Message::User(vec![Part::Media(image(data))]));
        let answer = Arc::new(Message::Assistant(Assistant::default()));
        let messages = [shown(b"old"), answer, shown(b"new")];
        let mut refused = RefusedImages::default();
        assert!(!refused.has(&image(b"new")));
        assert!(refused.add(&messages));
        assert!(refused.has(&image(b"new")) && !refused.has(&image(b"old")));
        assert!(refused.add(&messages));
        assert!(refused.has(&image(b"old")));
        assert!(!refused.add(&messages));
    }
}
