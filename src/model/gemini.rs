//! The Gemini API: `streamGenerateContent` over server-sent events.

use std::sync::Arc;

use super::Secret;

/// Where the API is, and as whom it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Up to and including the collection of models, without a slash at the end:
    /// `https://generativelanguage.googleapis.com/v1beta/models`.
    pub models_url: String,
    /// Sent as `x-goog-api-key`, or as a bearer token. A gateway may need none.
    pub key: Option<Secret>,
    /// Whether the key goes into `Authorization: Bearer`.
    pub bearer: bool,
    /// Sent with every request.
    pub headers: Vec<(String, String)>,
}

/// Looks up the endpoint; asked anew for each request, so that a login counts at once. The error
/// says what is missing and what to do.
pub type Connect = Arc<dyn Fn() -> Result<Endpoint, String> + Send + Sync>;
