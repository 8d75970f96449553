// SPDX-License-Identifier: Apache-2.0
//! The functions that generated code calls: what is too long, or too rare, to be generated.
//!
//! Each is only called by code that `lower/` makes, with the arguments named here; why these addresses are good is said
//! in `native.rs`. None of them unwinds.
#![allow(unsafe_code)]

use narrows_interpreter::hash::compute;
use narrows_interpreter::packet::Packet;
use narrows_interpreter::wide::{wide_cast, wide_division};
use narrows_program::calculation::Algorithm;
use narrows_program::externs::Extern;
use narrows_program::op::Cast;

use super::context::{Context, Descriptor};

/// The entry that matches key fields given as words.
pub(super) extern "C" fn find(descriptor: *const Descriptor, raw: *const u64) -> u32 {
    // SAFETY: the code passes the descriptor of the table whose fields it has put at `raw`, `raw_words` of them.
    unsafe {
        let state = &*(*descriptor).state;
        state.find_raw(std::slice::from_raw_parts(raw, state.raw_words))
    }
}

/// The same for a key of one word, which has no bits beyond the field.
pub(super) extern "C" fn find_word(descriptor: *const Descriptor, key: u64) -> u32 {
    // SAFETY: as above.
    unsafe { (*(*descriptor).state).find_word(key) }
}

/// Notes a hit in a table where hits leave something behind.
pub(super) extern "C" fn note_hit(context: *mut Context, table: u64, handle: u32) {
    // SAFETY: the machine and the packet are borrowed exclusively by the caller of the code.
    unsafe {
        let bytes = (*(*context).packet).ingress_length;
        let machine = &mut *(*context).machine;
        machine.tables[table as usize].note_hit(handle, bytes, machine.now_ns);
    }
}

/// A random number from `low` to `high` cut by `mask`; `old` if there is none.
pub(super) extern "C" fn random(context: *mut Context, low: u64, high: u64, old: u64, mask: u64) -> u64 {
    // SAFETY: as above.
    let random = unsafe { &mut (*(*context).machine).random };
    random.uniform(low, high).map_or(old, |value| value & mask)
}

/// An operation of the architecture on an object: what it makes of a value; `old` leaves things as they are.
pub(super) extern "C" fn call(context: *mut Context, call: u64, object: u64, value: u64, old: u64) -> u64 {
    // SAFETY: as above.
    unsafe {
        let (program, machine, packet) = (&*(*context).program, &mut *(*context).machine, &*(*context).packet);
        machine.call(program, packet, Extern::ALL[call as usize], object as u16, (value, old))
    }
}

/// A calculation over what the packet and the frame hold, where both are up to date.
pub(super) extern "C" fn calculate(context: *mut Context, index: u64) -> u64 {
    // SAFETY: as above.
    unsafe {
        let (program, machine) = (&*(*context).program, &mut *(*context).machine);
        let calculation = &program.calculations[index as usize];
        let packet = &*(*context).packet;
        machine.bits.run_anew(calculation, &machine.frame, packet)
    }
}

/// A hash of `count` bytes.
pub(super) extern "C" fn hash(algorithm: u64, data: *const u8, count: u64) -> u64 {
    // SAFETY: the code passes a place on its stack of that size.
    let data = unsafe { std::slice::from_raw_parts(data, count as usize) };
    compute(Algorithm::ALL[algorithm as usize], data)
}

/// Division (0) or remainder (1) of the 128-bit words at `words` and `words + 2`, to `words`.
pub(super) extern "C" fn divide(kind: u64, words: *mut u64) {
    // SAFETY: four words on the code's stack.
    unsafe {
        let [a, b] = [words, words.add(2)].map(|at| wide(at));
        set_wide(words, wide_division(kind != 0, a, b));
    }
}

/// A cast of the 128-bit word at `words`, in place.
pub(super) extern "C" fn cast(kind: u64, words: *mut u64, bits: u64) {
    // SAFETY: two words on the code's stack.
    unsafe { set_wide(words, wide_cast(Cast::ALL[kind as usize], wide(words), bits as u8)) }
}

/// Reads ahead of the parsed headers into two words; 0 if the packet ends before.
pub(super) extern "C" fn look_ahead(packet: *const Packet, bit: u64, bits: u64, words: *mut u64) -> u32 {
    // SAFETY: the packet is borrowed by the caller of the code; two words on the code's stack.
    unsafe {
        let found = (*packet).look_ahead(bit as u32, bits as u8);
        set_wide(words, found.unwrap_or_default());
        u32::from(found.is_some())
    }
}

/// Copies `count` bytes, which may overlap.
pub(super) extern "C" fn copy(to: *mut u8, from: *const u8, count: u64) {
    // SAFETY: two headers in the packet's buffer.
    unsafe { std::ptr::copy(from, to, count as usize) }
}

/// # Safety
/// Two words lie at `at`.
unsafe fn wide(at: *const u64) -> u128 {
    // SAFETY: as above.
    let [low, high] = unsafe { at.cast::<[u64; 2]>().read() };
    u128::from(low) | u128::from(high) << 64
}

/// # Safety
/// As for [`wide`].
unsafe fn set_wide(at: *mut u64, value: u128) {
    let words = [value as u64, (value >> 64) as u64];
    // SAFETY: as above.
    unsafe { at.cast::<[u64; 2]>().write(words) }
}
