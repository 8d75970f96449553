// SPDX-License-Identifier: Apache-2.0
//! Errors a user can meet, with the exit code each leads to.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, in words for the user.
#[derive(Debug)]
pub enum Error {
    /// Input or arguments that cannot be used as they are.
    Input(String),
    /// The operating system refused something while working on `path`.
    Io { path: PathBuf, action: &'static str, source: io::Error },
    /// The disk that holds `path` is full; everything stored before is complete and readable.
    DiskFull { path: PathBuf },
    /// An error of the Parquet library on `path`.
    Parquet { path: PathBuf, message: String },
}

impl Error {
    /// An [`Error::Io`], or [`Error::DiskFull`] when that is what `source` says.
    pub fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ENOSPC) | Some(libc::EDQUOT) => Error::DiskFull { path: path.to_path_buf() },
            _ => Error::Io { path: path.to_path_buf(), action, source },
        }
    }

    /// An [`Error::Parquet`] with the library's own words.
    pub fn parquet(path: &Path, source: impl fmt::Display) -> Self {
        Error::Parquet { path: path.to_path_buf(), message: source.to_string() }
    }

    /// 2 for unusable input, 1 for all other failures.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Input(_) => 2,
            _ => 1,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Input(message) => f.write_str(message),
            Error::Io { path, action, source } => write!(f, "cannot {action} {}: {source}", path.display()),
            Error::DiskFull { path } => write!(
                f,
                "no space left for {}: stopped; every file already closed is complete and readable",
                path.display()
            ),
            Error::Parquet { path, message } => write!(f, "{}: {message}", path.display()),
        }
    }
}

impl std::error::Error for Error {}
