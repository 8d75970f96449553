// SPDX-License-Identifier: Apache-2.0
//! From reports to time series, totals, histograms and envelopes in one streaming pass (analysis/README.md).

mod arrivals;
mod bottleneck;
mod cell;
mod counters;
mod engine;
mod envelope;
mod flow;
mod histogram;
mod interval;
mod output;
mod settings;
mod source;
pub mod summary;
pub mod tables;
mod tcp;

use std::path::{Path, PathBuf};

pub use bottleneck::FINE_BITS;
pub use cell::COARSE_BITS;
pub(crate) use counters::{Counters, Credit, Reading};
pub use engine::{Engine, MAX_FLOWS};
pub(crate) use histogram::Histogram;
pub use settings::{CountersStart, DepthShown, EngineSettings};
pub use source::{Decoded, Source};
use summary::Summary;

use crate::error::{Error, Result};
use crate::intake::no_reports;

/// What to aggregate.
#[derive(Clone, Debug)]
pub struct AggregateSettings {
    pub source: PathBuf,
    /// Directory for the tables; made if need be, tables of the same names are replaced.
    pub directory: PathBuf,
    pub port: u16,
    /// Seconds in a time unit of the switch.
    pub time_unit_s: f64,
    /// Length of an interval of the flows' series.
    pub interval_s: f64,
    /// Length of an interval of the bottlenecks' series.
    pub queue_interval_s: f64,
    /// Start of interval 0 in time units; `None`: the first report's arrival.
    pub origin: Option<u64>,
    pub counters: CountersStart,
    pub depth: DepthShown,
    pub depth_unit_bytes: u32,
    /// Time units that reports give as queue delay while nothing waits; it is subtracted.
    pub empty_queue_delay: u64,
    /// Names of report files to leave out.
    pub skip: Vec<String>,
}

impl AggregateSettings {
    /// A source of a switch whose units are nanoseconds and bytes, in intervals of 10 and 1 ms.
    pub fn new(source: PathBuf, directory: PathBuf, port: u16) -> Self {
        AggregateSettings {
            source,
            directory,
            port,
            time_unit_s: 1e-9,
            interval_s: 0.01,
            queue_interval_s: 0.001,
            origin: None,
            counters: CountersStart::Detect,
            depth: DepthShown::Left,
            depth_unit_bytes: 1,
            empty_queue_delay: 0,
            skip: Vec::new(),
        }
    }
}

/// Aggregates a source into tables.
///
/// # Errors
/// [`Error::Input`] for a source that cannot be read or mixes runs; then no table is left behind.
pub fn aggregate(settings: &AggregateSettings) -> Result<Summary> {
    let engine = EngineSettings {
        interval_units: units(settings.interval_s, settings.time_unit_s)?,
        queue_units: units(settings.queue_interval_s, settings.time_unit_s)?,
        origin: settings.origin,
        counters: settings.counters,
        depth: settings.depth,
        depth_unit_bytes: settings.depth_unit_bytes.max(1),
    };
    let source = Source::open(&settings.source, settings.port, &settings.skip)?;
    let mut output = output::Output::create(&settings.directory, &engine, settings.time_unit_s)?;
    match fill(settings, source, &engine, &mut output) {
        Ok(summary) => {
            output.close()?;
            summary.write(&settings.directory)?;
            Ok(summary)
        }
        Err(error) => {
            output.discard();
            Err(error)
        }
    }
}

fn fill(
    settings: &AggregateSettings,
    source: Source,
    engine_settings: &EngineSettings,
    output: &mut output::Output,
) -> Result<Summary> {
    let mut engine = Engine::new(*engine_settings);
    let path = &settings.source;
    let decoded = source.decode(settings.empty_queue_delay, |records| {
        engine.take(records);
        refuse_mixed_runs(path, &engine)?;
        output.write_series(engine.placed())
    })?;
    if decoded.frames.reports == 0 {
        let frames = &decoded.frames;
        return Err(no_reports(path, settings.port, frames.frames, frames.bad(), decoded.other_version));
    }
    let (counts, mut placed) = engine.finish();
    output.write_final(&mut placed, &decoded.keys)?;
    Ok(Summary::new(settings, engine_settings, &decoded, counts, &placed))
}

/// A length of time in time units.
fn units(length_s: f64, time_unit_s: f64) -> Result<u64> {
    let units = length_s / time_unit_s;
    // 2^47 units are 39 hours of nanoseconds; the clock of a report wraps at twice that.
    if !(1.0..=(1_u64 << 47) as f64).contains(&units) || (units - units.round()).abs() > 1e-6 * units {
        return Err(Error::Input(format!(
            "interval {length_s} s is not a whole number (1..2^47) of time units of {time_unit_s} s"
        )));
    }
    Ok(units.round() as u64)
}

/// Counters of two runs, or of two switches, cannot be distinguished once they are mixed.
fn refuse_mixed_runs(path: &Path, engine: &Engine) -> Result<()> {
    match engine.first_restart() {
        None => Ok(()),
        Some(bottleneck) => Err(Error::Input(format!(
            "{}: the report sequence of bottleneck {bottleneck} begins anew: more than one run, a restarted switch or \
             a changed sampling rate; aggregate each part on its own",
            path.display()
        ))),
    }
}
