//! Linux interfaces as ports: AF_PACKET sockets, and the thread that moves frames between them and the switch.
// SPDX-License-Identifier: Apache-2.0
mod access;
mod af_packet;
mod background;
mod checksum;
mod clock;
mod coalescing;
mod dataplane;
mod frame;
mod gso;
mod helper;
mod hold;
mod interface;
mod joining;
mod launch;
mod lookahead;
mod moderation;
mod port;
mod ports;
mod priority;
mod qdisc;
mod real_time;
mod receive;
mod recorder;
mod segmentation;
mod send;
mod socket;
mod tcp;
mod thread;
mod timer;
mod transmit;
mod transmit_counters;
mod virtual_time;
mod vnet;
mod wait;
mod wakeups;
mod xdp;

pub use access::AccessSettings;
pub use clock::now_ns;
pub use dataplane::{control_channels, DataPath, FromDataPath, Gone, Handle, PacketIn, ToControl};
pub use hold::HoldError;
pub use interface::link_is_up;
pub use moderation::ModerationSettings;
pub use port::{Port, PortCounters, PortSettings, RingSettings, Sending};
pub use real_time::LoopSettings;
pub use recorder::{Recorder, WhenFull};
pub use thread::{spawn, Pace, Running};
pub use virtual_time::VirtualSettings;

/// Longest frame the switch takes: 9,216 bytes of payload, Ethernet header, and one VLAN tag. (The frame check sequence
/// is the interface's business.)
pub const MAX_FRAME: usize = 9_216 + 14 + 4;
