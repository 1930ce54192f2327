//! Links the unwinder into the program, where the compiler has it as a static library.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=.cargo/build.rs");
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    // One library fewer to find and set up: a tenth of the time to the first answer.
    if target("OS") == "linux" && target("ENV") == "gnu" && has_static_unwinder() {
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// Returns whether the C compiler that links has `libgcc_eh.a` for the target.
fn has_static_unwinder() -> bool {
    let is_native = env::var("HOST") == env::var("TARGET");
    let output = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    // A file that the compiler does not have is printed without a directory.
    let path = output.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    is_native && path.is_some_and(|path| Path::new(path.trim()).is_absolute())
}
