// SPDX-License-Identifier: Apache-2.0
//! Rows of unsigned whole numbers as an Arrow IPC stream (Arrow columnar format, "IPC Streaming Format").
//!
//! Not by the library arrow-ipc: with what it needs it was a fifteenth of all that is compiled here, for other types than these.

mod metadata;

use std::io::{self, BufWriter, Write};

use narrows_tables::values::{Column, Kind, Values};

use metadata::{Extent, Field};

/// What every message begins with.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// What ends metadata is a multiple of this.
const METADATA_ALIGNMENT: usize = 8;
/// What begins a column is a multiple of this: readers that map a file use it as it is.
const COLUMN_ALIGNMENT: usize = 64;

/// A stream that has begun.
pub struct RowStream {
    writer: BufWriter<Box<dyn Write + Send>>,
    fields: Vec<Field>,
}

impl RowStream {
    /// Begins a stream with the columns' names and types, each with its unit where it has one.
    ///
    /// # Errors
    /// If a column holds other things than unsigned whole numbers, or writing fails.
    pub fn start(to: Box<dyn Write + Send>, columns: Vec<(Column, Option<String>)>) -> io::Result<Self> {
        let fields = columns.into_iter().map(|(column, unit)| match column.kind {
            Kind::Number { bits, signed: false } => Ok(Field { name: column.name, bits, unit }),
            _ => Err(not_allowed(column.name)),
        });
        let mut stream = RowStream { writer: BufWriter::new(to), fields: fields.collect::<io::Result<_>>()? };
        let schema = metadata::schema(&stream.fields);
        stream.write_metadata(&schema)?;
        stream.flush()?;
        Ok(stream)
    }

    /// Adds rows, column by column in the order in which they were named. They may wait for [`RowStream::flush`].
    ///
    /// # Errors
    /// If they are not those columns, or writing fails.
    pub fn write(&mut self, columns: Vec<Values>) -> io::Result<()> {
        let (rows, found) = (columns.first().map_or(0, Values::len), columns.len());
        if found != self.fields.len() || columns.iter().any(|column| column.len() != rows) {
            let wanted = self.fields.len();
            return Err(io::Error::other(format!("{found} columns of {wanted}, or not of one length")));
        }
        let columns = columns.into_iter().zip(&self.fields).map(|(values, field)| match little_endian(values) {
            Some((bits, bytes)) if bits == field.bits => Ok(bytes),
            _ => Err(not_allowed(field.name)),
        });
        let columns = columns.collect::<io::Result<Vec<_>>>()?;
        let mut body_bytes = 0;
        let extents = columns.iter().map(|column| {
            let extent = Extent { offset: body_bytes, bytes: column.len() };
            body_bytes = (body_bytes + column.len()).next_multiple_of(COLUMN_ALIGNMENT);
            extent
        });
        let extents: Vec<Extent> = extents.collect();
        self.write_metadata(&metadata::batch(rows, &extents, body_bytes))?;
        columns.iter().try_for_each(|column| self.write_padded(column, COLUMN_ALIGNMENT))
    }

    /// Passes on all rows so far.
    ///
    /// # Errors
    /// If writing fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(&mut self) -> io::Result<()> {
        self.writer.write_all(&CONTINUATION)?;
        self.writer.write_all(&0u32.to_le_bytes())?;
        self.flush()
    }

    fn write_metadata(&mut self, metadata: &[u8]) -> io::Result<()> {
        self.writer.write_all(&CONTINUATION)?;
        self.writer.write_all(&(metadata.len().next_multiple_of(METADATA_ALIGNMENT) as u32).to_le_bytes())?;
        self.write_padded(metadata, METADATA_ALIGNMENT)
    }

    /// Writes bytes, and zeros up to a multiple of `alignment`.
    fn write_padded(&mut self, bytes: &[u8], alignment: usize) -> io::Result<()> {
        self.writer.write_all(bytes)?;
        let padding = bytes.len().next_multiple_of(alignment) - bytes.len();
        self.writer.write_all(&[0; COLUMN_ALIGNMENT][..padding])
    }
}

fn not_allowed(column: &str) -> io::Error {
    io::Error::other(format!("column {column}: allowed are unsigned whole numbers, of one width"))
}

/// Bits of each value, and all values as they are sent; `None` if they are no unsigned whole numbers.
fn little_endian(values: Values) -> Option<(u8, Vec<u8>)> {
    match values {
        Values::U8(values) => Some((8, values)),
        Values::U16(values) => Some((16, joined(&values, u16::to_le_bytes))),
        Values::U32(values) => Some((32, joined(&values, u32::to_le_bytes))),
        Values::U64(values) => Some((64, joined(&values, u64::to_le_bytes))),
        _ => None,
    }
}

fn joined<T: Copy, const BYTES: usize>(values: &[T], bytes: fn(T) -> [u8; BYTES]) -> Vec<u8> {
    let mut all = vec![0; values.len() * BYTES];
    for (place, value) in all.chunks_exact_mut(BYTES).zip(values) {
        place.copy_from_slice(&bytes(*value));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &'static str, bits: u8, signed: bool) -> (Column, Option<String>) {
        (Column { name, kind: Kind::Number { bits, signed } }, None)
    }

    #[test]
    fn other_columns_are_refused() {
        let started = |column| RowStream::start(Box::new(io::sink()), vec![column]).map(drop);
        assert!(started(column("depth", 16, false)).is_ok());
        let refused = started(column("change", 64, true)).expect_err("signed").to_string();
        assert_eq!(refused, "column change: allowed are unsigned whole numbers, of one width");
    }

    #[test]
    fn rows_of_other_columns_are_refused() {
        let columns = vec![column("depth", 16, false), column("length", 8, false)];
        let mut stream = RowStream::start(Box::new(io::sink()), columns).expect("starts");
        stream.write(vec![Values::U16(vec![1, 2]), Values::U8(vec![3, 4])]).expect("written");
        assert!(stream.write(vec![Values::U16(vec![1, 2])]).is_err());
        assert!(stream.write(vec![Values::U8(vec![1, 2]), Values::U8(vec![3, 4])]).is_err());
        assert!(stream.write(vec![Values::U16(vec![1, 2]), Values::U8(vec![3])]).is_err());
        stream.write(vec![Values::U16(vec![5]), Values::U8(vec![6])]).expect("written");
        stream.finish().expect("written");
    }
}
