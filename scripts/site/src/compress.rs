//! Each file's `.br` and `.gz` beside it, made once here instead of at every request.

use std::{
    io::{self, Write},
    thread,
};

use brotli::{CompressorWriter, enc::BrotliEncoderParams};
use flate2::{Compression, write::GzEncoder};

use crate::bundle::Files;

/// Adds the compressed form of every file that becomes at least a tenth smaller by it.
pub fn add_compressed(files: &mut Files) -> io::Result<()> {
    let originals: Vec<(&String, &Vec<u8>)> = files.iter().collect();
    // The largest file takes longer than all others together, so two threads, one for each form, are enough.
    let (brotli, gzip) = thread::scope(|scope| {
        let gzip = scope.spawn(|| compress_all(&originals, "gz", gzip));
        let brotli = compress_all(&originals, "br", brotli);
        (brotli, gzip.join())
    });
    let gzip = gzip.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let brotli = brotli?;
    files.extend(brotli.into_iter().chain(gzip));
    Ok(())
}

fn compress_all(
    files: &[(&String, &Vec<u8>)],
    suffix: &str,
    compress: fn(&[u8]) -> io::Result<Vec<u8>>,
) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut made = Vec::new();
    for (path, content) in files {
        let small = compress(content)?;
        if small.len() * 10 <= content.len() * 9 {
            made.push((format!("{path}.{suffix}"), small));
        }
    }
    Ok(made)
}

fn brotli(content: &[u8]) -> io::Result<Vec<u8>> {
    let parameters = BrotliEncoderParams { quality: 11, size_hint: content.len(), ..Default::default() };
    let mut writer = CompressorWriter::with_params(Vec::new(), 1 << 16, &parameters);
    writer.write_all(content)?;
    writer.flush()?;
    Ok(writer.into_inner())
}

fn gzip(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut writer = GzEncoder::new(Vec::new(), Compression::best());
    writer.write_all(content)?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn compressed_forms_hold_the_same_bytes_and_small_gains_are_left_out() {
        let text = "a sentence that repeats. ".repeat(100).into_bytes();
        let noise: Vec<u8> = (0..=255_u8).map(|byte| byte.wrapping_mul(167) ^ (byte >> 3)).collect();
        let mut files = Files::from([("text.svg".to_owned(), text.clone()), ("noise.png".to_owned(), noise)]);
        add_compressed(&mut files).unwrap();

        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(names, ["noise.png", "text.svg", "text.svg.br", "text.svg.gz"]);
        let mut unpacked = Vec::new();
        brotli::Decompressor::new(&*files["text.svg.br"], 4096).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, text);
        unpacked.clear();
        flate2::read::GzDecoder::new(&*files["text.svg.gz"]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, text);
    }
}
