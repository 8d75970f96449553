// SPDX-License-Identifier: Apache-2.0
//! `narrows-collector collect`: reports from an interface into Parquet until SIGTERM or SIGINT.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use narrows_privileges::{become_user, give_up, Below};

use super::convert::StorageArgs;
use super::watch::{Watch, WatchArgs};
use crate::capture::pipe::Pipe;
use crate::capture::ring::{Ring, Wake, RETIRE_MS};
use crate::capture::signals::Signals;
use crate::fan_in::{FanIn, Merged, RingThread, DRAIN};
use crate::receiver::{Intake, Receiver, Settings, Store};
use crate::telemetry::account::Account;
use crate::{Error, Result};

/// Rows reach the writer at least this often.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// Reports that do not cease to come are not waited for any longer.
const LONGEST_DRAIN: Duration = Duration::from_secs(5);

/// When rows were last passed to the writer.
struct Flushing(Instant);

impl Flushing {
    /// Flushes if it is time to; false if nothing can be stored any more.
    fn if_due(&mut self, flush: impl FnOnce() -> bool) -> bool {
        if self.0.elapsed() < FLUSH_EVERY {
            return true;
        }
        let stored = flush();
        self.0 = Instant::now();
        stored
    }
}

#[derive(Args)]
pub struct CollectArgs {
    /// Interface in the current network namespace on which the switch sends its reports.
    #[arg(long, required_unless_present = "pipe")]
    interface: Option<String>,
    /// Named pipe into which a switch on this machine writes its reports, as a capture.
    #[arg(long, conflicts_with_all = ["interface", "rings", "ring_mib"])]
    pipe: Option<PathBuf>,
    /// Directory for the telemetry; must hold none yet.
    #[arg(long)]
    out: PathBuf,
    /// Size of the kernel's receive rings in MiB, all together.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(2..=4096))]
    ring_mib: u16,
    /// Rings, each read by its own thread; their reports are put back in order.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=32))]
    rings: u16,
    /// A field of metadata that the switch records of each packet, in the order in which the switch was given them (repeatable).
    #[arg(long = "watch", value_name = "HEADER.FIELD", requires = "pipe")]
    watched: Vec<String>,
    #[command(flatten)]
    storage: StorageArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Runs until a signal comes or nothing can be stored any more.
pub fn run(args: CollectArgs) -> Result<()> {
    let source = match &args.pipe {
        Some(pipe) => pipe.display().to_string(),
        None => args.interface.unwrap_or_default(),
    };
    let signals = Signals::install().map_err(|error| wait_error(&source, error))?;
    let settings = Settings {
        directory: args.out,
        source,
        port: args.storage.port,
        switch: args.storage.switch,
        bottlenecks: args.storage.bottleneck_count,
        rotation: args.storage.rotation(),
        // They name columns until the end.
        watched: args.watched.into_iter().map(|name| &*name.leak()).collect(),
    };
    let watch = args.watch.open()?;
    let mebibytes = usize::from(args.ring_mib);
    let account = match (args.pipe, usize::from(args.rings)) {
        (Some(pipe), _) => collect_piped(settings, watch, &pipe, &signals)?,
        (None, 1) => collect(settings, watch, mebibytes, &signals)?,
        (None, rings) => collect_shared(settings, watch, (mebibytes / rings).max(2), rings, &signals)?,
    };
    super::convert::print_summary(&account);
    Ok(())
}

fn wait_error(interface: &str, source: io::Error) -> Error {
    Error::io(Path::new(interface), "wait for reports on", source)
}

/// Gives up all privileges: becomes the owner of the output directory, with access to the files in it only.
fn keep_only_files(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).map_err(|e| Error::io(directory, "create", e))?;
    let owner = fs::metadata(directory).map_err(|e| Error::io(directory, "examine", e))?;
    let below = Below::Write(directory);
    become_user(owner.uid(), owner.gid())
        .and_then(|()| give_up(&[], below))
        .map(|_| ())
        .map_err(|error| Error::Input(error.to_string()))
}

/// A receiver, once everything that needs privileges is open.
fn ready(settings: Settings, watch: Watch) -> Result<Receiver> {
    keep_only_files(&settings.directory)?;
    let receiver = Receiver::start(settings, watch.start()?)?;
    announce_ready();
    Ok(receiver)
}

