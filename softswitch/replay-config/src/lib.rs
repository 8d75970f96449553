//! The configuration of `narrows-softswitch replay`, in JSON, and the switch that it describes: its program, entries, ports and
//! queues.
//!
//! A crate of its own because it is built without optimisation: reading JSON was two fifths of the replay's machine code.
// SPDX-License-Identifier: Apache-2.0
#![warn(missing_docs)]

pub mod config;
mod entries;
mod link;
pub mod link_config;
pub mod setup;
