//! Settings, as the program takes and shows them.

mod shown;
mod whole;
