// SPDX-License-Identifier: Apache-2.0
//! Machine code for a program, made when it is loaded.
//!
//! The instructions of [`narrows_program::op`] are translated one by one; what makes the code fast is what the translation
//! knows and an interpreter must look up: slots are machine registers, header fields lie at constant offsets, a header is
//! known to be valid behind its extraction, constant entries are comparisons, the action of an entry is a branch.
//! The interpreter stays the reference: both leave the same packets, state and decisions behind.
//!
//! | file | what it holds |
//! |---|---|
//! | `validity.rs` | which headers are certainly valid or invalid at each instruction |
//! | `shape.rs` | what is known of a packet: code is made for each case |
//! | `lower/` | instructions to Cranelift's intermediate code |
//! | `context.rs` | what generated code is given: addresses and inputs, and room for its decisions |
//! | `prepared.rs` | packets whose ingress has begun |
//! | `machine.rs` | the interpreter's machine, and the addresses in it |
//! | `native.rs` | calls into generated code, and why they are sound |
//! | `callbacks.rs` | the functions that generated code calls |
//! | `clmul.rs` | CRC-32 of a few words |
//!
//! The last four hold the crate's only unsafe code. Deliberately absent: state of its own beyond addresses, JSON, and anything
//! that gives another result than the interpreter.

#![deny(unsafe_code)]

mod callbacks;
mod clmul;
mod context;
mod lower;
mod machine;
mod native;
mod prepared;
mod shape;
mod validity;

pub use machine::NativeMachine;
pub use native::{Deparsed, Native};
