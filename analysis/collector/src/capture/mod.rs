// SPDX-License-Identifier: Apache-2.0
//! Where frames come from: a live interface, a pipe or a capture file.

pub mod file;
pub mod pipe;
pub mod ring;
pub mod signals;
pub mod transmitter;

/// Number of an interface of the current network namespace.
fn interface_index(interface: &str) -> Result<i32, String> {
    if interface.contains('\0') {
        return Err(format!("interface name {interface:?} holds a zero byte"));
    }
    narrows_packet_sockets::interface_index(interface)
        .map_err(|_| format!("no interface {interface:?} in this network namespace"))
}
