// SPDX-License-Identifier: Apache-2.0
//! Makes programs shorter: p4c copies every argument, field and constant through variables of its own.

use std::collections::HashMap;

use crate::hash::Piece;
use crate::layout::{Field, Slot};
use crate::live::{analyse, Effect, Ends};
use crate::op::{At, Compare, Op, Use};
use crate::program::Program;
use crate::table::Source;

/// Analysis takes instructions times slots: beyond this the program is left as it is.
const MAX_WORK: usize = 1 << 26;
/// Values that are remembered for reuse.
const MAX_VALUES: usize = 64;
const ROUNDS: usize = 4;

/// Does nothing; taken out at the end of a round.
const NOTHING: Op = Op::Move { d: 0, s: 0 };

/// `kept` are the fields that clones keep.
pub(crate) fn optimise(program: &mut Program, kept: &[Field]) {
    if program.code.ops.len() * usize::from(program.slots) > MAX_WORK {
        return;
    }
    drop_initial_removals(program);
    for _ in 0..ROUNDS {
        propagate(program);
        remove_dead(program, kept);
        merge_stores(program);
        fuse_registers(program);
        compact(program);
    }
    mark_repeated(program);
}

/// A hash over the same input as the one right before it need not collect that input again.
fn mark_repeated(program: &mut Program) {
    let leaders = leaders(program);
    for (at, leader) in leaders
        .into_iter()
        .enumerate()
        .take(program.code.ops.len())
        .skip(1)
    {
        if let (
            Op::Hash {
                d,
                calculation: first,
                ..
            },
            Op::Hash {
                calculation: second,
                ..
            },
            false,
        ) = (program.code.ops[at - 1], program.code.ops[at], leader)
        {
            let [first, second] = [first, second].map(usize::from);
            let pieces = &program.calculations[first].pieces;
            let changed = pieces
                .iter()
                .any(|p| matches!(p, Piece::Slot { slot, .. } if *slot == d));
            // A single run of header bytes is not collected at all.
            let collected = !matches!(pieces[..], [Piece::Header { .. }]);
            let used_once = count_uses(program, second) == 1;
            if collected
                && used_once
                && !changed
                && first != second
                && *pieces == program.calculations[second].pieces
            {
                program.calculations[second].repeated = true;
            }
        }
    }
}

fn count_uses(program: &Program, index: usize) -> usize {
    let uses = |op: &&Op| matches!(op, Op::Hash { calculation, .. } | Op::Checksum { calculation, .. } if usize::from(*calculation) == index);
    program.code.ops.iter().filter(uses).count()
}

/// Instructions that something jumps to.
fn leaders(program: &Program) -> Vec<bool> {
    let code = &program.code;
    let mut leaders = vec![false; code.ops.len() + 1];
    for start in [
        code.parser,
        code.verify,
        code.ingress,
        code.egress,
        code.update,
    ] {
        leaders[start as usize] = true;
    }
    for op in &code.ops {
        if let Some(to) = op.clone().target() {
            leaders[*to as usize] = true;
        }
    }
    for target in program
        .tables
        .iter()
        .flat_map(|t| &t.actions)
        .flat_map(|a| a.targets)
    {
        if let Some(leader) = leaders.get_mut(target as usize) {
            *leader = true;
        }
    }
    leaders
}

/// p4c starts parsers by making all headers invalid, which they are.
fn drop_initial_removals(program: &mut Program) {
    let start = program.code.parser as usize;
    if program.code.ops.contains(&Op::LoopGuard) {
        return;
    }
    // Without loops nothing jumps back to the first state.
    for op in &mut program.code.ops[start..] {
        match op {
            Op::RemoveHeader { .. } => *op = NOTHING,
            _ => return,
        }
    }
}

/// What is known between two jump targets.
struct Known {
    /// `same[s]` is a slot that holds the same value as s.
    same: Vec<Slot>,
    /// Slots s with `same[s] != s`.
    copies: Vec<Slot>,
    /// Pure instructions (destination 0) and where their result is.
    values: Vec<(Op, Slot)>,
}

impl Known {
    fn new(slots: usize) -> Self {
        Self {
            same: (0..slots).map(|s| s as Slot).collect(),
            copies: Vec::new(),
            values: Vec::new(),
        }
    }

    fn forget_all(&mut self) {
        for slot in self.copies.drain(..) {
            self.same[usize::from(slot)] = slot;
        }
        self.values.clear();
    }

