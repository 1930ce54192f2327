//! Addresses of Vertex AI: where a model of Google or of Anthropic is asked.

/// Version of the API for Claude, in requests.
pub(super) const CLAUDE_VERSION: &str = "vertex-2023-10-16";

/// Returns `true` if a model is one of Anthropic.
pub fn is_claude(id: &str) -> bool {
    id.starts_with("claude-")
}

/// Returns the URL of the host for a location: a region, an area (`us`, `eu`), or `global`.
pub fn host_url(location: &str) -> String {
    match location {
        "global" => "https://aiplatform.googleapis.com".to_owned(),
        "us" | "eu" => format!("https://aiplatform.{location}.rep.googleapis.com"),
        region => format!("https://{region}-aiplatform.googleapis.com"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;

    #[test]
    fn each_kind_of_location_has_a_host_of_its_own() {
        assert_eq!(host_url("global"), "https://aiplatform.googleapis.com");
        assert_eq!(host_url("eu"), "https://aiplatform.eu.rep.googleapis.com");
        assert_eq!(host_url("europe-west4"), "https://europe-west4-aiplatform.googleapis.com");
    }

    #[test]
    fn a_model_has_the_facts_of_its_vendor_and_no_price() {
        let catalog = Catalog::embedded();
        for (id, vendors) in [
            ("vertex:gemini-3.8-flash", "gemini-3.8-flash"),
            ("vertex:claude-opus-5@20260601", "anthropic:claude-opus-5"),
        ] {
            let (here, there) = (catalog.lookup(id), catalog.lookup(vendors));
            assert!(here.input_tokens > 0);
            assert_eq!(
                (here.input_tokens, here.thinking, here.signatures),
                (there.input_tokens, there.thinking, there.signatures)
            );
            assert_eq!(here.prices, crate::Prices::default());
        }
    }
}
