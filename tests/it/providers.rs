//! Models of the providers, asked by the program.

mod anthropic;
mod local;
mod openai;
mod responses;
mod strict;
