//! What compressing the files of a folder costs with the deflate encoders at hand, in CPU time of this
//! thread: `cargo run --release -p portolan-archive --example deflate_cost FOLDER`. Give it hundreds of
//! different pages: a processor learns the branches of a few by heart.

use flate2::Compression;
use flate2::write::GzEncoder;
use libdeflater::{CompressionLvl, Compressor};
use std::error::Error;
use std::io::Write;

const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("give a folder")?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            files.push(std::fs::read(path)?);
        }
    }
    let total: usize = files.iter().map(Vec::len).sum();
    if total == 0 {
        return Err("the folder has no files".into());
    }
    println!("{} files of {} bytes", files.len(), total / files.len());
    for level in [1, 2, 6] {
        let mut compressor = Compressor::new(CompressionLvl::new(level).map_err(|_| "a level")?);
        let mut out = Vec::new();
        measure(&format!("libdeflate {level}"), &files, total, |file| {
            out.resize(compressor.gzip_compress_bound(file.len()), 0);
            Ok(compressor.gzip_compress(file, &mut out)?)
        })?;
    }
    for level in [1, 2, 6] {
        let mut out = Vec::new();
        measure(&format!("zlib-rs {level}"), &files, total, |file| {
            out.clear();
            let mut encoder = GzEncoder::new(&mut out, Compression::new(level));
            encoder.write_all(file)?;
            Ok(encoder.finish()?.len())
        })?;
    }
    Ok(())
}

/// The best of a few rounds.
fn measure(
    name: &str,
    files: &[Vec<u8>],
    total: usize,
    mut compress: impl FnMut(&[u8]) -> Result<usize, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let (mut best_ns, mut bytes) = (f64::MAX, 0);
    for _ in 0..ROUNDS {
        let before = cpu_ns()?;
        bytes = 0;
        for file in files {
            bytes += compress(file)?;
        }
        best_ns = f64::min(best_ns, cpu_ns()? - before);
    }
    println!(
        "{name:<14} {:>8.1} µs CPU a file  {:>5.0} MB/s  {:>5.1} % of the size",
        best_ns / 1e3 / files.len() as f64,
        total as f64 / 1e6 / (best_ns / 1e9),
        100.0 * bytes as f64 / total as f64
    );
    Ok(())
}

/// CPU time of the only thread, from the scheduler.
fn cpu_ns() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    let ns = text.split(' ').next().ok_or("/proc/self/schedstat")?;
    Ok(ns.parse()?)
}
