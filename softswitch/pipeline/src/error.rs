// SPDX-License-Identifier: Apache-2.0
//! Errors of loading a program and of controlling a running one.

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
        LoadError::Unsupported {
            what: what.into(),
            place: place.into(),
        }
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

/// Why a control operation was refused. Nothing has changed when one is returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlError {
    /// No object of this kind has this name or id.
    NotFound { kind: &'static str, name: String },
    /// An argument does not fit: too wide, wrong kind of match, wrong number of parameters, ...
    InvalidArgument(String),
    /// The entry is already there.
    AlreadyExists(String),
    /// The table holds as many entries as it can.
    ResourceExhausted(String),
    /// The program forbids it: constant default action, constant entries.
    PermissionDenied(String),
    /// The index is beyond the array.
    OutOfRange { name: String, index: u64, size: u64 },
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlError::NotFound { kind, name } => write!(f, "no {kind} {name}"),
            ControlError::InvalidArgument(m)
            | ControlError::AlreadyExists(m)
            | ControlError::ResourceExhausted(m)
            | ControlError::PermissionDenied(m) => f.write_str(m),
            ControlError::OutOfRange { name, index, size } => {
                write!(
                    f,
                    "index {index} is out of range: {name} has {size} elements"
                )
            }
        }
    }
}

impl std::error::Error for ControlError {}
