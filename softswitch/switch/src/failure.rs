//! Errors that end the program, with their exit code.
// SPDX-License-Identifier: Apache-2.0
use std::fmt;

/// Why a command cannot run or had to stop. The message is complete.
#[derive(Debug)]
pub struct Failure {
    message: String,
    /// 2 for what the user can correct, else 1.
    pub exit_code: u8,
}

impl Failure {
    /// The user can correct it.
    pub fn usage(message: impl Into<String>) -> Self {
        Failure { message: message.into(), exit_code: 2 }
    }

    /// The same, with the file it was found in.
    #[must_use]
    pub fn within(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// Something else went wrong.
    pub fn internal(message: impl Into<String>) -> Self {
        Failure { message: message.into(), exit_code: 1 }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
