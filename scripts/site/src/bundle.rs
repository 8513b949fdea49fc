//! The whole site in memory, then on disk.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use sha2::{Digest, Sha256};
use wasm_bindgen_cli_support::Bindgen;

use crate::{Result, add, at, compress, hex, style};

/// Contents by path, with `/` between the parts and relative to the site's root.
pub type Files = BTreeMap<String, Vec<u8>>;

/// What to bundle, and where to.
pub struct Input {
    /// Binaryen's `wasm-opt`; without it the site is quick to make rather than small.
    pub optimizer: Option<PathBuf>,
    /// The client as cargo built it.
    pub wasm: PathBuf,
    /// Style sheets, and `order.txt` that lists them.
    pub style: PathBuf,
    /// Files served as they are.
    pub public: PathBuf,
    /// The directory that will hold the site and nothing else.
    pub out: PathBuf,
}

impl Input {
    /// Quick to make rather than small.
    pub fn is_dev(&self) -> bool {
        self.optimizer.is_none()
    }
}

/// What makes the client smaller *as it is sent*, compressed. Binaryen's own levels make it a quarter smaller uncompressed and a tenth
/// larger compressed: they merge what is alike, and what is alike is what compresses.
///
/// First what the compiler may have used, and every browser of the last years knows: no more may come into the client.
const PASSES: [&str; 14] = [
    "--enable-bulk-memory",
    "--enable-multivalue",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-reference-types",
    "--enable-sign-ext",
    "--duplicate-function-elimination",
    "--dae",
    "--remove-unused-module-elements",
    "--duplicate-function-elimination",
    "--simplify-locals-nostructure",
    "--reorder-locals",
    "--strip-producers",
    "--strip-target-features",
];

/// Makes every file of the site.
pub fn bundle(input: &Input) -> Result<Files> {
    let mut pkg = client(input)?;
    pkg.insert("chatgxy.css".to_owned(), style::one_sheet(&read_dir(&input.style)?, !input.is_dev())?.into_bytes());
    let root = format!("pkg/{}", &digest(&pkg)[..16]);

    let mut files = read_dir(&input.public)?;
    if let Some(path) = files.keys().find(|path| *path == "site.json" || path.starts_with("pkg/")) {
        return Err(format!("{}/{path}: this name belongs to the bundle", input.public.display()));
    }
    files.extend(pkg.into_iter().map(|(path, content)| (format!("{root}/{path}"), content)));
    // `content` covers the public files too: a binary that embeds the site is rebuilt when any of them changes.
    let manifest = serde_json::json!({ "pkg": format!("/{root}"), "content": digest(&files) });
    if !input.is_dev() {
        compress::add_compressed(&mut files).map_err(|error| format!("compress: {error}"))?;
    }
    files.insert("site.json".to_owned(), format!("{manifest}\n").into_bytes());
    Ok(files)
}

fn digest(files: &Files) -> String {
    let mut hash = Sha256::new();
    add(&mut hash, files);
    hex(hash)
}

/// wasm-bindgen's output for the client: `chatgxy.js`, `chatgxy_bg.wasm` and the snippets they import.
fn client(input: &Input) -> Result<Files> {
    let scratch = input.out.with_extension("tmp");
    remove_dir(&scratch)?;
    Bindgen::new()
        .input_path(&input.wasm)
        .out_name("chatgxy")
        .web(true)
        .and_then(|bindgen| {
            bindgen
                .typescript(false)
                .omit_default_module_path(false)
                .remove_name_section(!input.is_dev())
                .remove_producers_section(!input.is_dev())
                .generate(&scratch)
        })
        .map_err(|error| format!("wasm-bindgen on {}: {error:#}", input.wasm.display()))?;
    if let Some(optimizer) = &input.optimizer {
        optimize(optimizer, &scratch.join("chatgxy_bg.wasm"))?;
    }
    let files = read_dir(&scratch)?;
    remove_dir(&scratch)?;
    Ok(files)
}

fn optimize(optimizer: &Path, wasm: &Path) -> Result<()> {
    let run = Command::new("node").arg(optimizer).args(PASSES).arg(wasm).arg("-o").arg(wasm).output();
    let run = run.map_err(|error| format!("run node {}: {error}", optimizer.display()))?;
    if run.status.success() {
        return Ok(());
    }
    Err(format!("{} on {}: {}", optimizer.display(), wasm.display(), String::from_utf8_lossy(&run.stderr)))
}

