// SPDX-License-Identifier: Apache-2.0
//! Stores of constants to neighbouring bytes.

use std::collections::HashMap;

use narrows_program::field::Slot;
use narrows_program::op::{At, Op};
use narrows_program::Program;

use super::{leaders, NOTHING};

/// Constants that are stored to one header one after the other become one store.
pub(super) fn merge_stores(program: &mut Program) {
    let leaders = leaders(program);
    let constants: HashMap<Slot, u64> = program.code.constants.iter().copied().collect();
    let mut at = 0;
    while at < program.code.ops.len() {
        let Some(first) = constant_store(&program.code.ops[at], &constants) else {
            at += 1;
            continue;
        };
        let header = first.header;
        let mut run = vec![first];
        let mut end = at + 1;
        while end < program.code.ops.len() && !leaders[end] {
            match constant_store(&program.code.ops[end], &constants) {
                Some(store) if store.header == header => run.push(store),
                _ if program.code.ops[end] == NOTHING => {}
                _ => break,
            }
            end += 1;
        }
        let merged = merged(&run);
        if merged.len() < run.len() {
            let mut new = Vec::new();
            for store in &merged {
                new.extend(store.op(program));
            }
            if new.len() == merged.len() {
                for (i, op) in program.code.ops[at..end].iter_mut().enumerate() {
                    *op = new.get(i).copied().unwrap_or(NOTHING);
                }
            }
        }
        at = end;
    }
}

/// Bytes of a header that get constant bits.
struct ConstantStore {
    header: u8,
    byte: u16,
    /// Value and mask of each byte.
    bytes: Vec<(u8, u8)>,
}

fn constant_store(op: &Op, constants: &HashMap<Slot, u64>) -> Option<ConstantStore> {
    let whole = |s: Slot, header, byte, count: usize| {
        let value = constants.get(&s)?.to_be_bytes();
        Some(ConstantStore { header, byte, bytes: value[8 - count..].iter().map(|&v| (v, 0xff)).collect() })
    };
    match *op {
        Op::Store1 { s, header, byte } => whole(s, header, byte, 1),
        Op::Store2 { s, header, byte } => whole(s, header, byte, 2),
        Op::Store4 { s, header, byte } => whole(s, header, byte, 4),
        Op::Store8 { s, header, byte } => whole(s, header, byte, 8),
        Op::StoreBytes { s, header, byte, count } => whole(s, header, byte, usize::from(count)),
        Op::StoreBits { s, at, count } => {
            let mask = narrows_program::bits::ones(u32::from(at.bits)) << at.shift;
            let value = constants.get(&s)? << at.shift & mask;
            let skip = 8 - usize::from(count);
            let pairs = value.to_be_bytes().into_iter().zip(mask.to_be_bytes());
            Some(ConstantStore { header: at.header, byte: at.byte, bytes: pairs.skip(skip).collect() })
        }
        _ => None,
    }
}

/// The same stores, joined: runs of whole bytes of 8, 4, 2 or 1, and bytes of which only a part is written.
fn merged(run: &[ConstantStore]) -> Vec<ConstantStore> {
    let mut bytes: std::collections::BTreeMap<u16, (u8, u8)> = std::collections::BTreeMap::new();
    for store in run {
        for (at, &(value, mask)) in (store.byte..).zip(&store.bytes) {
            let byte = bytes.entry(at).or_default();
            *byte = (byte.0 & !mask | value & mask, byte.1 | mask);
        }
    }
    let header = run.first().map_or(0, |s| s.header);
    let mut result: Vec<ConstantStore> = Vec::new();
    let bytes: Vec<(u16, (u8, u8))> = bytes.into_iter().filter(|b| b.1 .1 != 0).collect();
    let mut at = 0;
    while at < bytes.len() {
        let whole = |i: usize| bytes.get(at + i).is_some_and(|b| b.1 .1 == 0xff && b.0 == bytes[at].0 + i as u16);
        let length = (0..8).take_while(|&i| whole(i)).count();
        let count = [8, 4, 2].into_iter().find(|&n| n <= length).unwrap_or(1);
        let parts = bytes[at..at + count].iter().map(|b| b.1).collect();
        result.push(ConstantStore { header, byte: bytes[at].0, bytes: parts });
        at += count;
    }
    result
}

impl ConstantStore {
    /// `None` if there is no slot left for the constant, or a partial byte is not one run of bits.
    fn op(&self, program: &mut Program) -> Option<Op> {
        let (header, byte) = (self.header, self.byte);
        let value = self.bytes.iter().fold(0u64, |v, b| v << 8 | u64::from(b.0));
        match self.bytes[..] {
            [(value, mask)] if mask != 0xff => {
                let (shift, bits) = (mask.trailing_zeros() as u8, mask.count_ones() as u8);
                if u32::from(mask >> shift).trailing_ones() != u32::from(bits) {
                    return None;
                }
                let s = constant(program, u64::from(value >> shift))?;
                Some(Op::StoreBits { s, at: At { header, byte, shift, bits }, count: 1 })
            }
            _ => {
                let s = constant(program, value)?;
                Some(match self.bytes.len() {
                    1 => Op::Store1 { s, header, byte },
                    2 => Op::Store2 { s, header, byte },
                    4 => Op::Store4 { s, header, byte },
                    _ => Op::Store8 { s, header, byte },
                })
            }
        }
    }
}

/// The slot of a constant, a new one if need be.
fn constant(program: &mut Program, value: u64) -> Option<Slot> {
    if let Some((slot, _)) = program.code.constants.iter().find(|c| c.1 == value) {
        return Some(*slot);
    }
    let slot = program.slots;
    program.slots = slot.checked_add(1).filter(|&s| s < 65_000)?;
    program.code.constants.push((slot, value));
    Some(slot)
}
