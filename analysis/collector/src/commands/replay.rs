// SPDX-License-Identifier: Apache-2.0
//! `narrows-collector replay`: sends the frames of a capture from an interface at a steady rate.

use std::path::{Path, PathBuf};
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
    /// Send for this time, the capture from its beginning again as often as that takes [default: each frame once].
    #[arg(long)]
    seconds: Option<f64>,
}

/// What was sent, and how fast.
#[derive(Serialize)]
struct Sent {
    frames: u64,
    seconds: f64,
    /// Frames a second: less than asked for where the machine cannot keep up.
    rate: f64,
}

/// Sends the frames, and prints how fast that went.
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

    if frames.is_empty() {
        return Err(Error::Input(format!("{}: no frames", args.source.display())));
    }

    let most = if args.seconds.is_some() { u64::MAX } else { frames.len() as u64 };
    let (started, mut sent) = (Instant::now(), 0);
    while sent < most {
        let elapsed = started.elapsed().as_secs_f64();
        if args.seconds.is_some_and(|limit| elapsed >= limit) {
            break;
        }
        let due = most.min((elapsed * args.rate as f64) as u64);
        if due <= sent {
            std::thread::sleep(Duration::from_micros(20));
            continue;
        }
        let first = (sent % frames.len() as u64) as usize;
        let last = frames.len().min(first + (due - sent).min(BURST as u64) as usize);
        let burst = &frames[first..last];
        sent += transmitter.send(burst).map_err(|e| Error::io(Path::new(&args.interface), "send on", e))? as u64;
    }
    let seconds = started.elapsed().as_secs_f64();
    let result = Sent { frames: sent, seconds, rate: sent as f64 / seconds };
    let text = serde_json::to_string(&result).map_err(|e| Error::Input(e.to_string()))?;
    println!("{text}");
    Ok(())
}
