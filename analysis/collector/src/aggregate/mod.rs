// SPDX-License-Identifier: Apache-2.0
//! From reports to time series, totals, histograms and envelopes in one streaming pass (docs/telemetry-schema.md).

mod bottleneck;
mod cell;
mod counters;
mod engine;
mod envelope;
mod flow;
mod histogram;
mod output;
mod source;
pub mod summary;
pub mod tables;
mod tcp;

use std::path::{Path, PathBuf};

pub use bottleneck::FINE_BITS;
pub use cell::COARSE_BITS;
pub use engine::{Engine, EngineSettings, MAX_FLOWS};
pub use source::{Decoded, Source};
use summary::Summary;

use crate::error::{Error, Result};

/// What to aggregate.
#[derive(Clone, Debug)]
pub struct AggregateSettings {
    pub source: PathBuf,
    /// Directory for the tables; made if need be, tables of the same names are replaced.
    pub directory: PathBuf,
    pub port: u16,
    /// Seconds in a time unit of the switch.
    pub time_unit_s: f64,
    pub interval_s: f64,
    pub from_reset: bool,
}

/// Aggregates a source into tables.
///
/// # Errors
/// [`Error::Input`] for a source that cannot be read or mixes runs; then no table is left behind.
pub fn aggregate(settings: &AggregateSettings) -> Result<Summary> {
    let interval_units = interval_units(settings)?;
    let source = Source::open(&settings.source, settings.port)?;
    let mut output =
        output::Output::create(&settings.directory, interval_units, settings.time_unit_s)?;
    match fill(settings, source, interval_units, &mut output) {
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
    interval_units: u64,
    output: &mut output::Output,
) -> Result<Summary> {
    let mut engine = Engine::new(EngineSettings {
        interval_units,
        from_reset: settings.from_reset,
    });
    let path = &settings.source;
    let decoded = source.decode(|records| {
        engine.take(records);
        refuse_mixed_runs(path, &engine)?;
        let (bottlenecks, flows) = engine.series();
        output.write_series(bottlenecks, flows)
    })?;
    if decoded.frames.reports == 0 {
        return Err(no_reports(settings, &decoded));
    }
    let (counts, mut placed) = engine.finish();
    output.write_final(&mut placed, &decoded.keys)?;
    Ok(Summary::new(
        settings,
        interval_units,
        &decoded,
        counts,
        &placed,
    ))
}

/// Length of an interval in time units.
fn interval_units(settings: &AggregateSettings) -> Result<u64> {
    let units = settings.interval_s / settings.time_unit_s;
    // 2^47 units are 39 hours of nanoseconds; the clock of a report wraps at twice that.
    if !(1.0..=(1_u64 << 47) as f64).contains(&units)
        || (units - units.round()).abs() > 1e-6 * units
    {
        return Err(Error::Input(format!(
            "interval {} s is not a whole number (1..2^47) of time units of {} s",
            settings.interval_s, settings.time_unit_s
        )));
    }
    Ok(units.round() as u64)
}

/// Counters of two runs, or of two switches, cannot be told apart once they are mixed.
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

fn no_reports(settings: &AggregateSettings, decoded: &Decoded) -> Error {
    Error::Input(format!(
        "{}: no reports to UDP port {} ({} frames, {} of them bad reports)",
        settings.source.display(),
        settings.port,
        decoded.frames.frames,
        decoded.frames.bad()
    ))
}
