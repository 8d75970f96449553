// SPDX-License-Identifier: Apache-2.0
//! `watched.parquet`: what chosen fields of a user's program had of each packet that was reported.

use narrows_drop_records::FieldRecord;
use narrows_tables::table_file::Layout;
use narrows_tables::values::{Column, Number, Values};
use serde_json::{json, Map};

use super::rows_file::{Table, GROUP_ROWS};
use super::writer::described;

/// As [`super::columns::DESCRIPTIONS`], of the columns in front of the fields.
const DESCRIPTIONS: &str = include_str!("../../../narrows_formats/watched.columns.json");

/// The table: which packet it is, and a column for each field.
pub struct Fields {
    /// Names of the fields, in the order in which the switch was given them.
    pub names: Vec<&'static str>,
}

impl Table for Fields {
    type Row = FieldRecord;
    const FILE_NAME: &'static str = "watched.parquet";

    fn columns(&self) -> Vec<Column> {
        let packet = [("timestamp", u64::KIND), ("bottleneck", u8::KIND), ("sequence", u32::KIND)];
        let fields = self.names.iter().map(|name| (*name, u64::KIND));
        packet.into_iter().chain(fields).map(|(name, kind)| Column { name, kind }).collect()
    }

    fn layout(&self) -> Layout<'static> {
        let mut columns: Map<_, _> = serde_json::from_str(DESCRIPTIONS).unwrap_or_default();
        for name in &self.names {
            let meaning = "what this field of the program's metadata had when the packet left egress";
            columns.insert((*name).to_owned(), json!({"type": "u64", "unit": "", "meaning": meaning}));
        }
        let metadata = described(&serde_json::Value::Object(columns).to_string());
        let slowly_growing = &["timestamp", "sequence"];
        Layout { row_bytes: 16 + 8 * self.names.len(), group_rows: GROUP_ROWS, slowly_growing, metadata }
    }

    fn values(&self, rows: &[FieldRecord]) -> Vec<Values> {
        let of_field = |at: usize| rows.iter().map(|row| row.values.get(at).copied().unwrap_or(0)).collect();
        let packet = [
            Values::U64(rows.iter().map(|row| row.timestamp).collect()),
            Values::U8(rows.iter().map(|row| row.bottleneck).collect()),
            Values::U32(rows.iter().map(|row| row.sequence).collect()),
        ];
        packet.into_iter().chain((0..self.names.len()).map(|at| Values::U64(of_field(at)))).collect()
    }
}
