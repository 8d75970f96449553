// SPDX-License-Identifier: Apache-2.0
//! JSON files.

use std::path::Path;

use narrows_tables::new_file;
use serde::Serialize;

use crate::error::Result;

/// Writes a JSON file, which appears in one step.
///
/// # Errors
/// If the system refuses.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|e| narrows_tables::Error::format(path, e))?;
    Ok(new_file::write(path, (text + "\n").as_bytes())?)
}
