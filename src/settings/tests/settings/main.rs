//! Settings, credentials and logins, read from files and the environment as the program reads them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
#![expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
#![expect(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod consent;
mod credentials;
mod env_file;
mod files;
mod login;
mod login_page;
mod models_file;
mod permissions;
