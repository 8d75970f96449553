// SPDX-License-Identifier: Apache-2.0
//! Executes a P4 program on packets, one instruction after the other: the reference for what a program means.
//!
//! [`Machine`](machine::Machine) holds what a program reads and writes beside the packet: table entries ([`table`]), cells
//! of registers and counters ([`cells`]), random numbers. Its stages ([`stages`]) are those of v1model. Native code works on
//! the same state, so what packets, machines and entries look like is public; users of a program want
//! `narrows-pipeline` instead.
//!
//! Deliberately absent: ports, queues, clocks, JSON, machine code. Unsafe code but for prefetches, which only cost time.

#![deny(unsafe_code)]

pub mod cells;
mod clone;
mod error;
mod externs;
pub mod frame;
pub mod hash;
mod intrinsics;
pub mod machine;
pub mod meters;
pub mod output;
pub mod packet;
pub mod prefetch;
pub mod profiles;
mod random;
pub mod run;
pub mod stages;
pub mod table;
pub mod wide;

pub use error::ControlError;
pub use random::Random;
