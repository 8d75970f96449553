// SPDX-License-Identifier: Apache-2.0
//! The packed key of a packet.

use narrows_program::key::{Key, KeyLayout, Step};
use narrows_program::table::{Source, MAX_WORDS};

use crate::frame::Frame;
use crate::packet::Packet;

/// The packed key of a packet, if it is one word.
#[inline(always)]
pub(super) fn build_word(layout: &KeyLayout, frame: &Frame, packet: &Packet) -> u64 {
    match &layout.steps[..] {
        [step] => narrow(step, frame, packet),
        steps => steps.iter().fold(0, |key, step| key | narrow(step, frame, packet) << (step.low.1 & 63)),
    }
}

/// The packed key of a packet.
pub(super) fn build(layout: &KeyLayout, frame: &Frame, packet: &Packet) -> Key {
    let mut key = [0; MAX_WORDS];
    for step in &layout.steps {
        if step.width <= 64 {
            key[usize::from(step.low.0) % MAX_WORDS] |= narrow(step, frame, packet) << (step.low.1 & 63);
        } else {
            step.pack(wide(step, frame, packet), &mut key);
        }
    }
    key
}

/// A field of at most 64 bits.
#[inline(always)]
fn narrow(step: &Step, frame: &Frame, packet: &Packet) -> u64 {
    let value = match step.source {
        Source::Slot(slot) => frame[usize::from(slot)],
        Source::Valid(header) => u64::from(packet.is_valid(header)),
        Source::Header { header, byte, shift } => packet.window8(header, byte) >> (shift & 63),
        Source::HeaderWide { header, byte, shift } => (packet.window16(header, byte) >> (shift & 127)) as u64,
    };
    value & step.mask as u64
}

#[inline(always)]
fn wide(step: &Step, frame: &Frame, packet: &Packet) -> u128 {
    let value = match step.source {
        Source::Slot(slot) => {
            u128::from(frame[usize::from(slot)]) | u128::from(frame[usize::from(slot.wrapping_add(1))]) << 64
        }
        Source::HeaderWide { header, byte, shift } => packet.window16(header, byte) >> (shift & 127),
        _ => u128::from(narrow(step, frame, packet)),
    };
    value & step.mask
}
