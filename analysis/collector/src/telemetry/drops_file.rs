// SPDX-License-Identifier: Apache-2.0
//! `drops.parquet`: each packet that a bottleneck dropped, from a switch that records drops.

use narrows_drop_records::DropRecord;
use narrows_tables::table_file::Layout;
use narrows_tables::values::{Column, Number, Values};

use super::rows_file::{Table, GROUP_ROWS};
use super::writer::described;

/// Upper bound of a row.
const ROW_BYTES: usize = 40;
/// As [`super::columns::DESCRIPTIONS`].
const DESCRIPTIONS: &str = include_str!("../../../narrows_formats/drops.columns.json");

/// The table.
pub struct Drops;

impl Table for Drops {
    type Row = DropRecord;
    const FILE_NAME: &'static str = "drops.parquet";

    fn columns(&self) -> Vec<Column> {
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

    fn layout(&self) -> Layout<'static> {
        let slowly_growing = &["timestamp", "waited", "depth_bytes", "depth_packets"];
        Layout { row_bytes: ROW_BYTES, group_rows: GROUP_ROWS, slowly_growing, metadata: described(DESCRIPTIONS) }
    }

    fn values(&self, rows: &[DropRecord]) -> Vec<Values> {
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
}
