// SPDX-License-Identifier: Apache-2.0
//! Decoded reports in columns: the schema of `telemetry/reports-*.parquet` (docs/telemetry-schema.md).

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, UInt16Type, UInt32Type, UInt64Type, UInt8Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use crate::wire::Record;

/// Rows of a [`RowBlock`].
pub const BLOCK_ROWS: usize = 128;

macro_rules! columns {
    ($($name:ident: $type:ty, $arrow:ident, $part:ident;)*) => {
        /// Rows in memory, one vector a column; all have the same length.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Columns { $(pub $name: Vec<$type>,)* }

        impl Columns {
            /// Empty columns with room for `rows`.
            pub fn with_capacity(rows: usize) -> Self {
                Columns { $($name: Vec::with_capacity(rows),)* }
            }

            /// Moves the collected rows behind those that are there.
            pub fn append(&mut self, rows: &mut RowBlock) {
                let length = std::mem::take(&mut rows.length).min(BLOCK_ROWS);
                $(self.$name.extend_from_slice(&rows.$name[..length]);)*
            }

            /// Removes all rows, keeps the memory.
            pub fn clear(&mut self) {
                $(self.$name.clear();)*
            }

            /// The rows as an Arrow batch.
            ///
            /// # Errors
            /// None in practice: the columns are equally long by construction.
            pub fn into_batch(self) -> Result<RecordBatch, ArrowError> {
                let arrays: Vec<ArrayRef> = vec![
                    $(Arc::new(PrimitiveArray::<$arrow>::from_iter_values(self.$name)),)*
                ];
                RecordBatch::try_new(schema(), arrays)
            }
        }

        /// A few rows in columns that lie side by side in the first-level cache: the fast way into [`Columns`].
        pub struct RowBlock { $($name: [$type; BLOCK_ROWS],)* length: usize }

        impl Default for RowBlock {
            fn default() -> Self {
                RowBlock { $($name: [0; BLOCK_ROWS],)* length: 0 }
            }
        }

        impl RowBlock {
            /// Adds a row; false when the block is full, which has then to be appended to columns.
            #[inline(always)]
            pub fn push(&mut self, record: &Record) -> bool {
                let row = self.length % BLOCK_ROWS;
                $(self.$name[row] = record.$part.$name;)*
                self.length += 1;
                self.length < BLOCK_ROWS
            }
        }

        /// Schema of the telemetry files; no column is nullable.
        pub fn schema() -> SchemaRef {
            Arc::new(Schema::new(vec![
                $(Field::new(stringify!($name), <$arrow as ArrowPrimitiveType>::DATA_TYPE, false),)*
            ]))
        }

        /// Typed views of the columns of a batch read back.
        pub struct Rows<'a> { $($name: &'a [$type],)* length: usize }

        impl<'a> Rows<'a> {
            /// # Errors
            /// The name of the first column that is missing, has another type or holds nulls.
            pub fn new(batch: &'a RecordBatch) -> Result<Self, String> {
                Ok(Rows { $($name: values::<$arrow>(batch, stringify!($name))?,)* length: batch.num_rows() })
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
    flags: u8, UInt8Type, report;
    bottleneck: u8, UInt8Type, report;
    sample_shift: u8, UInt8Type, report;
    flow: u16, UInt16Type, report;
    packet_length: u16, UInt16Type, report;
    signature: u32, UInt32Type, report;
    sequence: u32, UInt32Type, report;
    arrivals: u32, UInt32Type, report;
    departures: u32, UInt32Type, report;
    loss_drops: u32, UInt32Type, report;
    queue_delay: u32, UInt32Type, report;
    enqueue_depth: u32, UInt32Type, report;
    dequeue_depth: u32, UInt32Type, report;
    timestamp: u64, UInt64Type, report;
    epoch: u16, UInt16Type, report;
    ip_version: u8, UInt8Type, original;
    ecn: u8, UInt8Type, original;
    protocol: u8, UInt8Type, original;
    payload_length: u16, UInt16Type, original;
    tcp_flags: u16, UInt16Type, original;
    tcp_seq: u32, UInt32Type, original;
    tcp_ack: u32, UInt32Type, original;
    tcp_tsval: u32, UInt32Type, original;
    tcp_tsecr: u32, UInt32Type, original;
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

fn values<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<&'a [T::Native], String> {
    let array = batch
        .column_by_name(name)
        .ok_or_else(|| format!("column {name} is missing"))?;
    let typed = array.as_any().downcast_ref::<PrimitiveArray<T>>();
    let typed = typed.ok_or_else(|| {
        format!(
            "column {name} is {}, not {}",
            array.data_type(),
            expected::<T>()
        )
    })?;
    if typed.null_count() > 0 {
        return Err(format!("column {name} holds nulls"));
    }
    Ok(typed.values())
}

fn expected<T: ArrowPrimitiveType>() -> DataType {
    T::DATA_TYPE
}

/// Bytes of one row without any compression: an upper bound of what it takes in a file.
pub fn row_bytes() -> usize {
    schema()
        .fields()
        .iter()
        .map(|field| field.data_type().primitive_width().unwrap_or(8))
        .sum()
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
            assert!(columns
                .tcp_tsecr
                .iter()
                .copied()
                .eq(numbers.clone().map(|n| !n)));
            assert!(columns.ecn.iter().copied().eq(numbers.map(|n| n as u8 & 3)));
        }
    }
}
