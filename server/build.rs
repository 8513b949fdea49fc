//! Tells the server where the bundled site lies, `site` in cargo's target directory unless `CHATGXY_SITE_DIR` says otherwise.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-env-changed=CHATGXY_SITE_DIR");
    let site = env::var_os("CHATGXY_SITE_DIR").map_or_else(|| target_dir().join("site"), PathBuf::from);
    // The embedding macro refuses a directory that does not exist; the server itself says what is missing when it starts.
    fs::create_dir_all(&site).expect("the directory of the site can be made");
    // A release binary holds the site, whose manifest changes whenever a file of it does; a debug one reads it from disk.
    if env::var_os("PROFILE").is_some_and(|profile| profile == "release") {
        println!("cargo::rerun-if-changed={}", site.join("site.json").display());
    }
    println!("cargo::rustc-env=CHATGXY_SITE_DIR={}", site.display());
}

/// Cargo marks its target directory with a file; ours is somewhere below it.
fn target_dir() -> PathBuf {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let marked = |dir: &&Path| dir.join("CACHEDIR.TAG").exists();
    out.ancestors().find(marked).or_else(|| out.ancestors().nth(4)).expect("OUT_DIR is deep inside the target directory").to_path_buf()
}
