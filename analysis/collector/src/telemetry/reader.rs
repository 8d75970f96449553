// SPDX-License-Identifier: Apache-2.0
//! Stored reports, file by file and batch by batch.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use narrows_tables::stored_table::StoredTable;

use super::columns::Rows;
use crate::error::{Error, Result};
use crate::wire::Record;

const BATCH_ROWS: usize = 32 << 10;

/// The telemetry files of a run or telemetry directory, in order.
///
/// # Errors
/// [`Error::Input`] if there are none.
pub fn report_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let nested = directory.join("telemetry");
    let directory = if nested.is_dir() { nested } else { directory.to_path_buf() };
    let entries = fs::read_dir(&directory).map_err(|e| Error::io(&directory, "read", e))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| Error::io(&directory, "read", e))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("reports-") && name.ends_with(".parquet") {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(Error::Input(format!("{}: no reports-*.parquet in it", directory.display())));
    }
    files.sort();
    Ok(files)
}

/// Passes every stored report of `file` to `take` until it returns false.
///
/// # Errors
/// [`Error::Input`] if the file is not a telemetry file or is damaged.
pub fn for_each(file: &Path, mut take: impl FnMut(Record) -> bool) -> Result<()> {
    let input = |message: String| Error::Input(format!("{}: {message}", file.display()));
    let opened = File::open(file).map_err(|e| Error::io(file, "open", e))?;
    let table = StoredTable::open(opened).map_err(input)?;
    for index in 0..table.groups() {
        let mut columns = table.group(index).map_err(input)?;
        loop {
            let rows = Rows::read(&mut columns, BATCH_ROWS).map_err(input)?;
            if rows.is_empty() {
                break;
            }
            for index in 0..rows.len() {
                if !take(rows.get(index)) {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}
