// SPDX-License-Identifier: Apache-2.0
//! A table whose rows are written in the order in which they come; there is no file without a row.

use std::path::{Path, PathBuf};

use narrows_tables::table_file::{Layout, ParquetFile};
use narrows_tables::values::{Column, Values};

use crate::error::Result;

/// Most rows in a row group.
pub const GROUP_ROWS: usize = 64 << 10;

/// What a table consists of.
pub trait Table {
    /// What a row is made of.
    type Row;
    /// Name of its file.
    const FILE_NAME: &'static str;
    /// Its columns.
    fn columns(&self) -> Vec<Column>;
    /// How it is stored.
    fn layout(&self) -> Layout<'static>;
    /// The values of rows, column by column.
    fn values(&self, rows: &[Self::Row]) -> Vec<Values>;
}

/// A table that is being written.
pub struct RowsFile<T: Table> {
    table: T,
    path: PathBuf,
    file: Option<ParquetFile>,
    rows: Vec<T::Row>,
}

impl<T: Table> RowsFile<T> {
    /// A table of `directory`.
    pub fn new(directory: &Path, table: T) -> Self {
        RowsFile { table, path: directory.join(T::FILE_NAME), file: None, rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If the system refuses, a full disk included.
    pub fn push(&mut self, row: T::Row) -> Result<()> {
        self.rows.push(row);
        if self.rows.len() < GROUP_ROWS {
            return Ok(());
        }
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(ParquetFile::create(&self.path, &self.table.columns(), self.table.layout())?),
        };
        Ok(file.write(self.table.values(&std::mem::take(&mut self.rows)))?)
    }

    /// Completes the table.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(mut self) -> Result<()> {
        if !self.rows.is_empty() {
            self.write()?;
        }
        self.file.map_or(Ok(()), |file| Ok(file.close()?))
    }
}
