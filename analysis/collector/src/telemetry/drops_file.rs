// SPDX-License-Identifier: Apache-2.0
//! `drops.parquet`: each packet that a bottleneck dropped, from a switch that records drops.

use std::path::{Path, PathBuf};

use narrows_drop_records::DropRecord;
use narrows_tables::table_file::{Layout, ParquetFile};
use narrows_tables::values::{Column, Number, Values};

use super::writer::described;
use crate::error::Result;

/// Name of the table.
pub const FILE_NAME: &str = "drops.parquet";

const GROUP_ROWS: usize = 64 << 10;
/// Upper bound of a row.
const ROW_BYTES: usize = 40;
/// As [`super::columns::DESCRIPTIONS`].
const DESCRIPTIONS: &str = include_str!("../../../narrows_formats/drops.columns.json");

/// Columns of the table.
pub fn columns() -> Vec<Column> {
    let column = |name, kind| Column { name, kind };
    vec![
        column("timestamp", u64::KIND),
        column("bottleneck", u8::KIND),
        column("flow", u16::KIND),
        column("signature", u32::KIND),
        column("cause", u8::KIND),
        column("packet_length", u16::KIND),
        column("waited", u64::KIND),
        column("depth_bytes", u32::KIND),
        column("depth_packets", u32::KIND),
    ]
}

/// Writes the table, in the order in which records come; there is none without a record.
pub struct DropsFile {
    path: PathBuf,
    file: Option<ParquetFile>,
    rows: Vec<DropRecord>,
}

impl DropsFile {
    /// A table of `directory`.
    pub fn new(directory: &Path) -> Self {
        DropsFile { path: directory.join(FILE_NAME), file: None, rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If the system refuses, a full disk included.
    pub fn push(&mut self, record: &DropRecord) -> Result<()> {
        self.rows.push(*record);
        if self.rows.len() < GROUP_ROWS {
            return Ok(());
        }
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(ParquetFile::create(&self.path, &columns(), layout())?),
        };
        Ok(file.write(values(&std::mem::take(&mut self.rows)))?)
    }

    /// Completes the table.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(mut self) -> Result<()> {
        if !self.rows.is_empty() {
            self.write()?;
        }
        self.file.map_or(Ok(()), |file| Ok(file.close()?))
    }
}

fn layout() -> Layout<'static> {
    let slowly_growing = &["timestamp", "waited", "depth_bytes", "depth_packets"];
    Layout { row_bytes: ROW_BYTES, group_rows: GROUP_ROWS, slowly_growing, metadata: described(DESCRIPTIONS) }
}

fn values(rows: &[DropRecord]) -> Vec<Values> {
    vec![
        Values::U64(rows.iter().map(|row| row.timestamp).collect()),
        Values::U8(rows.iter().map(|row| row.bottleneck).collect()),
        Values::U16(rows.iter().map(|row| row.flow).collect()),
        Values::U32(rows.iter().map(|row| row.signature).collect()),
        Values::U8(rows.iter().map(|row| row.cause as u8).collect()),
        Values::U16(rows.iter().map(|row| row.packet_length).collect()),
        Values::U64(rows.iter().map(|row| row.waited).collect()),
        Values::U32(rows.iter().map(|row| row.depth_bytes).collect()),
        Values::U32(rows.iter().map(|row| row.depth_packets).collect()),
    ]
}
