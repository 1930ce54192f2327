//! What a command line would run.
