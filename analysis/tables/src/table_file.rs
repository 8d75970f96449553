// SPDX-License-Identifier: Apache-2.0
//! A Parquet file that can be read whenever it has its name, and can always be completed.
//!
//! Before each row group, the most space that it and the footer can need is allocated. So a full disk is noticed between row
//! groups, when the footer can still be written and makes everything received so far readable.
//!
//! A file that grows for long is readable meanwhile, whatever becomes of its writer: [`ParquetFile::show`] puts a footer at the
//! end of what is allocated, which the next row group does not reach.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::ColumnPath;

use crate::error::{Error, Result};
use crate::new_file::{self, remove_quietly, temporary_name};
use crate::values::{stored_schema, Column, Lists, Values};

/// Space for the footer, page headers and statistics of any file written here.
const FOOTER_BYTES: u64 = 1 << 20;
/// Where the disk has no room for a whole row group, smaller ones are written, down to this many rows.
const LEAST_ROWS: usize = 1024;

/// How a table is stored.
pub struct Layout<'a> {
    /// Upper bound of a row's uncompressed bytes.
    pub row_bytes: usize,
    /// Most rows in a row group.
    pub group_rows: usize,
    /// Columns of which the differences from row to row are small.
    pub slowly_growing: &'a [&'a str],
    /// The file's metadata: keys and values.
    pub metadata: Vec<(String, String)>,
}

impl Layout<'_> {
    fn properties(self) -> WriterProperties {
        let metadata = self.metadata.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect();
        let mut builder = WriterProperties::builder()
            .set_writer_version(WriterVersion::PARQUET_2_0)
            .set_compression(Compression::LZ4_RAW)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_created_by(format!("narrows-collector {}", env!("CARGO_PKG_VERSION")))
            .set_max_row_group_row_count(Some(self.group_rows))
            .set_key_value_metadata(Some(metadata));
        for name in self.slowly_growing {
            let column = ColumnPath::from(*name);
            builder = builder
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
        builder.build()
    }
}

/// A Parquet file being written under a temporary name.
pub struct ParquetFile {
    writer: SerializedFileWriter<CountingFile>,
    /// The rows of the next row group, in the parts in which they came.
    waiting: Vec<Vec<Values>>,
    waiting_rows: usize,
    path: PathBuf,
    /// Where it is as long as it has not its name.
    temporary: Option<PathBuf>,
    group_rows: usize,
    row_bytes: usize,
    rows: u64,
    /// Rows that were shown, and the end of the file then.
    shown_rows: u64,
    shown_end: u64,
    /// Whether the file system allocates space; where it does not, only writing tells that the disk is full.
    allocates: bool,
}

impl ParquetFile {
    /// Opens `path` for a table of these columns.
    ///
    /// # Errors
    /// If the file cannot be created or there is no space for the first row group.
    pub fn create(path: &Path, columns: &[Column], layout: Layout<'_>) -> Result<Self> {
        let temporary = temporary_name(path);
        let result = Self::create_temporary(path, &temporary, columns, layout);
        if result.is_err() {
            remove_quietly(&temporary);
        }
        result
    }

    fn create_temporary(path: &Path, temporary: &Path, columns: &[Column], layout: Layout<'_>) -> Result<Self> {
        let (group_rows, row_bytes) = (layout.group_rows, layout.row_bytes);
        let file = CountingFile {
            file: new_file::create(temporary).map_err(|e| Error::io(temporary, "create", e))?,
            written: 0,
        };
        let writer = stored_schema(columns)
            .and_then(|schema| SerializedFileWriter::new(file, schema, Arc::new(layout.properties())))
            .map_err(|e| parquet_error(temporary, e))?;
        let mut file = ParquetFile {
            writer,
            waiting: Vec::new(),
            waiting_rows: 0,
            path: path.to_path_buf(),
            temporary: Some(temporary.to_path_buf()),
            group_rows,
            row_bytes,
            rows: 0,
            shown_rows: 0,
            shown_end: 0,
            allocates: true,
        };
        file.reserve()?;
        Ok(file)
    }

    /// Appends rows; on [`Error::DiskFull`] the number of rows that are in the file is [`Self::rows`].
    ///
    /// # Errors
    /// [`Error::DiskFull`] between row groups, anything else from the system or the library.
    pub fn write(&mut self, mut rows: Vec<Values>) -> Result<()> {
        loop {
            let count = rows.first().map_or(0, Values::len);
            if count == 0 {
                return Ok(());
            }
            let room = self.group_rows - self.waiting_rows;
            let rest = match count > room {
                true => rows.iter_mut().map(|column| column.split_off(room)).collect(),
                false => Vec::new(),
            };
            let count = count.min(room);
            self.waiting.push(std::mem::replace(&mut rows, rest));
            self.waiting_rows += count;
            self.rows += count as u64;
            // The next group needs its space before any row of it is accepted.
            if self.waiting_rows == self.group_rows {
                self.write_group()?;
                self.reserve()?;
            }
        }
    }

