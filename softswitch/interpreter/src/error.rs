// SPDX-License-Identifier: Apache-2.0
//! Why an operation of the control plane is refused.

use std::fmt;

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
    /// Something else has to be changed before.
    FailedPrecondition(String),
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
            | ControlError::PermissionDenied(m)
            | ControlError::FailedPrecondition(m) => f.write_str(m),
            ControlError::OutOfRange { name, index, size } => {
                write!(f, "index {index} is out of range: {name} has {size} elements")
            }
        }
    }
}

impl std::error::Error for ControlError {}
