// SPDX-License-Identifier: Apache-2.0
//! Decoded reports in columns: the schema of `telemetry/reports-*.parquet` (docs/telemetry-schema.md).

use narrows_tables::stored_table::StoredColumns;
use narrows_tables::values::{Column, Kind, Number, Values};

use crate::wire::Record;

/// Type, unit and meaning of each column, as in the file's metadata; the documentation is made from it too.
pub const DESCRIPTIONS: &str = include_str!("../../../narrows_formats/reports.columns.json");

/// Columns that files before [`SCHEMA_VERSION`](super::writer::SCHEMA_VERSION) 2 do not have: there was no queue management.
const SINCE_2: [&str; 2] = ["aqm_drops", "queue"];

/// Rows of a [`RowBlock`].
pub const BLOCK_ROWS: usize = 128;

macro_rules! columns {
    ($($name:ident: $type:ty, $part:ident;)*) => {
        /// Rows in memory, one vector a column; all have the same length.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Columns { $(pub $name: Vec<$type>,)* }

        impl Columns {
            /// Empty columns with room for `rows`.
            pub fn with_capacity(rows: usize) -> Self {
                Columns { $($name: Vec::with_capacity(rows),)* }
            }

            /// Moves the collected rows to the end of these.
            pub fn append(&mut self, rows: &mut RowBlock) {
                let length = std::mem::take(&mut rows.length).min(BLOCK_ROWS);
                $(self.$name.extend_from_slice(&rows.$name[..length]);)*
            }

            /// Removes the rows from index `row` on and returns them.
            pub fn split_off(&mut self, row: usize) -> Self {
                Columns { $($name: self.$name.split_off(row),)* }
            }

            /// Removes all rows, keeps the memory.
            pub fn clear(&mut self) {
                $(self.$name.clear();)*
            }

            /// The values, column by column.
            pub fn into_values(self) -> Vec<Values> {
                vec![$(Number::column(self.$name),)*]
            }
        }

        /// A few rows in columns that fit side by side into the first-level cache: the fast way into [`Columns`].
        pub struct RowBlock { $($name: [$type; BLOCK_ROWS],)* length: usize }

        impl Default for RowBlock {
            fn default() -> Self {
                RowBlock { $($name: [0; BLOCK_ROWS],)* length: 0 }
            }
        }

        impl RowBlock {
            /// Adds a row; false when the block is full and has to be appended to columns.
            #[inline(always)]
            pub fn push(&mut self, record: &Record) -> bool {
                let row = self.length % BLOCK_ROWS;
                $(self.$name[row] = record.$part.$name;)*
                self.length += 1;
                self.length < BLOCK_ROWS
            }
        }

        /// Columns of the telemetry files.
        pub fn columns() -> Vec<Column> {
            vec![$(Column { name: stringify!($name), kind: <$type as Number>::KIND },)*]
        }

        /// Rows read back.
        pub struct Rows { $($name: Vec<$type>,)* length: usize }

        impl Rows {
            /// Reads up to `most` rows of a row group.
            ///
            /// # Errors
            /// The name of the first column that is missing, has another type, has nulls or is damaged.
            pub fn read(group: &mut StoredColumns, most: usize) -> Result<Self, String> {
                let mut rows = Rows { $($name: Vec::new(),)* length: 0 };
                $(if group.has(stringify!($name)) || !SINCE_2.contains(&stringify!($name)) {
                    rows.$name = group.read(stringify!($name), most)?;
                })*
                rows.length = rows.sequence.len();
                $(if !group.has(stringify!($name)) {
                    rows.$name.resize(rows.length, 0);
                })*
                Ok(rows)
            }

            /// Number of rows.
            pub fn len(&self) -> usize {
                self.length
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.length == 0
            }

            /// Row `index`; panics beyond [`Rows::len`], as indexing does.
            #[inline]
            pub fn get(&self, index: usize) -> Record {
                let mut record = Record::default();
                record.report.version = crate::wire::report::VERSION;
                $(record.$part.$name = self.$name[index];)*
                record
            }
        }
    };
}

columns! {
    flags: u8, report;
    bottleneck: u8, report;
    sample_shift: u8, report;
    flow: u16, report;
    packet_length: u16, report;
    signature: u32, report;
    sequence: u32, report;
    arrivals: u32, report;
    departures: u32, report;
    loss_drops: u32, report;
    aqm_drops: u32, report;
    enqueue_depth: u32, report;
    dequeue_depth: u32, report;
    queue_delay: u64, report;
    epoch: u16, report;
    timestamp: u64, report;
    queue: u16, report;
    ip_version: u8, original;
    ecn: u8, original;
    protocol: u8, original;
    payload_length: u16, original;
    tcp_flags: u16, original;
    tcp_seq: u32, original;
    tcp_ack: u32, original;
    tcp_tsval: u32, original;
    tcp_tsecr: u32, original;
}

impl Columns {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.sequence.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.sequence.is_empty()
    }
}

/// Bytes of one row without compression: an upper bound of its size in a file.
pub fn row_bytes() -> usize {
    let bytes = |column: Column| match column.kind {
        Kind::Number { bits, .. } => usize::from(bits) / 8,
        Kind::Text | Kind::List { .. } => 8,
    };
    columns().into_iter().map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_blocks_are_in_order_and_complete() {
        let (mut block, mut columns) = (RowBlock::default(), Columns::with_capacity(8));
        for rows in [0, 1, BLOCK_ROWS, 2 * BLOCK_ROWS + 5] {
            columns.clear();
            for row in 0..rows {
                let mut record = Record::default();
                record.report.sequence = row as u32;
                record.original.tcp_tsecr = !(row as u32);
                record.original.ecn = row as u8 & 3;
                if !block.push(&record) {
                    columns.append(&mut block);
                }
            }
            columns.append(&mut block);
            let numbers = 0..rows as u32;
            assert_eq!(columns.len(), rows);
            assert!(columns.sequence.iter().copied().eq(numbers.clone()));
            assert!(columns.tcp_tsecr.iter().copied().eq(numbers.clone().map(|n| !n)));
            assert!(columns.ecn.iter().copied().eq(numbers.map(|n| n as u8 & 3)));
        }
    }
}