    fn write_group(&mut self) -> Result<()> {
        self.waiting_rows = 0;
        write_group(&mut self.writer, std::mem::take(&mut self.waiting)).map_err(|e| parquet_error(&self.path, e))
    }

    /// Makes all rows so far readable under the file's name. Rows follow all the same.
    ///
    /// # Errors
    /// As [`Self::write`]; what was readable before still is.
    pub fn show(&mut self) -> Result<()> {
        if self.waiting_rows == 0 {
            return Ok(());
        }
        self.write_group()?;
        self.writer.flush().map_err(|e| Error::io(&self.path, "write", e))?;
        self.reserve()?;
        self.settle()?;
        let footer = self.footer().map_err(|e| parquet_error(&self.path, e))?;
        // Page headers and statistics of the next row group need some of this space, too.
        if footer.len() as u64 > FOOTER_BYTES / 2 {
            return Ok(());
        }
        let file = self.writer.inner();
        // Not over the footer before, which is needed until this one is there.
        let length = footer.len() as u64;
        let start = self.shown_end.max(file.written + self.group_bytes() + FOOTER_BYTES - length);
        let written = file.file.write_all_at(&footer, start);
        let written = written.map_err(|e| Error::io(&self.path, "write", e)).and_then(|()| self.settle());
        if written.is_err() && self.shown_rows > 0 {
            // The footer before is the last thing in the file again.
            let _ = self.writer.inner().file.set_len(self.shown_end);
        }
        written?;
        (self.shown_rows, self.shown_end) = (self.rows, start + length);
        self.give_name()
    }

    /// Rows that can be read already.
    pub fn shown_rows(&self) -> u64 {
        self.shown_rows
    }

    /// Notices a full disk where that could not be noticed before.
    fn settle(&self) -> Result<()> {
        match self.allocates {
            true => Ok(()),
            false => self.writer.inner().file.sync_data().map_err(|e| Error::io(&self.path, "write", e)),
        }
    }

    /// A footer for the row groups that are written. It is right anywhere behind them.
    fn footer(&self) -> std::result::Result<Vec<u8>, ParquetError> {
        let (properties, groups) = (self.writer.properties(), self.writer.flushed_row_groups());
        let file = FileMetaData::new(
            properties.writer_version().as_num(),
            groups.iter().map(|group| group.num_rows()).sum(),
            Some(properties.created_by().to_string()),
            properties.key_value_metadata().cloned(),
            Arc::new(self.writer.schema_descr().clone()),
            None,
        );
        let mut footer = Vec::new();
        ParquetMetaDataWriter::new(&mut footer, &ParquetMetaData::new(file, groups.to_vec())).finish()?;
        Ok(footer)
    }

    fn give_name(&mut self) -> Result<()> {
        match self.temporary.take() {
            Some(temporary) => fs::rename(temporary, &self.path).map_err(|e| Error::io(&self.path, "rename to", e)),
            None => Ok(()),
        }
    }

    /// Name of the file once it is complete.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Rows in the file.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of the row groups already written.
    pub fn bytes_written(&self) -> usize {
        self.writer.bytes_written()
    }

    /// Writes the footer and gives the file its name.
    ///
    /// # Errors
    /// If the system refuses; the temporary file is then left for inspection.
    pub fn close(mut self) -> Result<()> {
        if self.waiting_rows > 0 {
            self.write_group()?;
        }
        self.writer.finish().map_err(|e| parquet_error(&self.path, e))?;
        self.settle()?;
        let file = self.writer.inner();
        // Frees what was allocated beyond the end, and takes a footer there away.
        let cut = file.file.set_len(file.written).and_then(|()| file.file.sync_data());
        cut.map_err(|e| Error::io(&self.path, "finish", e))?;
        self.give_name()
    }

    /// Removes a file without rows.
    pub fn discard(self) {
        remove_quietly(self.temporary.as_deref().unwrap_or(&self.path));
    }

    /// The most space that the next row group can need.
    fn group_bytes(&self) -> u64 {
        (self.group_rows * (self.row_bytes + self.row_bytes / 4)) as u64
    }

    fn reserve(&mut self) -> Result<()> {
        loop {
            let file = self.writer.inner();
            match allocate(&file.file, file.written, self.group_bytes() + FOOTER_BYTES) {
                Err(error) => match Error::io(&self.path, "allocate", error) {
                    Error::DiskFull { .. } if self.group_rows > LEAST_ROWS => self.group_rows /= 2,
                    error => return Err(error),
                },
                Ok(allocates) => {
                    self.allocates = allocates;
                    return Ok(());
                }
            }
        }
    }
}

/// Writes parts of a table as one row group.
fn write_group(
    writer: &mut SerializedFileWriter<CountingFile>,
    parts: Vec<Vec<Values>>,
) -> std::result::Result<(), ParquetError> {
    let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
    let mut group = writer.next_row_group()?;
    while let Some(mut column) = group.next_column()? {
        for values in parts.iter_mut().filter_map(Iterator::next) {
            write_column(&mut column, values)?;
        }
        column.close()?;
    }
    group.close().map(drop)
}

