// SPDX-License-Identifier: Apache-2.0
//! `narrows-collector collect`: reports from an interface into Parquet until SIGTERM or SIGINT.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use narrows_collector::capture::ring::{Ring, Wake, RETIRE_MS};
use narrows_collector::capture::signals::StopSignal;
use narrows_collector::receiver::{Receiver, Settings};
use narrows_collector::{Error, Result};

use super::convert::StorageArgs;

/// Rows reach the writer at least this often.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// The kernel hands over a block that is not full within one retire time; three leave room for a busy machine.
const DRAIN: Duration = Duration::from_millis(3 * RETIRE_MS as u64);

#[derive(Args)]
pub struct CollectArgs {
    /// Interface in the current network namespace on which the switch sends its reports.
    #[arg(long)]
    interface: String,
    /// Directory for the telemetry; must hold none yet.
    #[arg(long)]
    out: PathBuf,
    /// Size of the kernel's receive ring in MiB.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(2..=4096))]
    ring_mib: u16,
    #[command(flatten)]
    storage: StorageArgs,
}

/// Runs until a signal comes or nothing can be stored any more.
pub fn run(args: CollectArgs) -> Result<()> {
    let wait_error = |source| Error::Io {
        path: PathBuf::from(&args.interface),
        action: "wait for reports on",
        source,
    };
    let stop = StopSignal::install().map_err(wait_error)?;
    let mut ring = Ring::open(&args.interface, usize::from(args.ring_mib)).map_err(Error::Input)?;
    let mut receiver = Receiver::start(Settings {
        directory: args.out,
        source: args.interface.clone(),
        port: args.storage.port,
        bottlenecks: args.storage.bottleneck_count,
        rotation: args.storage.rotation(),
    })?;
    announce_ready();

    let mut stored = true;
    let mut flushed = Instant::now();
    let mut error = None;
    let mut draining: Option<Instant> = None;
    while stored && draining.is_none_or(|since| since.elapsed() < DRAIN) {
        let timeout = if draining.is_some() {
            RETIRE_MS
        } else {
            FLUSH_EVERY.as_millis() as u32
        };
        match ring.wait(&stop, timeout as i32) {
            Ok(Wake::Packets) => {}
            Ok(Wake::Stop) => {
                draining.get_or_insert_with(Instant::now);
                // The signal stays pending: wait for the open block without watching it.
                std::thread::sleep(Duration::from_millis(u64::from(RETIRE_MS)));
            }
            Err(source) => {
                error = Some(wait_error(source));
                break;
            }
        }
        ring.drain(|frame| stored &= receiver.take(frame));
        if flushed.elapsed() >= FLUSH_EVERY {
            stored &= receiver.flush();
            flushed = Instant::now();
        }
    }
    let dropped = ring.dropped().map_err(wait_error)?;
    // Frees the ring before the last files are written.
    drop(ring);
    let account = receiver.finish("signal", dropped, error)?;
    super::convert::print_summary(&account);
    Ok(())
}

fn announce_ready() {
    // A closed stdout only means that nobody waits for the line.
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "ready").and_then(|()| out.flush());
}
