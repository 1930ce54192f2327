//! Reading the web, as an agent does.

pub(crate) mod asking;
pub(crate) mod search;

use test_support::api_server::Reply;

/// Returns a reply with a page or file of this type.
fn page(content_type: &str, body: impl Into<Vec<u8>>) -> Reply {
    Reply::error(200, body).header("content-type", content_type)
}
