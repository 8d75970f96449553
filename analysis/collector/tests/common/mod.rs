// SPDX-License-Identifier: Apache-2.0
//! Shared by the integration tests: captures on disk and tables in memory.
#![allow(clippy::unwrap_used)] // a failed expectation is a failed test
#![allow(dead_code)]

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use narrows_collector::generate::truth::Truth;
use narrows_collector::generate::{pcap, Scenario};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};

/// Writes the scenario's capture.
pub fn capture(scenario: &Scenario, path: &Path) -> Truth {
    pcap(scenario, &mut BufWriter::new(File::create(path).unwrap())).unwrap()
}

/// A whole Parquet file.
pub struct Table(pub Vec<Row>);

/// Reads a table.
pub fn read_table(path: &Path) -> Table {
    let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let reader = SerializedFileReader::new(file).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    Table(rows.map(Result::unwrap).collect())
}

/// A column of unsigned numbers.
pub fn column(table: &Table, name: &str) -> Vec<u64> {
    let rows = table.0.iter();
    rows.map(|row| number(field(row, name))).collect()
}

fn field<'a>(row: &'a Row, name: &str) -> &'a Field {
    let mut fields = row.get_column_iter();
    fields.find(|(found, _)| *found == name).expect(name).1
}

fn number(field: &Field) -> u64 {
    match field {
        Field::UByte(value) => u64::from(*value),
        Field::UShort(value) => u64::from(*value),
        Field::UInt(value) => u64::from(*value),
        Field::ULong(value) => *value,
        // Intervals since the origin: none is negative here.
        Field::Long(value) => u64::try_from(*value).unwrap(),
        other => panic!("{other} is not unsigned"),
    }
}

impl Table {
    pub fn rows(&self) -> usize {
        self.0.len()
    }

    /// Sum of a column over the rows of [bottleneck, flow, signature].
    pub fn sum_where(&self, name: &str, key: [u64; 3]) -> u64 {
        let keys = ["bottleneck", "flow", "signature"].map(|part| column(self, part));
        let values = column(self, name).into_iter().enumerate();
        values.filter(|(row, _)| (0..3).all(|part| keys[part][*row] == key[part])).map(|(_, value)| value).sum()
    }

    /// Sum of all counts in the delay histograms.
    pub fn histogram_total(&self) -> u64 {
        let rows = self.0.iter();
        rows.map(|row| match field(row, "delay_counts") {
            Field::ListInternal(counts) => counts.elements().iter().map(number).sum::<u64>(),
            other => panic!("{other} is not a list"),
        })
        .sum()
    }
}
