// SPDX-License-Identifier: Apache-2.0
//! From BMv2 JSON (v1model), as `p4c-bm2-ss` writes it, to a [`Program`].
//!
//! [`compile`] emits instructions, [`optimise`] makes them fewer, then the analyses of [`narrows_program::liveness`] say what a
//! packet carries through the queue. What a program needs and the instructions lack is refused here by name, never ignored.
//!
//! This is the only crate that knows the JSON. Deliberately absent: packets, state, machine code, files.

#![forbid(unsafe_code)]

mod compile;
mod error;
mod expr;
mod json;
mod layout;
mod optimise;

pub use error::LoadError;
use narrows_program::Program;

/// Compiles BMv2 JSON.
///
/// # Errors
/// It is not JSON, or malformed, or the program needs what is not supported: which, and where.
pub fn load(json: &[u8]) -> Result<Program, LoadError> {
    load_watching(json, &[])
}

/// The same of a program of which fields of metadata are read when a packet has left egress (`header.field`).
///
/// # Errors
/// As [`load`]; there is no such field, or it has more than 64 bits.
pub fn load_watching(json: &[u8], watched: &[String]) -> Result<Program, LoadError> {
    let root = serde_json::from_slice(json).map_err(|e| LoadError::Json(e.to_string()))?;
    compile::compile(&root, watched)
}
