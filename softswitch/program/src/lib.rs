// SPDX-License-Identifier: Apache-2.0
//! A P4 program as data: what a front end makes, the interpreter runs and native code is made of.
//!
//! Here are the instructions ([`op`]), where they find what they work on ([`field`], [`intrinsics`], [`cells`], [`key`]), the
//! program's tables, calculations and objects ([`table`], [`calculation`], [`control`]), and analyses that only read a program
//! ([`liveness`]).
//!
//! Deliberately absent: JSON, packets, state. Nothing here executes anything.

#![forbid(unsafe_code)]

pub mod bits;
pub mod calculation;
pub mod cells;
pub mod control;
pub mod externs;
pub mod field;
pub mod intrinsics;
pub mod key;
pub mod liveness;
pub mod op;
mod program;
pub mod table;

pub use program::{next_id, Code, ParserErrors, Program, DROP_PORT};
