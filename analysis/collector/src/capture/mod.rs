// SPDX-License-Identifier: Apache-2.0
//! Where frames come from: a live interface or a capture file.

pub mod file;
mod packet_socket;
pub mod ring;
pub mod signals;
pub mod transmitter;
