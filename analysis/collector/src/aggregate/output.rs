// SPDX-License-Identifier: Apache-2.0
//! The tables as Parquet files that appear together at the end.

use std::fs;
use std::path::Path;

use narrows_tables::table_file::{Layout, ParquetFile};
use narrows_tables::values::Column;

use super::engine::Placed;
use super::histogram::Histogram;
use super::settings::EngineSettings;
use super::tables::{
    BottleneckArrivals, BottleneckSeries, EnvelopeBucket, EnvelopeBuckets, FlowArrivals, FlowSeries, FlowTotals,
    HistogramBin, HistogramBins, Rows,
};
use crate::error::{Error, Result};
use crate::flow_keys::FlowKeys;
use crate::telemetry::keys_file;
use crate::telemetry::writer::schema_version;

const GROUP_ROWS: usize = 16 << 10;
/// Upper bound of a row: numbers of at most 8 bytes and a histogram with every bin filled.
const ROW_BYTES: usize = 22 * 8 + 124 * 9;

/// All tables of an aggregation.
pub struct Output {
    flow_series: ParquetFile,
    flow_arrivals: ParquetFile,
    bottleneck_series: ParquetFile,
    bottleneck_arrivals: ParquetFile,
    flow_totals: ParquetFile,
    histograms: ParquetFile,
    envelope: ParquetFile,
    directory: std::path::PathBuf,
}

impl Output {
    /// Opens every table under a temporary name.
    ///
    /// # Errors
    /// If the system refuses; what was opened before is removed.
    pub fn create(directory: &Path, settings: &EngineSettings, time_unit_s: f64) -> Result<Self> {
        fs::create_dir_all(directory).map_err(|e| Error::io(directory, "create", e))?;
        let metadata = vec![
            schema_version(),
            ("interval_units".into(), settings.interval_units.to_string()),
            ("queue_interval_units".into(), settings.queue_units.to_string()),
            ("time_unit_s".into(), format!("{time_unit_s:e}")),
        ];
        let open = |name: &str, columns: &[Column]| {
            let layout = Layout {
                row_bytes: ROW_BYTES,
                group_rows: GROUP_ROWS,
                slowly_growing: &[],
                metadata: metadata.clone(),
            };
            ParquetFile::create(&directory.join(name), columns, layout)
        };
        Ok(Output {
            flow_series: open("flow_series.parquet", &FlowSeries::columns())?,
            flow_arrivals: open("flow_arrivals.parquet", &FlowArrivals::columns())?,
            bottleneck_series: open("bottleneck_series.parquet", &BottleneckSeries::columns())?,
            bottleneck_arrivals: open("bottleneck_arrivals.parquet", &BottleneckArrivals::columns())?,
            flow_totals: open("flow_totals.parquet", &FlowTotals::columns())?,
            histograms: open("histograms.parquet", &HistogramBins::columns())?,
            envelope: open("envelope.parquet", &EnvelopeBuckets::columns())?,
            directory: directory.to_path_buf(),
        })
    }

    /// Moves the rows of closed intervals out once there are enough.
    ///
    /// # Errors
    /// If the system refuses, a full disk included.
    pub fn write_series(&mut self, placed: &mut Placed) -> Result<()> {
        self.write_rows(placed, GROUP_ROWS)
    }

    /// Writes each series that has `least` rows.
    fn write_rows(&mut self, placed: &mut Placed, least: usize) -> Result<()> {
        let (flows, rows) = (&mut placed.flows, &mut placed.rows);
        write_at(least, &mut self.flow_series, &mut flows.series)?;
        write_at(least, &mut self.flow_arrivals, &mut flows.arrivals)?;
        write_at(least, &mut self.bottleneck_series, &mut rows.series)?;
        write_at(least, &mut self.bottleneck_arrivals, &mut rows.arrivals)
    }

    /// Writes the last series rows, totals, histograms, envelopes and, of a capture, the flow keys.
    ///
    /// # Errors
    /// As [`Output::write_series`].
    pub fn write_final(&mut self, placed: &mut Placed, keys: &FlowKeys) -> Result<()> {
        self.write_rows(placed, 1)?;
        self.write_totals(placed)?;
        let mut bins = HistogramBins::default();
        let mut buckets = EnvelopeBuckets::default();
        for (index, bottleneck) in placed.bottlenecks.iter().enumerate() {
            let Some(bottleneck) = bottleneck else {
                continue;
            };
            let index = index as u8;
            push_bins(&mut bins, index, 0, &bottleneck.delay);
            push_bins(&mut bins, index, 1, &bottleneck.depth);
            for (start, width, bucket) in bottleneck.envelope.filled() {
                buckets.push(EnvelopeBucket {
                    bottleneck: index,
                    start,
                    width,
                    reports: bucket.reports,
                    delay_min: bucket.delay_min,
                    delay_max: bucket.delay_max,
                    depth_min: bucket.depth_min,
                    depth_max: bucket.depth_max,
                });
            }
        }
        write(&mut self.histograms, &mut bins)?;
        write(&mut self.envelope, &mut buckets)?;
        let keys = keys.of_flows(placed.flows.states.iter().map(|state| state.id));
        if keys.is_empty() {
            return Ok(());
        }
        keys_file::write(&self.directory, &keys)
    }

    fn write_totals(&mut self, placed: &Placed) -> Result<()> {
        let mut states: Vec<_> = placed.flows.states.iter().collect();
        states.sort_unstable_by_key(|state| state.id);
        for part in states.chunks(GROUP_ROWS) {
            let mut totals = FlowTotals::default();
            for state in part {
                totals.push(state.total());
                totals.delay_histogram.push(state.total_histogram());
            }
            write(&mut self.flow_totals, &mut totals)?;
        }
        Ok(())
    }

    /// Completes every table.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn close(self) -> Result<()> {
        for file in self.files() {
            file.close()?;
        }
        Ok(())
    }

    /// Removes the unfinished tables.
    pub fn discard(self) {
        self.files().into_iter().for_each(ParquetFile::discard);
    }

    fn files(self) -> [ParquetFile; 7] {
        [
            self.flow_series,
            self.flow_arrivals,
            self.bottleneck_series,
            self.bottleneck_arrivals,
            self.flow_totals,
            self.histograms,
            self.envelope,
        ]
    }
}

fn push_bins<const S: u32>(bins: &mut HistogramBins, bottleneck: u8, quantity: u8, histogram: &Histogram<S>) {
    for (lower, upper, count) in histogram.filled() {
        bins.push(HistogramBin { bottleneck, quantity, lower, upper, count });
    }
}

fn write_at<R: Rows>(least: usize, file: &mut ParquetFile, rows: &mut R) -> Result<()> {
    if rows.len() < least {
        return Ok(());
    }
    write(file, rows)
}

fn write<R: Rows>(file: &mut ParquetFile, rows: &mut R) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    Ok(file.write(rows.take_values())?)
}
