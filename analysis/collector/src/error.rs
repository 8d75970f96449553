// SPDX-License-Identifier: Apache-2.0
//! Errors a user can meet, with the exit code each leads to.

use std::fmt;
use std::io;
use std::path::Path;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, in words for the user.
#[derive(Debug)]
pub enum Error {
    /// Input or arguments that cannot be used as they are.
    Input(String),
    /// Something with a file or an interface.
    File(narrows_tables::Error),
}

impl Error {
    /// What the operating system refused while working on `path`.
    pub fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        Error::File(narrows_tables::Error::io(path, action, source))
    }

    /// 2 for unusable input, 1 for all other failures.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Input(_) => 2,
            Error::File(_) => 1,
        }
    }
}

impl From<narrows_tables::Error> for Error {
    fn from(error: narrows_tables::Error) -> Self {
        Error::File(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Input(message) => f.write_str(message),
            Error::File(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}