fn remove_dir(dir: &Path) -> Result<()> {
    if dir.exists() { fs::remove_dir_all(dir).map_err(at("remove", dir)) } else { Ok(()) }
}

/// Every file below `dir`, hidden ones (editors' leftovers) excepted.
pub fn read_dir(dir: &Path) -> Result<Files> {
    let mut files = Files::new();
    collect(dir, "", &mut files)?;
    Ok(files)
}

fn collect(dir: &Path, prefix: &str, files: &mut Files) -> Result<()> {
    for entry in fs::read_dir(dir).map_err(at("read", dir))? {
        let path = entry.map_err(at("read", dir))?.path();
        let name =
            path.file_name().and_then(|name| name.to_str()).ok_or_else(|| format!("{}: a file name that is not UTF-8", path.display()))?;
        if name.starts_with('.') {
            continue;
        }
        let relative = format!("{prefix}{name}");
        if path.is_dir() {
            collect(&path, &format!("{relative}/"), files)?;
        } else {
            files.insert(relative, fs::read(&path).map_err(at("read", &path))?);
        }
    }
    Ok(())
}

/// Makes `out` hold exactly `files`. Unchanged files keep their times, so that nothing built from them is rebuilt;
/// old ones go last, so that a server that reads this directory always finds what `site.json` names.
pub fn write(files: &Files, out: &Path) -> Result<()> {
    let manifest_last = |path: &&String| *path == "site.json";
    let (last, first): (Vec<&String>, Vec<&String>) = files.keys().partition(manifest_last);
    for path in first.into_iter().chain(last) {
        let target = out.join(path);
        if fs::read(&target).is_ok_and(|present| present == files[path]) {
            continue;
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(at("create", parent))?;
        }
        fs::write(&target, &files[path]).map_err(at("write", &target))?;
    }
    remove_others(out, "", files)
}

fn remove_others(dir: &Path, prefix: &str, files: &Files) -> Result<()> {
    for entry in fs::read_dir(dir).map_err(at("read", dir))? {
        let entry = entry.map_err(at("read", dir))?;
        let path = entry.path();
        let relative = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if !path.is_dir() {
            if !files.contains_key(&relative) {
                fs::remove_file(&path).map_err(at("remove", &path))?;
            }
        } else if files.keys().any(|file| file.starts_with(&format!("{relative}/"))) {
            remove_others(&path, &format!("{relative}/"), files)?;
        } else {
            remove_dir(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(files: &[(&str, &str)]) -> Files {
        files.iter().map(|(path, content)| ((*path).to_owned(), content.as_bytes().to_vec())).collect()
    }

    #[test]
    fn writing_leaves_exactly_the_new_files_and_touches_no_unchanged_one() {
        let dir = std::env::temp_dir().join(format!("chatgxy-site-{}", std::process::id()));
        remove_dir(&dir).unwrap();
        let old = site(&[("site.json", "1"), ("icons.svg", "<svg/>"), ("pkg/a/chatgxy.js", "1"), ("pkg/a/snippets/x/y.js", "1")]);
        write(&old, &dir).unwrap();
        assert_eq!(read_dir(&dir).unwrap(), old);
        let time = |path: &str| fs::metadata(dir.join(path)).unwrap().modified().unwrap();
        let icons_written = time("icons.svg");

        let new = site(&[("site.json", "2"), ("icons.svg", "<svg/>"), ("pkg/b/chatgxy.js", "2")]);
        write(&new, &dir).unwrap();
        assert_eq!(read_dir(&dir).unwrap(), new);
        assert!(!dir.join("pkg/a").exists());
        assert_eq!(time("icons.svg"), icons_written);
        remove_dir(&dir).unwrap();
    }

    #[test]
    fn the_digest_tells_names_from_contents() {
        assert_ne!(digest(&site(&[("ab", "c")])), digest(&site(&[("a", "bc")])));
        assert_ne!(digest(&site(&[("a", ""), ("b", "")])), digest(&site(&[("a", "b")])));
    }
}