    /// A slot is about to change.
    fn forget(&mut self, slot: Slot) {
        let same = &mut self.same;
        self.copies.retain(|&copy| {
            let stale = copy == slot || same[usize::from(copy)] == slot;
            if stale {
                same[usize::from(copy)] = copy;
            }
            !stale
        });
        self.values.retain(|(op, d)| {
            let mut stale = *d == slot || is_wide(op) && *d + 1 == slot;
            op.clone().visit(|&mut s, how| match how {
                Use::Read => stale |= s == slot,
                Use::ReadWide => stale |= s == slot || s + 1 == slot,
                _ => {}
            });
            !stale
        });
    }

    fn copy(&mut self, d: Slot, s: Slot) {
        let root = self.same[usize::from(s)];
        if root != d {
            self.same[usize::from(d)] = root;
            self.copies.push(d);
        }
    }

    fn root(&self, slot: Slot) -> Slot {
        self.same[usize::from(slot)]
    }
}

fn is_wide(op: &Op) -> bool {
    let mut wide = false;
    op.clone().visit(|_, how| wide |= how == Use::WriteWide);
    wide
}

fn destination(op: &Op) -> Option<Slot> {
    let mut found = None;
    op.clone().visit(|&mut slot, how| {
        if matches!(how, Use::Write | Use::WriteWide) {
            found = Some(slot);
        }
    });
    found
}

fn with_destination(op: &Op, d: Slot) -> Op {
    let mut op = *op;
    op.visit(|slot, how| {
        if matches!(how, Use::Write | Use::WriteWide) {
            *slot = d;
        }
    });
    op
}

/// Reads come from where values were first; what is already known is not computed again.
fn propagate(program: &mut Program) {
    let leaders = leaders(program);
    let constants: HashMap<Slot, u64> = program.code.constants.iter().copied().collect();
    let zero = program
        .code
        .constants
        .iter()
        .find(|c| c.1 == 0)
        .map(|c| c.0);
    let mut uses = vec![0u32; program.calculations.len()];
    for op in &program.code.ops {
        if let Op::Hash { calculation, .. } | Op::Checksum { calculation, .. } = op {
            uses[usize::from(*calculation)] += 1;
        }
    }
    let mut known = Known::new(usize::from(program.slots) + 2);
    for (at, leader) in leaders.into_iter().enumerate().take(program.code.ops.len()) {
        if leader {
            known.forget_all();
        }
        let mut op = program.code.ops[at];
        op.visit(|slot, how| match how {
            Use::Read => *slot = known.root(*slot),
            Use::ReadWide => {
                let (low, high) = (known.root(*slot), known.root(*slot + 1));
                if low + 1 == high {
                    *slot = low;
                }
            }
            _ => {}
        });
        match op {
            Op::Hash { calculation, .. } | Op::Checksum { calculation, .. }
                if uses[usize::from(calculation)] == 1 =>
            {
                for piece in &mut program.calculations[usize::from(calculation)].pieces {
                    if let Piece::Slot { slot, width } = piece {
                        *slot = known.root(*slot);
                        if let Some(value) = constants.get(slot) {
                            *piece = Piece::Constant {
                                value: *value,
                                width: *width,
                            };
                        }
                    }
                }
            }
            Op::Table { table } => {
                for part in &mut program.tables[usize::from(table)].parts {
                    if let (Source::Slot(slot), true) = (&mut part.source, part.width <= 64) {
                        *slot = known.root(*slot);
                    }
                }
            }
            Op::JumpCompare { compare, a, b, to } => {
                if let (Some(a), Some(b)) = (constants.get(&a), constants.get(&b)) {
                    op = if compare.holds(a, b) {
                        Op::Jump(to)
                    } else {
                        NOTHING
                    };
                } else if constants.get(&b) == Some(&0)
                    && matches!(compare, Compare::Eq | Compare::Ne)
                {
                    op = if compare == Compare::Eq {
                        Op::JumpZero { s: a, to }
                    } else {
                        Op::JumpNonZero { s: a, to }
                    };
                }
            }
            _ => {}
        }
        if op.is_pure() {
            let plain = with_destination(&op, 0);
            if let (Some((_, s)), Some(d)) =
                (known.values.iter().find(|v| v.0 == plain), destination(&op))
            {
                op = if is_wide(&op) {
                    Op::MoveWide { d, s: *s }
                } else {
                    Op::Move { d, s: *s }
                };
            }
        }
        if op.writes_header() {
            known.values.retain(|v| !v.0.reads_header());
        }
        // Nothing changes where a value moves to where it is.
        let unchanged = match op {
            Op::Move { d, s } => known.root(d) == known.root(s),
            _ => false,
        };
        if !unchanged {
            op.clone().visit(|&mut slot, how| match how {
                Use::Write | Use::MayWrite => known.forget(slot),
                Use::WriteWide => {
                    known.forget(slot);
                    known.forget(slot + 1);
                }
                _ => {}
            });
            match op {
                Op::Move { d, s } => known.copy(d, s),
                Op::MoveWide { d, s } if d != s => {
                    known.copy(d, s);
                    known.copy(d + 1, s + 1);
                }
                Op::Widen { d, s } => {
                    known.copy(d, s);
                    if let Some(zero) = zero {
                        known.copy(d + 1, zero);
                    }
                }
                _ => {}
            }
            if let (true, Some(d), false) = (
                op.is_pure(),
                destination(&op),
                matches!(op, Op::Move { .. }),
            ) {
                let mut reads_itself = false;
                let wide = is_wide(&op);
                op.clone().visit(|&mut s, how| {
                    let read = match how {
                        Use::Read => vec![s],
                        Use::ReadWide => vec![s, s + 1],
                        _ => Vec::new(),
                    };
                    reads_itself |= read.contains(&d) || wide && read.contains(&(d + 1));
                });
                if !reads_itself && known.values.len() < MAX_VALUES {
                    known.values.push((with_destination(&op, 0), d));
                }
            }
        }
        program.code.ops[at] = if unchanged { NOTHING } else { op };
    }
}

