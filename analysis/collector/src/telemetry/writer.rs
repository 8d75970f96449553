// SPDX-License-Identifier: Apache-2.0
//! Writes reports into rotating Parquet files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use narrows_tables::table_file::{Layout, ParquetFile};

use super::columns::{self, row_bytes, Columns};
use crate::error::{Error, Result};

/// Version of the tables' schema; it is in every file's metadata.
pub const SCHEMA_VERSION: &str = "2";

/// Everything in a telemetry directory but the reports.
const OTHER_FILES: [&str; 4] = ["flow_keys.parquet", "drops.parquet", "watched.parquet", "collector.json"];

/// Rows of a file that is still being written can be read after this time: a collector that is killed loses no more.
const SHOW_EVERY: Duration = Duration::from_millis(500);

/// When a new file is begun.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    pub rows: u64,
    pub bytes: usize,
    pub age: Duration,
    pub row_group: usize,
}

/// Rotating writer of `reports-NNNNN.parquet`.
pub struct TelemetryWriter {
    directory: PathBuf,
    rotation: Rotation,
    current: Option<(ParquetFile, Instant)>,
    /// When the current file's rows were last made readable, if they were.
    shown: Option<Instant>,
    files: u32,
    rows: u64,
}

impl TelemetryWriter {
    /// A writer into `directory`, which must not have telemetry yet.
    ///
    /// # Errors
    /// [`Error::Input`] if the directory already has reports: two runs in one directory would be read as one wrong run.
    pub fn create(directory: &Path, rotation: Rotation) -> Result<Self> {
        fs::create_dir_all(directory).map_err(|e| Error::io(directory, "create", e))?;
        let entries = fs::read_dir(directory).map_err(|e| Error::io(directory, "read", e))?;
        for entry in entries {
            let entry = entry.map_err(|e| Error::io(directory, "read", e))?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with("reports-") || OTHER_FILES.contains(&&*name) {
                return Err(Error::Input(format!(
                    "{} already holds telemetry ({name}): give an empty or new directory",
                    directory.display()
                )));
            }
        }
        let directory = directory.to_path_buf();
        Ok(TelemetryWriter { directory, rotation, current: None, shown: None, files: 0, rows: 0 })
    }

    /// Writes the rows, beginning a new file when one is due.
    ///
    /// # Errors
    /// [`Error::DiskFull`] after closing the current file, so that everything in it is readable.
    pub fn write(&mut self, mut columns: Columns) -> Result<()> {
        while !columns.is_empty() {
            let filled = self.current.as_ref().map_or(0, |(file, _)| file.rows());
            let room = usize::try_from(self.rotation.rows.saturating_sub(filled)).unwrap_or(usize::MAX);
            let later = columns.split_off(room.clamp(1, columns.len()));
            self.write_to_one(columns)?;
            columns = later;
        }
        Ok(())
    }

    /// Writes rows for which the current file has room.
    fn write_to_one(&mut self, columns: Columns) -> Result<()> {
        if self.current.is_none() {
            self.shown = None;
            self.current = Some((self.open()?, Instant::now()));
        }
        let Some((file, _)) = self.current.as_mut() else {
            return Ok(());
        };
        if let Err(error) = file.write(columns.into_values()) {
            // The file's contents are complete; a second failure would say no more than the first.
            let _ = self.close();
            return Err(error.into());
        }
        if file.rows() >= self.rotation.rows || file.bytes_written() >= self.rotation.bytes {
            return self.close();
        }
        self.show_if_due()
    }

    /// Makes the current file's rows readable, or completes it, when it is time to.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn show_if_due(&mut self) -> Result<()> {
        let Some((file, opened)) = self.current.as_mut() else {
            return Ok(());
        };
        if opened.elapsed() >= self.rotation.age {
            return self.close();
        }
        if self.shown.is_some_and(|shown| shown.elapsed() < SHOW_EVERY) {
            return Ok(());
        }
        self.shown = Some(Instant::now());
        let shown = file.show();
        if shown.is_err() {
            // As above.
            let _ = self.close();
        }
        Ok(shown?)
    }

    /// Completes the current file.
    ///
    /// # Errors
    /// If the system refuses to write the footer or to rename; rows that were shown are readable all the same.
    pub fn close(&mut self) -> Result<()> {
        if let Some((file, _)) = self.current.take() {
            let rows = file.rows();
            if rows == 0 {
                file.discard();
                return Ok(());
            }
            let shown = file.shown_rows();
            let closed = file.close();
            let stored = if closed.is_ok() { rows } else { shown };
            self.rows += stored;
            self.files += u32::from(stored > 0);
            closed?;
        }
        Ok(())
    }

    /// Rows in files that are completed, or were shown.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Files with these rows.
    pub fn files(&self) -> u32 {
        self.files
    }

    fn open(&self) -> Result<ParquetFile> {
        let path = self.directory.join(format!("reports-{:05}.parquet", self.files));
        Ok(ParquetFile::create(&path, &columns::columns(), report_layout(self.rotation.row_group))?)
    }
}

/// Counters and clocks grow slowly: their differences are small.
const SLOWLY_GROWING: &[&str] = &[
    "sequence",
    "arrivals",
    "departures",
    "loss_drops",
    "aqm_drops",
    "timestamp",
    "queue_delay",
    "enqueue_depth",
    "dequeue_depth",
    "tcp_seq",
    "tcp_ack",
    "tcp_tsval",
    "tcp_tsecr",
];

fn report_layout(group_rows: usize) -> Layout<'static> {
    Layout {
        row_bytes: row_bytes(),
        group_rows,
        slowly_growing: SLOWLY_GROWING,
        metadata: described(columns::DESCRIPTIONS),
    }
}

/// Metadata of a table whose file describes its columns: `columns`, as JSON.
pub fn described(columns: &str) -> Vec<(String, String)> {
    vec![schema_version(), ("columns".into(), columns.into())]
}

/// What the metadata of every file begins with.
pub fn schema_version() -> (String, String) {
    ("narrows_schema".into(), SCHEMA_VERSION.into())
}
