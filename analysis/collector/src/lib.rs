// SPDX-License-Identifier: Apache-2.0
//! Telemetry of a Narrows bottleneck: capture, decoding, storage and aggregation.
//!
//! The stages, each in its own module:
//! [`capture`] yields Ethernet frames (a live ring or a capture file), [`wire`] turns a frame into a [`wire::Record`],
//! [`sequencer`] puts the records of each bottleneck in order and counts what is missing. The records end up either in
//! Parquet ([`telemetry`]), where [`live`] can watch them, or in time series and totals ([`aggregate`]). [`commands`] are
//! those of the command line.

pub mod aggregate;
pub mod capture;
pub mod commands;
pub mod error;
pub mod fan_in;
pub mod flow_keys;
pub mod generate;
pub mod intake;
pub mod live;
pub mod receiver;
pub mod sequencer;
mod storage;
pub mod telemetry;
pub mod wire;

pub use error::{Error, Result};
