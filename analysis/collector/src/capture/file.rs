// SPDX-License-Identifier: Apache-2.0
//! The Ethernet frames of a capture file.

use std::fs::File;
use std::path::{Path, PathBuf};

pub use narrows_captures::End;
use narrows_captures::{ReadError, Reader, ETHERNET};

use crate::error::{Error, Result};

/// An open pcap or pcapng file.
pub struct CaptureFile {
    reader: Reader<File>,
    path: PathBuf,
}

impl CaptureFile {
    /// Opens a file and recognises its format.
    ///
    /// # Errors
    /// [`Error::Input`] if it is neither pcap nor pcapng, or pcap without Ethernet frames.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::Input(format!("cannot open {}: {e}", path.display())))?;
        let metadata = file.metadata().map_err(|e| Error::io(path, "examine", e))?;
        if !metadata.is_file() {
            return Err(Error::Input(format!("{} is not a regular file", path.display())));
        }
        Ok(CaptureFile { reader: Reader::new(file).map_err(|error| failed(path, error))?, path: path.to_path_buf() })
    }

    /// Passes every Ethernet frame to `take` until the file ends or `take` returns false.
    ///
    /// # Errors
    /// [`Error::Input`] at an impossible record: all frames before it have been passed on.
    #[inline]
    pub fn for_each(&mut self, mut take: impl FnMut(&[u8]) -> bool) -> Result<End> {
        let end = self.reader.for_each(|frame| frame.link_type != ETHERNET || take(frame.bytes));
        end.map_err(|error| failed(&self.path, error))
    }
}

/// Why a capture cannot be read.
pub(super) fn failed(path: &Path, error: ReadError) -> Error {
    match error {
        ReadError::Io(error) => Error::io(path, "read", error),
        ReadError::Format(what) => Error::Input(format!("{}: {what}", path.display())),
    }
}
