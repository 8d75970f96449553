// SPDX-License-Identifier: Apache-2.0
//! Why a program is refused.

use std::fmt;

/// Why a program cannot be loaded. Every variant names the thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// The bytes are not JSON.
    Json(String),
    /// The JSON breaks the format: what is wrong, and where.
    Malformed(String),
    /// The program uses something that this engine does not implement: its kind and name, and where it is used.
    Unsupported { what: String, place: String },
}

impl LoadError {
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        LoadError::Malformed(message.into())
    }

    pub(crate) fn unsupported(what: impl Into<String>, place: impl Into<String>) -> Self {
        LoadError::Unsupported { what: what.into(), place: place.into() }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Json(e) => write!(f, "the program is not JSON: {e}"),
            LoadError::Malformed(e) => write!(f, "the program is malformed: {e}"),
            LoadError::Unsupported { what, place } => write!(f, "{place}: {what} is not supported"),
        }
    }
}

impl std::error::Error for LoadError {}
