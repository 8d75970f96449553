// SPDX-License-Identifier: Apache-2.0
//! Where frames come from: a live interface, a pipe or a capture file.

pub mod file;
mod packet_socket;
pub mod pipe;
pub mod ring;
pub mod signals;
pub mod transmitter;