/// A pipe; what was written before the signal is stored, and what follows without a pause.
fn collect_piped(settings: Settings, watch: Watch, path: &Path, signals: &Signals) -> Result<Account> {
    let mut pipe = Pipe::open(path)?;
    let mut receiver = ready(settings, watch)?;
    let (mut stored, mut flushing) = (true, Flushing(Instant::now()));
    let mut error = None;
    // When the signal was noticed, and since when nothing has come after it.
    let mut draining: Option<(Instant, Instant)> = None;
    while stored
        && error.is_none()
        && draining.is_none_or(|(since, quiet)| since.elapsed() < LONGEST_DRAIN && quiet.elapsed() < DRAIN)
    {
        match pipe.wait(signals, FLUSH_EVERY.as_millis() as i32) {
            Ok(Some(Wake::Packets)) => {
                draining = draining.map(|(since, _)| (since, Instant::now()));
                let drained = pipe.drain(|frame| {
                    stored &= receiver.take(frame);
                    stored
                });
                error = drained.err();
            }
            Ok(Some(Wake::Stop)) => {
                draining.get_or_insert_with(|| (Instant::now(), Instant::now()));
                // The signal stays pending: wait for what the switch still holds, but not for the signal.
                std::thread::sleep(Duration::from_millis(u64::from(RETIRE_MS)));
            }
            Ok(Some(Wake::Demand)) => match signals.demand.take() {
                Ok(_) => stored &= receiver.show(),
                Err(source) => error = Some(Error::io(path, "wait for reports on", source)),
            },
            Ok(None) => {}
            Err(source) => error = Some(source),
        }
        stored &= flushing.if_due(|| receiver.flush());
    }
    receiver.finish("signal", 0, error)
}

/// One ring, read by this thread.
fn collect(settings: Settings, watch: Watch, mebibytes: usize, signals: &Signals) -> Result<Account> {
    let interface = settings.source.clone();
    let wait_error = |source| wait_error(&interface, source);
    let mut ring = Ring::open(&interface, mebibytes).map_err(Error::Input)?;
    let mut receiver = ready(settings, watch)?;
    let (mut stored, mut flushing) = (true, Flushing(Instant::now()));
    let mut error = None;
    let mut draining: Option<Instant> = None;
    while stored && draining.is_none_or(|since| since.elapsed() < DRAIN) {
        let timeout = if draining.is_some() { RETIRE_MS } else { FLUSH_EVERY.as_millis() as u32 };
        let mut demanded = false;
        match ring.wait(Some(signals), timeout as i32).and_then(|wake| {
            demanded = wake == Wake::Demand && signals.demand.take()?;
            Ok(wake)
        }) {
            Ok(Wake::Packets | Wake::Demand) => {}
            Ok(Wake::Stop) => {
                draining.get_or_insert_with(Instant::now);
                // The signal stays pending: wait for the open block, but not for the signal.
                std::thread::sleep(Duration::from_millis(u64::from(RETIRE_MS)));
            }
            Err(source) => {
                error = Some(wait_error(source));
                break;
            }
        }
        ring.drain(|captured| stored &= receiver.take(captured.frame));
        stored &= !demanded || receiver.show();
        stored &= flushing.if_due(|| receiver.flush());
    }
    let dropped = ring.dropped().map_err(wait_error)?;
    // Frees the ring before the last files are written.
    drop(ring);
    receiver.finish("signal", dropped, error)
}

/// Several rings with a thread each; this thread puts their reports in order.
fn collect_shared(
    settings: Settings,
    watch: Watch,
    mebibytes: usize,
    rings: usize,
    signals: &Signals,
) -> Result<Account> {
    let interface = settings.source.clone();
    let wait_error = |source| wait_error(&interface, source);
    let rings = Ring::open_shared(&interface, mebibytes, rings).map_err(Error::Input)?;
    keep_only_files(&settings.directory)?;
    let live = watch.start()?;
    let stopping = Arc::new(AtomicBool::new(false));
    let (mut threads, mut channels) = (Vec::new(), Vec::new());
    for ring in rings {
        let intake = Intake::new(&settings, live.announce.clone(), None);
        let started = RingThread::start(ring, intake, Arc::clone(&stopping));
        let (thread, channel) = started.map_err(wait_error)?;
        threads.push(thread);
        channels.push(channel);
    }
    let mut store = Store::start(settings, live.observers, live.metrics)?;
    announce_ready();

    let mut fan_in = FanIn::new(channels);
    let patience = Duration::from_millis(u64::from(RETIRE_MS));
    let (mut stored, mut flushing) = (true, Flushing(Instant::now()));
    let mut error = None;
    while stored {
        let merged = fan_in.merge(patience, &mut |record| stored &= store.push(record));
        if merged == Merged::All {
            break;
        }
        stored &= flushing.if_due(|| store.flush());
        let asked = signals.demand.take().and_then(|demanded| {
            stored &= !demanded || store.show();
            signals.stop.is_raised()
        });
        match asked {
            Ok(false) => {}
            Ok(true) => stopping.store(true, Ordering::Relaxed),
            Err(source) => {
                error = Some(wait_error(source));
                break;
            }
        }
    }
    // Threads that still have something to send find no receiver, and end.
    drop(fan_in);
    let (mut intakes, mut dropped) = (Vec::new(), 0);
    for thread in threads {
        let (intake, lost) = thread.join().map_err(wait_error)?;
        intakes.push(intake);
        match lost {
            Ok(lost) => dropped += lost,
            Err(source) => error = error.or(Some(wait_error(source))),
        }
    }
    store.finish(intakes, "signal", dropped, error)
}

fn announce_ready() {
    // A closed stdout only means that nothing reads the line.
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "ready").and_then(|()| out.flush());
}
