//! Bundles what the browser loads: the client through wasm-bindgen, the styles as one file, the public files as they are,
//! everything precompressed, and the client and styles under a path that changes with their content.
//!
//! ```text
//! site --dev|WASM_OPT WASM STYLE_DIR PUBLIC_DIR OUT_DIR
//! ```
//!
//! `OUT_DIR` afterwards holds exactly:
//!
//! ```text
//! site.json                    {"pkg": "/pkg/HASH", "content": "…"}
//! pkg/HASH/chatgxy.js          and chatgxy_bg.wasm, snippets/…, chatgxy.css
//! …                            the public files
//! *.br, *.gz                   beside each file that gets smaller
//! ```
//!
//! `WASM_OPT` is Binaryen's program of that name. `--dev` leaves it and compression out and keeps function names in the client, for
//! quick rebuilds and readable panics.
//!
//! # Why a tool of our own
//!
//! It is pinned by the workspace's lock file and cached with its target directory, so nothing has to be installed
//! beside the compiler, and wasm-bindgen can never differ from the version that the client was compiled with.

mod bundle;
mod compress;
mod style;

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Instant, UNIX_EPOCH},
};

use sha2::{Digest, Sha256};

use crate::bundle::{Files, Input};

/// An error is a line for a person: what was being done, to which file, and why it failed.
type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("site: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let started = Instant::now();
    let input = arguments()?;
    let stamp_file = input.out.with_extension("stamp");
    let stamp = stamp(&input)?;
    if fs::read_to_string(&stamp_file).is_ok_and(|last| last == stamp) && input.out.join("site.json").exists() {
        return Ok(());
    }
    let files = bundle::bundle(&input)?;
    bundle::write(&files, &input.out)?;
    fs::write(&stamp_file, stamp).map_err(at("write", &stamp_file))?;
    report(&files, &input, started).map_err(|error| format!("print the sizes: {error}"))
}

fn arguments() -> Result<Input> {
    let arguments: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [first, wasm, style, public, out] =
        <[PathBuf; 5]>::try_from(arguments).map_err(|_| "usage: site --dev|WASM_OPT WASM STYLE_DIR PUBLIC_DIR OUT_DIR".to_owned())?;
    let optimizer = (first.as_os_str() != "--dev").then_some(first);
    Ok(Input { optimizer, wasm, style, public, out })
}

/// One text that differs whenever the output could: the content of every input, and this program itself.
fn stamp(input: &Input) -> Result<String> {
    let program = env::current_exe().map_err(|error| format!("find this program: {error}"))?;
    let built = fs::metadata(&program).and_then(|data| data.modified()).map_err(at("read", &program))?;
    let mut hash = Sha256::new();
    hash.update(built.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_le_bytes());
    hash.update([u8::from(input.is_dev())]);
    hash.update(fs::read(&input.wasm).map_err(at("read", &input.wasm))?);
    for dir in [&input.style, &input.public] {
        add(&mut hash, &bundle::read_dir(dir)?);
    }
    Ok(hex(hash))
}

/// Adds names and contents so that no two different sets of files give the same bytes.
fn add(hash: &mut Sha256, files: &Files) {
    for (path, content) in files {
        for part in [path.as_bytes(), content] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
}

fn hex(hash: Sha256) -> String {
    let bytes: [u8; 32] = hash.finalize().into();
    bytes.map(|byte| format!("{byte:02x}")).concat()
}

/// Turns an I/O error into a line that names the file.
fn at(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{verb} {path}: {error}")
}

/// Prints each file's sizes, and what the first page load takes together.
fn report(files: &Files, input: &Input, started: Instant) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if input.is_dev() {
        return writeln!(out, "site bundled in {:.1} s (uncompressed)", started.elapsed().as_secs_f32());
    }
    let mut first_load = 0;
    writeln!(out, "{:>10} {:>10} {:>10}", "bytes", "gzip", "brotli")?;
    for (path, content) in files.iter().filter(|(path, _)| !is_compressed(path)) {
        let size = |suffix: &str| files.get(&format!("{path}{suffix}")).map(Vec::len);
        let shown = |size: Option<usize>| size.map_or_else(|| "-".to_owned(), |size| size.to_string());
        writeln!(out, "{:>10} {:>10} {:>10}  {path}", content.len(), shown(size(".gz")), shown(size(".br")))?;
        if on_first_load(path) {
            first_load += size(".br").unwrap_or(content.len());
        }
    }
    writeln!(
        out,
        "first load (client, styles, icons, fonts), brotli: {} KB; bundled in {:.1} s",
        first_load.div_ceil(1024),
        started.elapsed().as_secs_f32()
    )
}

fn is_compressed(path: &str) -> bool {
    extension(path).is_some_and(|extension| matches!(extension, "br" | "gz"))
}

fn on_first_load(path: &str) -> bool {
    path.starts_with("pkg/") || extension(path).is_some_and(|extension| matches!(extension, "svg" | "woff2" | "css" | "js"))
}

fn extension(path: &str) -> Option<&str> {
    Path::new(path).extension()?.to_str()
}
