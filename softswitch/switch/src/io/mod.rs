//! Linux interfaces as ports: AF_PACKET sockets, and the thread that moves frames between them and the switch.
// SPDX-License-Identifier: Apache-2.0
mod checksum;
mod clock;
mod dataplane;
mod helper;
mod memory;
mod plain;
mod port;
mod ports;
mod priority;
mod receive;
mod socket;
mod transmit;
mod wait;
mod wakeups;
mod xdp;

pub use dataplane::{spawn, DataPath, Gone, Handle, LoopSettings, Running, DIGEST_CHANNEL};
pub use port::{Port, PortCounters};
pub use socket::link_is_up;

/// Longest frame the switch takes: 9,216 bytes of payload, Ethernet header, and one VLAN tag. (The frame check sequence
/// is the interface's business.)
pub const MAX_FRAME: usize = 9_216 + 14 + 4;
