// SPDX-License-Identifier: Apache-2.0
//! A Parquet file that appears under its name only when it is complete, and can always be completed.
//!
//! Before each row group the room it can need at most, and that of the footer, is allocated; so a full disk is noticed
//! between row groups, when the footer can still be written and everything handed over so far becomes readable.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::error::{Error, Result};

/// Room for the footer, page headers and statistics of any file written here.
const FOOTER_BYTES: u64 = 1 << 20;

/// A Parquet file being written under a temporary name.
pub struct ParquetFile {
    writer: ArrowWriter<CountingFile>,
    path: PathBuf,
    temporary: PathBuf,
    group_rows: usize,
    row_bytes: usize,
    rows: u64,
}

impl ParquetFile {
    /// Opens `path` for rows of at most `row_bytes` uncompressed bytes, `group_rows` in a row group.
    ///
    /// # Errors
    /// If the file cannot be made or there is no room for the first row group.
    pub fn create(
        path: &Path,
        schema: SchemaRef,
        properties: WriterProperties,
        row_bytes: usize,
    ) -> Result<Self> {
        let temporary = temporary_name(path);
        let result = Self::create_temporary(path, &temporary, schema, properties, row_bytes);
        if result.is_err() {
            remove_quietly(&temporary);
        }
        result
    }

    fn create_temporary(
        path: &Path,
        temporary: &Path,
        schema: SchemaRef,
        properties: WriterProperties,
        row_bytes: usize,
    ) -> Result<Self> {
        let group_rows = properties.max_row_group_size();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(temporary);
        let file = CountingFile {
            file: file.map_err(|e| Error::io(temporary, "create", e))?,
            written: 0,
        };
        let schema = with_metadata(&schema, &properties);
        let writer = ArrowWriter::try_new(file, schema, Some(properties));
        let writer = writer.map_err(|e| parquet_error(temporary, e))?;
        let mut file = ParquetFile {
            writer,
            path: path.to_path_buf(),
            temporary: temporary.to_path_buf(),
            group_rows,
            row_bytes,
            rows: 0,
        };
        file.reserve()?;
        Ok(file)
    }

    /// Appends the rows of `batch`; on [`Error::DiskFull`] the number of rows that are in the file is [`Self::rows`].
    ///
    /// # Errors
    /// [`Error::DiskFull`] between row groups, anything else from the system or the library.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut start = 0;
        while start < batch.num_rows() {
            let room = self.group_rows - self.writer.in_progress_rows();
            let part = batch.slice(start, room.min(batch.num_rows() - start));
            start += part.num_rows();
            self.writer
                .write(&part)
                .map_err(|e| parquet_error(&self.temporary, e))?;
            self.rows += part.num_rows() as u64;
            // A full group has been written by now; the next one needs room before a row of it is taken.
            if self.writer.in_progress_rows() == 0 {
                self.reserve()?;
            }
        }
        Ok(())
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
        self.writer
            .finish()
            .map_err(|e| parquet_error(&self.temporary, e))?;
        let file = self.writer.inner();
        // Frees what was allocated beyond the end.
        let cut = file
            .file
            .set_len(file.written)
            .and_then(|()| file.file.sync_data());
        cut.map_err(|e| Error::io(&self.temporary, "finish", e))?;
        fs::rename(&self.temporary, &self.path).map_err(|e| Error::io(&self.path, "rename to", e))
    }

    /// Removes the unfinished file.
    pub fn discard(self) {
        remove_quietly(&self.temporary);
    }

    fn reserve(&mut self) -> Result<()> {
        let group = (self.group_rows * (self.row_bytes + self.row_bytes / 4)) as u64;
        let file = self.writer.inner();
        allocate(&file.file, file.written, group + FOOTER_BYTES)
            .map_err(|e| Error::io(&self.path, "allocate", e))
    }
}

/// Puts the file's own metadata into the Arrow schema too, where Arrow readers look for it.
fn with_metadata(schema: &Schema, properties: &WriterProperties) -> SchemaRef {
    let pairs = properties.key_value_metadata().into_iter().flatten();
    let metadata =
        pairs.filter_map(|pair| pair.value.clone().map(|value| (pair.key.clone(), value)));
    Arc::new(schema.clone().with_metadata(metadata.collect()))
}

/// Allocates disk blocks beyond the end of the file without changing its length.
fn allocate(file: &File, offset: u64, length: u64) -> io::Result<()> {
    // SAFETY: a plain system call on a descriptor that `file` keeps open; no memory is passed.
    let result = unsafe {
        libc::fallocate(
            file.as_raw_fd(),
            libc::FALLOC_FL_KEEP_SIZE,
            offset as libc::off_t,
            length as libc::off_t,
        )
    };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // A file system without allocation: a full disk then shows as an error of the write itself.
        Some(libc::EOPNOTSUPP | libc::ENOSYS) => Ok(()),
        _ => Err(error),
    }
}

/// Name under which a file is written until it is complete.
pub fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".partial");
    path.with_file_name(name)
}

fn remove_quietly(path: &Path) {
    // Best effort on the way out of an error that is reported itself.
    let _ = fs::remove_file(path);
}

fn parquet_error(path: &Path, error: parquet::errors::ParquetError) -> Error {
    if let parquet::errors::ParquetError::External(source) = &error {
        if let Some(io_error) = source.downcast_ref::<io::Error>() {
            if let Some(code) = io_error.raw_os_error() {
                return Error::io(path, "write", io::Error::from_raw_os_error(code));
            }
        }
    }
    Error::parquet(path, error)
}

/// A file that knows how much was written.
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
