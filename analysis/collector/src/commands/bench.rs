// SPDX-License-Identifier: Apache-2.0
//! `narrows-collector bench`: how fast this machine decodes and aggregates a capture.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use crate::aggregate::{aggregate, AggregateSettings};
use crate::capture::file::CaptureFile;
use crate::telemetry::columns::{Columns, RowBlock, BLOCK_ROWS};
use crate::wire::Decoder;
use crate::{Error, Result};

/// Rows in a batch of columns.
const BATCH_ROWS: usize = 16 << 10;

#[derive(Args)]
pub struct BenchArgs {
    /// A capture file; the first, uncounted run brings it into the page cache.
    source: PathBuf,
    /// Directory for the tables of the aggregation.
    #[arg(long)]
    out: PathBuf,
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    #[arg(long, default_value_t = 5500)]
    port: u16,
}

/// Rates over all repetitions, in million reports a second.
#[derive(Serialize)]
struct Rates {
    reports: u64,
    repetitions: usize,
    /// By wall clock, which is what users experience; other load on the machine lowers it.
    wall_median: f64,
    wall_min: f64,
    wall_max: f64,
    /// By CPU time of all threads: reports per second of one core's time.
    cpu_median: f64,
}

#[derive(Serialize)]
struct Results {
    /// One thread: file to columns in batches that are used and reused.
    decode_to_columns: Rates,
    /// Two threads: file to every table and aggregate.json.
    aggregate: Rates,
}

/// Runs both stages and prints their rates as JSON.
pub fn run(args: &BenchArgs) -> Result<()> {
    let settings = AggregateSettings::new(args.source.clone(), args.out.clone(), args.port);
    let results = Results {
        decode_to_columns: repeat(args.repeat, || decode(&args.source, args.port))?,
        aggregate: repeat(args.repeat, || aggregate(&settings).map(|summary| summary.reports))?,
    };
    let text = serde_json::to_string_pretty(&results).map_err(|e| Error::Input(e.to_string()))?;
    println!("{text}");
    Ok(())
}

/// Decodes the whole file into columns, batch by batch.
fn decode(source: &Path, port: u16) -> Result<u64> {
    let mut file = CaptureFile::open(source)?;
    let mut decoder = Decoder::new(port);
    let mut block = RowBlock::default();
    let mut columns = Columns::with_capacity(BATCH_ROWS);
    let mut reports = 0;
    let mut append = |block: &mut RowBlock| {
        if columns.len() + BLOCK_ROWS > BATCH_ROWS {
            std::hint::black_box(&columns);
            reports += columns.len() as u64;
            columns.clear();
        }
        columns.append(block);
    };
    file.for_each(|frame| {
        if let Ok((record, _)) = decoder.decode(frame) {
            if !block.push(&record) {
                append(&mut block);
            }
        }
        true
    })?;
    append(&mut block);
    std::hint::black_box(&columns);
    Ok(reports + columns.len() as u64)
}

fn repeat(repetitions: u32, mut run: impl FnMut() -> Result<u64>) -> Result<Rates> {
    run()?;
    let mut wall = Vec::new();
    let mut cpu = Vec::new();
    let mut reports = 0;
    for _ in 0..repetitions {
        let (started, cpu_before) = (Instant::now(), cpu_time());
        reports = run()?;
        let million = reports as f64 / 1e6;
        wall.push(million / started.elapsed().as_secs_f64());
        cpu.push(million / (cpu_time() - cpu_before).as_secs_f64());
    }
    wall.sort_unstable_by(f64::total_cmp);
    cpu.sort_unstable_by(f64::total_cmp);
    Ok(Rates {
        reports,
        repetitions: wall.len(),
        wall_median: wall[wall.len() / 2],
        wall_min: wall[0],
        wall_max: wall[wall.len() - 1],
        cpu_median: cpu[cpu.len() / 2],
    })
}

/// CPU time of this process so far.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec into a live local; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