/// What nobody reads need not be computed.
fn remove_dead(program: &mut Program, kept: &[Field]) {
    let ends = Ends::of(program, kept);
    let code = &program.code;
    let parts = [
        (code.parser, code.verify, &ends.parser),
        (code.verify, code.ingress, &ends.verify),
        (code.ingress, code.egress, &ends.ingress),
        (code.egress, code.update, &ends.egress),
        (code.update, code.ops.len() as u32, &ends.update),
    ];
    let mut dead = Vec::new();
    for (start, limit, end) in parts {
        let (after, _) = analyse(program, start, limit, end);
        for at in start..limit {
            let op = &code.ops[at as usize];
            let only_computes = op.is_pure() || matches!(op, Op::Hash { .. } | Op::Random { .. });
            let only_reads = matches!(op, Op::RegisterRead { .. });
            let live = &after[(at - start) as usize];
            let mut needed = Effect::of(op, program)
                .writes
                .iter()
                .any(|&s| live.contains(s));
            op.clone()
                .visit(|&mut slot, how| needed |= how == Use::MayWrite && live.contains(slot));
            if (only_computes || only_reads) && !needed {
                dead.push(at as usize);
            }
        }
    }
    for at in dead {
        program.code.ops[at] = NOTHING;
    }
}

/// Constants that are stored to one header one after the other become one store.
fn merge_stores(program: &mut Program) {
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
        Some(ConstantStore {
            header,
            byte,
            bytes: value[8 - count..].iter().map(|&v| (v, 0xff)).collect(),
        })
    };
    match *op {
        Op::Store1 { s, header, byte } => whole(s, header, byte, 1),
        Op::Store2 { s, header, byte } => whole(s, header, byte, 2),
        Op::Store4 { s, header, byte } => whole(s, header, byte, 4),
        Op::Store8 { s, header, byte } => whole(s, header, byte, 8),
        Op::StoreBytes {
            s,
            header,
            byte,
            count,
        } => whole(s, header, byte, usize::from(count)),
        Op::StoreBits { s, at, count } => {
            let mask = crate::compile::ones(u32::from(at.bits)) << at.shift;
            let value = constants.get(&s)? << at.shift & mask;
            let skip = 8 - usize::from(count);
            let pairs = value.to_be_bytes().into_iter().zip(mask.to_be_bytes());
            Some(ConstantStore {
                header: at.header,
                byte: at.byte,
                bytes: pairs.skip(skip).collect(),
            })
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
        let whole = |i: usize| {
            bytes
                .get(at + i)
                .is_some_and(|b| b.1 .1 == 0xff && b.0 == bytes[at].0 + i as u16)
        };
        let length = (0..8).take_while(|&i| whole(i)).count();
        let count = [8, 4, 2].into_iter().find(|&n| n <= length).unwrap_or(1);
        let parts = bytes[at..at + count].iter().map(|b| b.1).collect();
        result.push(ConstantStore {
            header,
            byte: bytes[at].0,
            bytes: parts,
        });
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
                Some(Op::StoreBits {
                    s,
                    at: At {
                        header,
                        byte,
                        shift,
                        bits,
                    },
                    count: 1,
                })
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

/// Read, add, write back.
fn fuse_registers(program: &mut Program) {
    let leaders = leaders(program);
    let ops = &mut program.code.ops;
    for at in 0..ops.len().saturating_sub(2) {
        if leaders[at + 1] || leaders[at + 2] {
            continue;
        }
        if let [Op::RegisterRead {
            d,
            register,
            index,
            bits,
        }, Op::Add {
            d: sum,
            a,
            b,
            bits: cut,
        }, Op::RegisterWrite {
            register: r,
            index: i,
            s,
        }] = ops[at..at + 3]
        {
            let increment = if a == d { b } else { a };
            let fits = (a == d) != (b == d) && sum == d && s == d && bits == cut && index != d;
            if fits && (r, i) == (register, index) {
                ops[at] = Op::RegisterAdd {
                    d,
                    register,
                    index,
                    s: increment,
                    bits,
                };
                ops[at + 1] = NOTHING;
                ops[at + 2] = NOTHING;
            }
        }
    }
}

/// Removes what does nothing or is never reached.
fn compact(program: &mut Program) {
    let code = &mut program.code;
    // Jumps to jumps, and jumps to the end of a part.
    for at in 0..code.ops.len() {
        let mut op = code.ops[at];
        for _ in 0..8 {
            let Some(to) = op.target() else { break };
            let mut next = *to as usize;
            while code.ops[next] == NOTHING {
                next += 1;
            }
            match code.ops[next] {
                Op::Jump(further) if further != *to => *to = further,
                _ => {
                    *to = next as u32;
                    break;
                }
            }
        }
        if let Op::Jump(to) = op {
            if code.ops[to as usize] == Op::End {
                op = Op::End;
            }
        }
        code.ops[at] = op;
    }
    let reached = reached(program);
    let code = &mut program.code;
    let mut keep: Vec<bool> = code
        .ops
        .iter()
        .zip(&reached)
        .map(|(op, &r)| r && *op != NOTHING)
        .collect();
    // The last instruction of each part stays, so that no part is empty.
    for limit in [
        code.verify,
        code.ingress,
        code.egress,
        code.update,
        code.ops.len() as u32,
    ] {
        keep[limit as usize - 1] = true;
    }
    // A jump to what follows it.
    for at in 0..code.ops.len() {
        if let Op::Jump(to) = code.ops[at] {
            let to = to as usize;
            if to > at && !keep[at + 1..to].contains(&true) {
                keep[at] = false;
            }
        }
    }
    let mut moved = Vec::with_capacity(code.ops.len() + 1);
    let mut count = 0u32;
    for &kept in &keep {
        moved.push(count);
        count += u32::from(kept);
    }
    moved.push(count);
    for start in [
        &mut code.parser,
        &mut code.verify,
        &mut code.ingress,
        &mut code.egress,
        &mut code.update,
    ] {
        *start = moved[*start as usize];
    }
    let mut index = 0;
    code.ops.retain(|_| {
        index += 1;
        keep[index - 1]
    });
    for op in &mut code.ops {
        if let Some(to) = op.target() {
            *to = moved[*to as usize];
        }
    }
    for target in program
        .tables
        .iter_mut()
        .flat_map(|t| &mut t.actions)
        .flat_map(|a| &mut a.targets)
    {
        *target = moved[*target as usize];
    }
}

fn reached(program: &Program) -> Vec<bool> {
    let code = &program.code;
    let mut reached = vec![false; code.ops.len()];
    let mut pending = vec![
        code.parser,
        code.verify,
        code.ingress,
        code.egress,
        code.update,
    ];
    while let Some(at) = pending.pop() {
        let Some(mark) = reached.get_mut(at as usize).filter(|m| !**m) else {
            continue;
        };
        *mark = true;
        let op = code.ops[at as usize];
        if let Op::Table { table } = op {
            pending.extend(
                program.tables[usize::from(table)]
                    .actions
                    .iter()
                    .flat_map(|a| a.targets),
            );
        }
        pending.extend(op.clone().target().map(|t| *t));
        if !op.is_last() {
            pending.push(at + 1);
        }
    }
    reached
}
