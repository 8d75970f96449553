// SPDX-License-Identifier: Apache-2.0
//! Files that get their name when they are complete. Until then they have a temporary name, at which no existing file or link
//! is opened: others with write access to the directory cannot redirect the writer to another file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Name under which a file is written until it is complete.
pub(crate) fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".partial");
    path.with_file_name(name)
}

/// Creates a file of a temporary name. Whatever has that name, left by a killed process or planted, is removed first.
///
/// # Errors
/// If the system refuses, or a file is put there at the same time.
pub(crate) fn create(temporary: &Path) -> io::Result<File> {
    remove_quietly(temporary);
    OpenOptions::new().write(true).create_new(true).open(temporary)
}

/// Removes a file if possible: after an error, which is reported itself, or before another file takes its place.
pub(crate) fn remove_quietly(path: &Path) {
    let _ = fs::remove_file(path);
}

/// Writes a file, which appears in one step.
///
/// # Errors
/// If the system refuses; nothing is left then.
pub fn write(path: &Path, contents: &[u8]) -> Result<()> {
    let temporary = temporary_name(path);
    let written = create(&temporary).and_then(|mut file| file.write_all(contents));
    let named = written.and_then(|()| fs::rename(&temporary, path));
    named.inspect_err(|_| remove_quietly(&temporary)).map_err(|e| Error::io(path, "write", e))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a failed expectation is a failed test
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_planted_link_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (victim, path) = (directory.path().join("victim"), directory.path().join("account.json"));
        fs::write(&victim, "untouched").unwrap();
        symlink(&victim, temporary_name(&path)).unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert!(!path.is_symlink() && !temporary_name(&path).exists());
    }
}
