// SPDX-License-Identifier: Apache-2.0
//! What can go wrong with a file, in words for the user.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong with the file `path`.
#[derive(Debug)]
pub enum Error {
    /// The operating system refused something.
    Io { path: PathBuf, action: &'static str, source: io::Error },
    /// The disk is full; everything stored before is complete and readable.
    DiskFull { path: PathBuf },
    /// It cannot be written in its format.
    Format { path: PathBuf, message: String },
}

impl Error {
    /// An [`Error::Io`], or [`Error::DiskFull`] when that is what `source` says.
    pub fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ENOSPC) | Some(libc::EDQUOT) => Error::DiskFull { path: path.to_path_buf() },
            _ => Error::Io { path: path.to_path_buf(), action, source },
        }
    }

    /// An [`Error::Format`] with a library's own words.
    pub fn format(path: &Path, source: impl fmt::Display) -> Self {
        Error::Format { path: path.to_path_buf(), message: source.to_string() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { path, action, source } => write!(f, "cannot {action} {}: {source}", path.display()),
            Error::DiskFull { path } => write!(
                f,
                "no space left for {}: stopped; every file already closed is complete and readable",
                path.display()
            ),
            Error::Format { path, message } => write!(f, "{}: {message}", path.display()),
        }
    }
}

impl std::error::Error for Error {}
