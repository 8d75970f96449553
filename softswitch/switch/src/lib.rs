//! The switch: a compiled P4 program behind a traffic manager with an exact byte clock, and the Linux interfaces it is on.
//!
//! Deliberately absent: gRPC. Who controls the switch does it by [`io::Handle`].
// SPDX-License-Identifier: Apache-2.0
#![warn(missing_docs)]

pub mod earliest;
pub mod failure;
pub mod heap;
pub mod io;
pub mod line;
pub mod switch;
pub mod telemetry;
mod timeline;
pub mod tm;
pub mod unit;
