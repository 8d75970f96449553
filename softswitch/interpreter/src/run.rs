// SPDX-License-Identifier: Apache-2.0
//! Runs instructions.

use narrows_program::bits::{cut, wide_ones};
use narrows_program::op::{At, Op};
use narrows_program::Program;

use crate::machine::Machine;
use crate::packet::Packet;
use crate::table::NONE;
use crate::wide::{wide_cast, wide_op};

/// States that a parser with loops may pass.
pub const PARSER_STATES: u32 = 256;

impl Machine {
    #[inline(always)]
    fn wide(&self, slot: u16) -> u128 {
        u128::from(self.frame[usize::from(slot)]) | u128::from(self.frame[usize::from(slot.wrapping_add(1))]) << 64
    }

    #[inline(always)]
    fn set_wide(&mut self, slot: u16, value: u128) {
        self.frame[usize::from(slot)] = value as u64;
        self.frame[usize::from(slot.wrapping_add(1))] = (value >> 64) as u64;
    }

    /// Runs from `start` to the end of that part of the program. For parsers, the packet's payload starts at the cursor
    /// before and behind the parsed headers afterwards.
    pub fn run(&mut self, program: &Program, packet: &mut Packet, start: u32) {
        let ops = &program.code.ops[..];
        let mut at = start as usize;
        let mut states = 0;
        macro_rules! slot {
            ($s:expr) => {
                self.frame[usize::from($s)]
            };
        }
        while let Some(op) = ops.get(at) {
            at += 1;
            match *op {
                Op::End => return,
                Op::Jump(to) => at = to as usize,
                Op::JumpZero { s, to } => {
                    if slot!(s) == 0 {
                        at = to as usize;
                    }
                }
                Op::JumpNonZero { s, to } => {
                    if slot!(s) != 0 {
                        at = to as usize;
                    }
                }
                Op::JumpCompare { compare, a, b, to } => {
                    if compare.holds(slot!(a), slot!(b)) {
                        at = to as usize;
                    }
                }
                Op::JumpValid { header, to } => {
                    if packet.is_valid(header) {
                        at = to as usize;
                    }
                }
                Op::JumpInvalid { header, to } => {
                    if !packet.is_valid(header) {
                        at = to as usize;
                    }
                }

                Op::Move { d, s } => slot!(d) = slot!(s),
                Op::MoveWide { d, s } => {
                    let value = self.wide(s);
                    self.set_wide(d, value);
                }
                Op::Add { d, a, b, bits } => slot!(d) = slot!(a).wrapping_add(slot!(b)) & cut(bits),
                Op::Sub { d, a, b, bits } => slot!(d) = slot!(a).wrapping_sub(slot!(b)) & cut(bits),
                Op::Mul { d, a, b, bits } => slot!(d) = slot!(a).wrapping_mul(slot!(b)) & cut(bits),
                Op::And { d, a, b } => slot!(d) = slot!(a) & slot!(b),
                Op::Or { d, a, b } => slot!(d) = slot!(a) | slot!(b),
                Op::Xor { d, a, b } => slot!(d) = slot!(a) ^ slot!(b),
                Op::Not { d, s, bits } => slot!(d) = !slot!(s) & cut(bits),
                Op::Shl { d, a, b, bits } => {
                    let by = slot!(b);
                    slot!(d) = if by < 64 { slot!(a) << by & cut(bits) } else { 0 };
                }
                Op::Shr { d, a, b } => {
                    let by = slot!(b);
                    slot!(d) = if by < 64 { slot!(a) >> by } else { 0 };
                }
                Op::Div { d, a, b } => slot!(d) = slot!(a).checked_div(slot!(b)).unwrap_or(0),
                Op::Mod { d, a, b } => slot!(d) = slot!(a).checked_rem(slot!(b)).unwrap_or(0),
                Op::SaturatingAdd { d, a, b, bits } => slot!(d) = slot!(a).saturating_add(slot!(b)).min(cut(bits)),
                Op::SaturatingSub { d, a, b } => slot!(d) = slot!(a).saturating_sub(slot!(b)),
                Op::Concat { d, a, b, shift } => slot!(d) = slot!(a) << (shift & 63) | slot!(b),
                Op::Mask { d, s, bits } => slot!(d) = slot!(s) & cut(bits),
                Op::Compare { compare, d, a, b } => slot!(d) = u64::from(compare.holds(slot!(a), slot!(b))),
                Op::Valid { d, header } => slot!(d) = u64::from(packet.is_valid(header)),

                Op::Widen { d, s } => {
                    let value = u128::from(slot!(s));
                    self.set_wide(d, value);
                }
                Op::WideArithmetic { op, d, a, b } => {
                    let value = wide_op(op, self.wide(a), self.wide(b));
                    self.set_wide(d, value);
                }
                Op::WideNot { d, s } => {
                    let value = !self.wide(s);
                    self.set_wide(d, value);
                }
                Op::WideCast { cast, d, s, bits } => {
                    let value = wide_cast(cast, self.wide(s), bits);
                    self.set_wide(d, value);
                }
                Op::WideCompare { compare, signed, d, a, b } => {
                    let (a, b) = (self.wide(a), self.wide(b));
                    let holds = if signed { compare.holds(a as i128, b as i128) } else { compare.holds(a, b) };
                    slot!(d) = u64::from(holds);
                }

                Op::Load1 { d, at } => slot!(d) = field(packet.window1(at.header, at.byte), at),
                Op::Load2 { d, at } => slot!(d) = field(packet.window2(at.header, at.byte), at),
                Op::Load4 { d, at } => slot!(d) = field(packet.window4(at.header, at.byte), at),
                Op::Load8 { d, at } => slot!(d) = field(packet.window8(at.header, at.byte), at),
                Op::LoadWide { d, at } => {
                    let value = packet.window16(at.header, at.byte) >> (at.shift & 127) & wide_ones(u32::from(at.bits));
                    self.set_wide(d, value);
                }
                Op::Store1 { s, header, byte } => packet.write(header, byte, (slot!(s) as u8).to_be_bytes()),
                Op::Store2 { s, header, byte } => packet.write(header, byte, (slot!(s) as u16).to_be_bytes()),
                Op::Store4 { s, header, byte } => packet.write(header, byte, (slot!(s) as u32).to_be_bytes()),
                Op::Store8 { s, header, byte } => packet.write(header, byte, slot!(s).to_be_bytes()),
                Op::StoreBytes { s, header, byte, count } => {
                    let value = slot!(s);
                    if count == 6 {
                        packet.write(header, byte, ((value >> 32) as u16).to_be_bytes());
                        packet.write(header, byte + 2, (value as u32).to_be_bytes());
                    } else {
                        packet.write_bytes(header, byte, value, usize::from(count));
                    }
                }
                Op::StoreBits { s, at, count } => {
                    let mask = cut(at.bits) << at.shift;
                    let old = packet.read_bytes(at.header, at.byte, usize::from(count)) as u64;
                    let value = old & !mask | slot!(s) << at.shift & mask;
                    packet.write_bytes(at.header, at.byte, value, usize::from(count));
                }
                Op::StoreWide { s, at } => {
                    // Only the bytes that the field touches: others may belong to another header.
                    let unused = u32::from(at.shift) & !7;
                    let count = 16 - unused as usize / 8;
                    let shift = u32::from(at.shift) - unused;
                    let (value, mask) = (self.wide(s) << shift, wide_ones(u32::from(at.bits)) << shift);
                    let old = packet.read_bytes(at.header, at.byte, count);
                    packet.write_wide(at.header, at.byte, old & !mask | value & mask, count);
                }

                Op::AddHeader { header } => {
                    if !packet.is_valid(header) {
                        let bytes = program.headers[usize::from(header)];
                        packet.place_header(header, program.homes[usize::from(header)]);
                        packet.zero_header(header, bytes as usize);
                        packet.register_length = packet.register_length.wrapping_add(bytes);
                    }
                }
                Op::RemoveHeader { header } => {
                    if packet.is_valid(header) {
                        packet.invalidate_header(header);
                        packet.register_length =
                            packet.register_length.wrapping_sub(program.headers[usize::from(header)]);
                    }
                }
                Op::CopyHeader { to, from } => {
                    if packet.is_valid(from) {
                        if !packet.is_valid(to) {
                            packet.place_header(to, program.homes[usize::from(to)]);
                        }
                        packet.copy_header(to, from, program.headers[usize::from(from)] as usize);
                    } else {
                        packet.invalidate_header(to);
                    }
                }

                Op::RegisterRead { d, register, index, bits } => {
                    if let Some(value) = self.cells.change(register, slot!(index), |v| v) {
                        slot!(d) = value & cut(bits);
                    }
                }
                Op::RegisterWrite { register, index, s } => {
                    let (index, value) = (slot!(index), slot!(s));
                    self.cells.change(register, index, |_| value);
                }
                Op::RegisterAdd { d, register, index, s, bits } => {
                    let (index, increment) = (slot!(index), slot!(s));
                    let add = |v: u64| v.wrapping_add(increment) & cut(bits);
                    let sum = self.cells.change(register, index, add);
                    slot!(d) = sum.unwrap_or_else(|| add(slot!(d)));
                }
                Op::Count { counter, index } => self.cells.count(counter, slot!(index), packet.ingress_length),
                Op::Random { d, low, high, bits } => {
                    if let Some(value) = self.random.uniform(slot!(low), slot!(high)) {
                        slot!(d) = value & cut(bits);
                    }
                }
                Op::Hash { d, calculation, base, size, bits } => {
                    let sum = self.bits.run(&program.calculations[usize::from(calculation)], &self.frame, packet);
                    let size = slot!(size).max(1);
                    let rest = if size.is_power_of_two() { sum & (size - 1) } else { sum % size };
                    slot!(d) = rest.wrapping_add(slot!(base)) & cut(bits);
                }
                Op::Checksum { d, calculation } => {
                    slot!(d) = self.bits.run(&program.calculations[usize::from(calculation)], &self.frame, packet);
                }
                Op::ChecksumError => self.outcome.checksum_error = true,
                Op::Digest { list } => self.outcome.digest = Some(list),
                Op::Clone { session, list } => self.outcome.clone = Some((slot!(session) as u16, list)),
                Op::Truncate { length } => {
                    let length = slot!(length).min(u64::from(u32::MAX)) as u32;
                    packet.truncated = packet.truncated.min(length);
                }
                Op::Extern { call, object, d, s } => {
                    slot!(d) = self.call(program, packet, call, object, (slot!(s), slot!(d)));
                }
                Op::Table { table } => at = self.apply(program, packet, usize::from(table)),

                Op::Extract { header } => {
                    let bytes = program.headers[usize::from(header)];
                    if packet.end - packet.payload < bytes {
                        self.outcome.parser_error = program.errors.packet_too_short;
                        return;
                    }
                    packet.place_header(header, packet.payload as u16);
                    packet.payload += bytes;
                }
                Op::Advance { s } => {
                    let bits = slot!(s);
                    if bits % 8 != 0 {
                        self.outcome.parser_error = program.errors.invalid_argument;
                        return;
                    }
                    if u64::from(packet.end - packet.payload) < bits / 8 {
                        self.outcome.parser_error = program.errors.packet_too_short;
                        return;
                    }
                    packet.payload += (bits / 8) as u32;
                }
                Op::Require { bits } => {
                    if u64::from(packet.end - packet.payload) * 8 < slot!(bits) {
                        self.outcome.parser_error = program.errors.packet_too_short;
                        return;
                    }
                }
                Op::LookAhead { d, bit, bits } => match packet.look_ahead(bit, bits) {
                    Some(value) => slot!(d) = value as u64,
                    None => {
                        self.outcome.parser_error = program.errors.packet_too_short;
                        return;
                    }
                },
                Op::LookAheadWide { d, bit, bits } => match packet.look_ahead(bit, bits) {
                    Some(value) => self.set_wide(d, value),
                    None => {
                        self.outcome.parser_error = program.errors.packet_too_short;
                        return;
                    }
                },
                Op::ParserError { code } => {
                    self.outcome.parser_error = slot!(code);
                    return;
                }
                Op::LoopGuard => {
                    states += 1;
                    if states > PARSER_STATES {
                        self.outcome.parser_error = program.errors.timeout;
                        return;
                    }
                }
            }
        }
    }

    /// Applies a table; returns the address of the action's code.
    #[inline(always)]
    fn apply(&mut self, program: &Program, packet: &Packet, index: usize) -> usize {
        let (code, table) = (&program.tables[index], &mut self.tables[index]);
        table.refresh(code);
        let handle = table.find(&self.frame, packet);
        let hit = handle != NONE;
        if hit && code.info.notes_hits() {
            table.note_hit(handle, packet.ingress_length, self.now_ns);
        }
        let action = table.load(handle, &mut self.frame[usize::from(code.params)..]);
        code.actions[usize::from(action)].targets[usize::from(hit)] as usize
    }
}

#[inline(always)]
fn field(window: u64, at: At) -> u64 {
    window >> (at.shift & 63) & cut(at.bits)
}

const _: () = assert!(std::mem::size_of::<Op>() <= 12);