/// Unsigned numbers are stored as signed ones with the same bits.
fn write_column(column: &mut SerializedColumnWriter<'_>, values: Values) -> std::result::Result<(), ParquetError> {
    match values {
        Values::U8(values) => write_values::<Int32Type, _>(column, values, |v| v.into(), None),
        Values::U16(values) => write_values::<Int32Type, _>(column, values, |v| v.into(), None),
        Values::U32(values) => write_values::<Int32Type, _>(column, values, |v| v as i32, None),
        Values::U64(values) => write_values::<Int64Type, _>(column, values, |v| v as i64, None),
        Values::I64(values) => write_values::<Int64Type, _>(column, values, |v| v, None),
        Values::Text(values) => {
            write_values::<ByteArrayType, _>(column, values, |v| ByteArray::from(v.into_bytes()), None)
        }
        Values::U8Lists(lists) => {
            let levels = Levels::of(&lists);
            write_values::<Int32Type, _>(column, lists.values, |v| v.into(), Some(&levels))
        }
        Values::U64Lists(lists) => {
            let levels = Levels::of(&lists);
            write_values::<Int64Type, _>(column, lists.values, |v| v as i64, Some(&levels))
        }
    }
}

fn write_values<T: DataType, V>(
    column: &mut SerializedColumnWriter<'_>,
    values: Vec<V>,
    stored: impl Fn(V) -> T::T,
    levels: Option<&Levels>,
) -> std::result::Result<(), ParquetError> {
    // In place if a value takes as many bytes in the file.
    let values: Vec<T::T> = values.into_iter().map(stored).collect();
    let (definition, repetition) = match levels {
        Some(levels) => (Some(levels.definition.as_slice()), Some(levels.repetition.as_slice())),
        None => (None, None),
    };
    column.typed::<T>().write_batch(&values, definition, repetition).map(drop)
}

/// Where the rows of a list column begin (repetition 0) and which of them are empty (definition 0), as Parquet stores it.
#[derive(Default)]
struct Levels {
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

impl Levels {
    fn of<V>(lists: &Lists<V>) -> Self {
        let mut levels = Levels::default();
        let mut start = 0;
        for &end in &lists.ends {
            levels.repetition.push(0);
            levels.definition.push(i16::from(end > start));
            for _ in start + 1..end {
                levels.repetition.push(1);
                levels.definition.push(1);
            }
            start = end;
        }
        levels
    }
}

/// Allocates disk blocks beyond the end of the file without changing its length; false where the file system cannot.
fn allocate(file: &File, offset: u64, length: u64) -> io::Result<bool> {
    // SAFETY: a plain system call on a descriptor that `file` keeps open; no memory is passed.
    let result = unsafe {
        libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, offset as libc::off_t, length as libc::off_t)
    };
    if result == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOSYS) => Ok(false),
        _ => Err(error),
    }
}

fn parquet_error(path: &Path, error: ParquetError) -> Error {
    if let ParquetError::External(source) = &error {
        if let Some(io_error) = source.downcast_ref::<io::Error>() {
            if let Some(code) = io_error.raw_os_error() {
                return Error::io(path, "write", io::Error::from_raw_os_error(code));
            }
        }
    }
    Error::format(path, error)
}

/// A file that counts how much was written.
struct CountingFile {
    file: File,
    written: u64,
}

impl Write for CountingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a failed expectation is a failed test
mod tests {
    use super::*;
    use crate::stored_table::StoredTable;
    use crate::values::Kind;

    const COLUMNS: [Column; 1] = [Column { name: "number", kind: Kind::Number { bits: 64, signed: false } }];

    fn read(path: &Path) -> std::result::Result<Vec<u64>, String> {
        let table = StoredTable::open(File::open(path).map_err(|e| e.to_string())?)?;
        let groups = (0..table.groups()).map(|group| table.group(group)?.read("number", 1 << 20));
        groups.collect::<std::result::Result<Vec<_>, String>>().map(|groups| groups.concat())
    }

    #[test]
    fn what_was_shown_is_readable_at_any_moment_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("numbers.parquet");
        let layout = Layout { row_bytes: 8, group_rows: 1000, slowly_growing: &[], metadata: Vec::new() };
        let mut file = ParquetFile::create(&path, &COLUMNS, layout).unwrap();
        let mut written = Vec::new();
        for round in 0..20 {
            file.show().unwrap();
            let shown = written.clone();
            // Less than a row group, several of them, and none at all.
            for _ in 0..round % 7 {
                let numbers: Vec<u64> = (0..450).map(|number| (number + written.len() as u64) << 40).collect();
                written.extend(&numbers);
                file.write(vec![Values::U64(numbers)]).unwrap();
                match shown.is_empty() {
                    // Before that it has no name.
                    true => assert!(!path.exists()),
                    false => assert_eq!(read(&path).unwrap(), shown),
                }
            }
        }
        file.close().unwrap();
        assert_eq!(read(&path).unwrap(), written);
        assert!(fs::metadata(&path).unwrap().len() < FOOTER_BYTES);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
