//! The A2A server of the real binary, as its clients meet it.

mod acp;
mod attach;
mod attached;
mod contexts;
mod ending;
mod errors;
mod guard;
mod http;
mod in_process;
mod limits;
mod load;
mod long;
mod mcp;
mod odd_agent;
mod permissions;
mod races;
mod rest;
mod retries;
mod server;
mod settings;
mod socket;
mod tasks;
mod together;
mod token;
mod turns;
mod web;
