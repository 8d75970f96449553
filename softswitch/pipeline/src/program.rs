// SPDX-License-Identifier: Apache-2.0
//! A loaded program.

use std::ops::Deref;

use narrows_frontend::LoadError;
use narrows_interpreter::machine;
use narrows_native::Native;

/// A program that pipelines share, and its native code.
#[derive(Debug)]
pub struct Program {
    pub(crate) data: narrows_program::Program,
    /// Or why there is none.
    pub(crate) native: Result<Native, String>,
}

impl Deref for Program {
    type Target = narrows_program::Program;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.data
    }
}

impl Program {
    /// Compiles BMv2 JSON.
    ///
    /// # Errors
    /// Whatever the program needs and this engine lacks is refused here, by name.
    pub fn load(json: &[u8]) -> Result<Self, LoadError> {
        Self::load_watching(json, &[])
    }

    /// The same of a program of which [`Pipeline::watched`](crate::Pipeline::watched) gives fields of metadata.
    ///
    /// # Errors
    /// As [`Program::load`]; there is no such field, or it has more than 64 bits.
    pub fn load_watching(json: &[u8], watched: &[String]) -> Result<Self, LoadError> {
        let data = narrows_frontend::load_watching(json, watched)?;
        machine::check(&data).map_err(|e| LoadError::Malformed(e.to_string()))?;
        let native = Native::compile(&data);
        Ok(Self { data, native })
    }

    /// Why the program is interpreted; `None` if it runs as native code.
    #[must_use]
    pub fn interpreted(&self) -> Option<&str> {
        self.native.as_ref().err().map(String::as_str)
    }

    /// What whoever loads the program should know: that it is slow, and why.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        match &self.native {
            Err(why) => {
                let what = "the program is interpreted, which takes about three times as long as native code";
                Some(format!("{what}: {why}"))
            }
            Ok(native) if native.limited() > 0 => {
                let places = native.limited();
                Some(format!(
                    "the program is long: in {places} places its native code is not specialised, and slower for it"
                ))
            }
            Ok(_) => None,
        }
    }
}
