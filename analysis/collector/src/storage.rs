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

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a failed expectation is a failed test
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_ends_with_a_newline() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("account.json");
        write_json(&path, &[1, 2]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[\n  1,\n  2\n]\n");
    }
}
