//! The A2A server of the real program, from the side of its clients.

mod abandoned;
mod acp;
mod acp_v1;
mod allowed_tools;
mod attach;
mod attached;
mod attachments;
mod called;
mod card_signature;
#[cfg(feature = "postgres")]
mod chaos;
mod clones;
mod confined;
mod contexts;
mod curl;
mod elsewhere;
mod ending;
mod errors;
#[cfg(feature = "postgres")]
mod first_messages;
mod guard;
mod handed_over;
mod http_json;
mod in_words;
mod limits;
mod load;
mod logs;
mod long;
mod mcp;
mod monitoring;
mod network;
#[cfg(feature = "postgres")]
mod newer;
#[cfg(feature = "postgres")]
mod nodes;
mod odd_agent;
#[cfg(feature = "postgres")]
mod outside;
mod permissions;
pub(crate) use permissions::first_options;
mod principals;
mod proxies;
mod races;
#[cfg(all(target_os = "linux", feature = "postgres"))]
mod refused;
mod rest;
mod results;
mod retries;
mod revived;
mod secrets;
pub(crate) mod server;
#[cfg(feature = "postgres")]
mod session_files;
mod settings;
mod streams;
mod tasks;
mod text_clients;
mod tls;
mod together;
mod token;
mod traces;
mod turns;
mod web;
mod withdrawn;

pub(crate) use test_support::{http, web_socket as socket};
