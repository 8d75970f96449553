// SPDX-License-Identifier: Apache-2.0
//! Capture files: pcap and pcapng in, pcap out.
//!
//! [`Format`] finds one frame after the other in bytes that lie in memory, [`Reader`] moves over a file of any length,
//! [`Writer`] writes one. Whoever reads decides what to do with link types, missing timestamps and files that end too early.
//!
//! Deliberately absent: what is in a frame, where captures come from, and any other crate.

#![forbid(unsafe_code)]

mod format;
pub mod pcap;
mod pcapng;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use format::{Format, Frame, Step, ETHERNET, MAX_RECORD_BYTES};
pub use reader::{End, ReadError, Reader};
pub use writer::Writer;
