// SPDX-License-Identifier: Apache-2.0
//! Shared by the integration tests: captures on disk and tables in memory.
#![allow(clippy::unwrap_used)] // a failed expectation is a failed test
#![allow(dead_code)]

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt16Type, UInt32Type, UInt64Type, UInt8Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use narrows_collector::generate::truth::Truth;
use narrows_collector::generate::{pcap, Scenario};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// Writes the scenario's capture.
pub fn capture(scenario: &Scenario, path: &Path) -> Truth {
    pcap(scenario, &mut BufWriter::new(File::create(path).unwrap())).unwrap()
}

/// A whole Parquet file.
pub struct Table(pub Vec<RecordBatch>);

/// Reads a table.
pub fn read_table(path: &Path) -> Table {
    let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .unwrap()
        .build()
        .unwrap();
    Table(reader.map(Result::unwrap).collect())
}

/// A column of unsigned numbers.
pub fn column(table: &Table, name: &str) -> Vec<u64> {
    table
        .0
        .iter()
        .flat_map(|batch| numbers(batch.column_by_name(name).expect(name)))
        .collect()
}

fn numbers(array: &ArrayRef) -> Vec<u64> {
    match array.data_type() {
        DataType::UInt8 => array
            .as_primitive::<UInt8Type>()
            .values()
            .iter()
            .map(|v| u64::from(*v))
            .collect(),
        DataType::UInt16 => array
            .as_primitive::<UInt16Type>()
            .values()
            .iter()
            .map(|v| u64::from(*v))
            .collect(),
        DataType::UInt32 => array
            .as_primitive::<UInt32Type>()
            .values()
            .iter()
            .map(|v| u64::from(*v))
            .collect(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().values().to_vec(),
        // Intervals since the origin: none is negative here.
        DataType::Int64 => array
            .as_primitive::<Int64Type>()
            .values()
            .iter()
            .map(|v| u64::try_from(*v).unwrap())
            .collect(),
        other => panic!("{other} is not unsigned"),
    }
}

impl Table {
    pub fn rows(&self) -> usize {
        self.0.iter().map(RecordBatch::num_rows).sum()
    }

    /// Sum of a column over the rows of [bottleneck, flow, signature].
    pub fn sum_where(&self, name: &str, key: [u64; 3]) -> u64 {
        let keys = ["bottleneck", "flow", "signature"].map(|part| column(self, part));
        let values = column(self, name).into_iter().enumerate();
        values
            .filter(|(row, _)| (0..3).all(|part| keys[part][*row] == key[part]))
            .map(|(_, value)| value)
            .sum()
    }

    /// Sum of all counts in the delay histograms.
    pub fn histogram_total(&self) -> u64 {
        let lists = self.0.iter().map(|batch| {
            batch
                .column_by_name("delay_counts")
                .unwrap()
                .as_list::<i32>()
                .clone()
        });
        lists
            .map(|list| {
                list.values()
                    .as_primitive::<UInt64Type>()
                    .values()
                    .iter()
                    .sum::<u64>()
            })
            .sum()
    }
}
