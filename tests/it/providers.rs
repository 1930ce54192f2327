//! Models of the providers, asked by the program.

mod anthropic;
mod openai;
mod responses;
