// SPDX-License-Identifier: Apache-2.0
//! A packet's headers and payload as they leave.

use narrows_program::field::TAIL;
use narrows_program::Program;

use crate::packet::Packet;

/// Finds where the output starts and ends. False if the headers do not lie in a row before the payload.
pub fn place(program: &Program, packet: &mut Packet) -> bool {
    let mut start = packet.payload;
    for &header in program.deparser.iter().rev().filter(|&&h| packet.is_valid(h)) {
        let base = u32::from(packet.base[usize::from(header)]);
        if base + program.headers[usize::from(header)] != start {
            return false;
        }
        start = base;
    }
    packet.start = start;
    cut(packet);
    true
}

/// Truncates the output.
pub fn cut(packet: &mut Packet) {
    let end = packet.start.saturating_add(packet.truncated);
    packet.end = packet.end.min(end);
}

/// Puts the headers together in a row, right before the payload.
pub fn gather(program: &Program, packet: &mut Packet, gathered: &mut Vec<u8>) {
    gathered.clear();
    for &header in program.deparser.iter().filter(|&&h| packet.is_valid(h)) {
        let base = usize::from(packet.base[usize::from(header)]);
        gathered.extend_from_slice(&packet.buffer[base..base + program.headers[usize::from(header)] as usize]);
    }
    let zeros = program.zeros();
    let mut payload = packet.payload as usize;
    if payload < zeros + gathered.len() {
        // No room before the payload: it moves back.
        let length = packet.end as usize - payload;
        let moved = zeros + gathered.len();
        let needed = moved + length + TAIL;
        if packet.buffer.len() < needed {
            packet.buffer.resize(needed, 0);
        }
        packet.buffer.copy_within(payload..payload + length, moved);
        payload = moved;
        packet.payload = moved as u32;
        packet.end = (moved + length) as u32;
    }
    let start = payload - gathered.len();
    packet.buffer[start..payload].copy_from_slice(gathered);
    packet.start = start as u32;
}
