//! Links the program so that it starts sooner, where that is possible.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=.cargo/build.rs");
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("OS") != "linux" || target("ENV") != "gnu" {
        return;
    }
    // At a fixed address: every start is spared the relocation of a quarter of a megabyte of tables.
    // It is a tenth of the time to the first answer and a fifth of the memory. The libraries, the
    // heap and the stack are still put anywhere.
    println!("cargo::rustc-link-arg-bins=-no-pie");
    // With what unwinds the stack in it, where the compiler has that as a part: one library fewer
    // is looked for and set up. That too is a tenth, in a virtual machine.
    if has_unwinder() {
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
    // With what runs at every start in one place: see startup.py.
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") && has_usual_linker() {
        let script = env::var("CARGO_MANIFEST_DIR").unwrap_or_default() + "/.cargo/startup.ld";
        println!("cargo::rerun-if-changed={script}");
        println!("cargo::rustc-link-arg-bins=-T{script}");
    }
}

/// Whether it is a linker that takes such a script besides its own: some that users choose do not.
fn has_usual_linker() -> bool {
    env::var_os("RUSTC_LINKER").is_none()
        && env::var_os("CARGO_ENCODED_RUSTFLAGS").is_none_or(|flags| flags.is_empty())
}

/// Whether the C compiler that links, on the machine that it links for, has it.
fn has_unwinder() -> bool {
    let is_native = env::var("HOST") == env::var("TARGET");
    let asked = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    // Asked for a file that is not there, it says its name without a directory.
    let found = asked.ok().and_then(|asked| String::from_utf8(asked.stdout).ok());
    is_native && found.is_some_and(|found| Path::new(found.trim()).is_absolute())
}
