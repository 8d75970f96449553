// SPDX-License-Identifier: Apache-2.0
//! `narrows-collector replay`: the frames of a capture out of an interface at a steady rate.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use crate::capture::file::CaptureFile;
use crate::capture::transmitter::{Transmitter, BURST};
use crate::{Error, Result};

#[derive(Args)]
pub struct ReplayArgs {
    /// A pcap or pcapng file; it is read into memory first.
    source: PathBuf,
    /// Interface in the current network namespace.
    #[arg(long)]
    interface: String,
    /// Frames a second.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rate: u64,
}

/// What came of it.
#[derive(Serialize)]
struct Sent {
    frames: usize,
    seconds: f64,
    /// Frames a second: less than asked for where the machine cannot keep up.
    rate: f64,
}

/// Sends every frame once, and prints how fast that went.
pub fn run(args: &ReplayArgs) -> Result<()> {
    let transmitter = Transmitter::open(&args.interface).map_err(Error::Input)?;
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    CaptureFile::open(&args.source)?.for_each(|frame| {
        bytes.extend_from_slice(frame);
        ends.push(bytes.len());
        true
    })?;
    let starts = std::iter::once(&0).chain(&ends);
    let frames: Vec<&[u8]> = starts.zip(&ends).map(|(from, to)| &bytes[*from..*to]).collect();

    let (started, mut sent) = (Instant::now(), 0);
    while sent < frames.len() {
        let due = (started.elapsed().as_secs_f64() * args.rate as f64) as usize;
        if due <= sent {
            std::thread::sleep(Duration::from_micros(20));
            continue;
        }
        let burst = &frames[sent..frames.len().min(due).min(sent + BURST)];
        sent += transmitter.send(burst).map_err(|source| Error::Io {
            path: PathBuf::from(&args.interface),
            action: "send on",
            source,
        })?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let result = Sent { frames: sent, seconds, rate: sent as f64 / seconds };
    let text = serde_json::to_string(&result).map_err(|e| Error::Input(e.to_string()))?;
    println!("{text}");
    Ok(())
}
