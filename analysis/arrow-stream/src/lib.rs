// SPDX-License-Identifier: Apache-2.0
//! Rows of numbers as an Arrow IPC stream.
//!
//! A crate of its own because it is built without optimisation: sending a batch only copies its columns.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt16Array, UInt32Array, UInt64Array, UInt8Array};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use narrows_tables::values::{Column, Kind, Values};

/// A stream that has begun.
pub struct RowStream {
    schema: SchemaRef,
    writer: StreamWriter<BufWriter<Box<dyn Write + Send>>>,
}

impl RowStream {
    /// Begins a stream with the columns' names and types, each with its unit where it has one.
    ///
    /// # Errors
    /// If a column holds other things than unsigned whole numbers, or writing fails.
    pub fn start(to: Box<dyn Write + Send>, columns: &[(Column, Option<String>)]) -> io::Result<Self> {
        let fields = columns.iter().map(|(column, unit)| {
            let unit = unit.iter().map(|unit| ("unit".to_owned(), unit.clone()));
            Ok(Field::new(column.name, data_type(column)?, false).with_metadata(unit.collect()))
        });
        let schema = Arc::new(Schema::new(fields.collect::<io::Result<Vec<_>>>()?));
        let mut writer = StreamWriter::try_new(BufWriter::new(to), &schema).map_err(io_error)?;
        writer.flush().map_err(io_error)?;
        Ok(RowStream { schema, writer })
    }

    /// Adds rows, column by column in the order in which they were named. They may wait for [`RowStream::flush`].
    ///
    /// # Errors
    /// If they are not those columns, or writing fails.
    pub fn write(&mut self, columns: Vec<Values>) -> io::Result<()> {
        let arrays = columns.into_iter().map(array).collect::<Result<_, _>>();
        let batch = arrays.and_then(|arrays| RecordBatch::try_new(Arc::clone(&self.schema), arrays));
        batch.and_then(|batch| self.writer.write(&batch)).map_err(io_error)
    }

    /// Passes on all rows so far.
    ///
    /// # Errors
    /// If writing fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush().map_err(io_error)
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(&mut self) -> io::Result<()> {
        self.writer.finish().map_err(io_error)
    }
}

fn io_error(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        error => io::Error::other(error),
    }
}

fn data_type(column: &Column) -> io::Result<DataType> {
    match column.kind {
        Kind::Number { bits: 8, signed: false } => Ok(DataType::UInt8),
        Kind::Number { bits: 16, signed: false } => Ok(DataType::UInt16),
        Kind::Number { bits: 32, signed: false } => Ok(DataType::UInt32),
        Kind::Number { bits: 64, signed: false } => Ok(DataType::UInt64),
        _ => Err(io::Error::other(format!("column {}: allowed are unsigned whole numbers", column.name))),
    }
}

fn array(values: Values) -> Result<ArrayRef, ArrowError> {
    Ok(match values {
        Values::U8(values) => Arc::new(UInt8Array::from(values)),
        Values::U16(values) => Arc::new(UInt16Array::from(values)),
        Values::U32(values) => Arc::new(UInt32Array::from(values)),
        Values::U64(values) => Arc::new(UInt64Array::from(values)),
        _ => return Err(ArrowError::SchemaError("allowed are unsigned whole numbers".into())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &'static str, bits: u8, signed: bool) -> (Column, Option<String>) {
        (Column { name, kind: Kind::Number { bits, signed } }, None)
    }

    #[test]
    fn other_columns_are_refused() {
        let started = |column| RowStream::start(Box::new(io::sink()), &[column]).map(drop).map_err(|e| e.to_string());
        assert_eq!(started(column("depth", 16, false)), Ok(()));
        assert_eq!(
            started(column("change", 64, true)),
            Err("column change: allowed are unsigned whole numbers".into())
        );
    }

    #[test]
    fn rows_of_other_columns_are_refused() {
        let columns = [column("depth", 16, false), column("length", 8, false)];
        let mut stream = RowStream::start(Box::new(io::sink()), &columns).expect("starts");
        stream.write(vec![Values::U16(vec![1, 2]), Values::U8(vec![3, 4])]).expect("written");
        assert!(stream.write(vec![Values::U16(vec![1, 2])]).is_err());
        assert!(stream.write(vec![Values::U8(vec![1, 2]), Values::U8(vec![3, 4])]).is_err());
        assert!(stream.write(vec![Values::U16(vec![1, 2]), Values::U8(vec![3])]).is_err());
        stream.write(vec![Values::U16(vec![5]), Values::U8(vec![6])]).expect("written");
        stream.finish().expect("written");
    }
}
