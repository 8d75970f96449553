// SPDX-License-Identifier: Apache-2.0
//! Capture files: pcap and pcapng in, pcap out.
//!
//! [`Reader`] reads a file of any length, [`Writer`] writes one, [`pcap`] parses the headers of one in memory. The caller
//! decides what to do with link types, missing timestamps and files that end too early.
//!
//! Deliberately absent: what is in a frame, where captures come from, and any other crate.

#![forbid(unsafe_code)]

mod format;
mod frame;
pub mod pcap;
mod pcapng;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use frame::{Frame, ETHERNET};
pub use reader::{End, ReadError, Reader};
pub use writer::Writer;
