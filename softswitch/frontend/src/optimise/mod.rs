// SPDX-License-Identifier: Apache-2.0
//! Makes programs shorter: p4c copies every argument, field and constant through variables of its own.

mod compact;
mod propagate;
mod stores;

use narrows_program::calculation::Piece;
use narrows_program::field::Field;
use narrows_program::liveness::{analyse, Effect, Ends};
use narrows_program::op::{Op, Use};
use narrows_program::Program;

/// Analysis takes instructions times slots: beyond this the program is left unchanged.
const MAX_WORK: usize = 1 << 26;
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
        propagate::propagate(program);
        remove_dead(program, kept);
        stores::merge_stores(program);
        fuse_registers(program);
        compact::compact(program);
    }
    mark_repeated(program);
}

/// A hash over the same input as the one right before it need not collect that input again.
fn mark_repeated(program: &mut Program) {
    let leaders = leaders(program);
    for (at, leader) in leaders.into_iter().enumerate().take(program.code.ops.len()).skip(1) {
        if let (Op::Hash { d, calculation: first, .. }, Op::Hash { calculation: second, .. }, false) =
            (program.code.ops[at - 1], program.code.ops[at], leader)
        {
            let [first, second] = [first, second].map(usize::from);
            let pieces = &program.calculations[first].pieces;
            let changed = pieces.iter().any(|p| matches!(p, Piece::Slot { slot, .. } if *slot == d));
            // A single run of header bytes is not collected at all.
            let collected = !matches!(pieces[..], [Piece::Header { .. }]);
            let used_once = count_uses(program, second) == 1;
            if collected && used_once && !changed && first != second && *pieces == program.calculations[second].pieces {
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
    for start in code.starts() {
        leaders[start as usize] = true;
    }
    for op in &code.ops {
        if let Some(to) = op.clone().target() {
            leaders[*to as usize] = true;
        }
    }
    for target in program.tables.iter().flat_map(|t| &t.actions).flat_map(|a| a.targets) {
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

/// What is not read need not be computed.
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
            let mut needed = Effect::of(op, program).writes.iter().any(|&s| live.contains(s));
            op.clone().visit(|&mut slot, how| needed |= how == Use::MayWrite && live.contains(slot));
            if (only_computes || only_reads) && !needed {
                dead.push(at as usize);
            }
        }
    }
    for at in dead {
        program.code.ops[at] = NOTHING;
    }
}

/// Read, add, write back.
fn fuse_registers(program: &mut Program) {
    let leaders = leaders(program);
    let ops = &mut program.code.ops;
    for at in 0..ops.len().saturating_sub(2) {
        if leaders[at + 1] || leaders[at + 2] {
            continue;
        }
        if let [Op::RegisterRead { d, register, index, bits }, Op::Add { d: sum, a, b, bits: cut }, Op::RegisterWrite { register: r, index: i, s }] =
            ops[at..at + 3]
        {
            let increment = if a == d { b } else { a };
            let fits = (a == d) != (b == d) && sum == d && s == d && bits == cut && index != d;
            if fits && (r, i) == (register, index) {
                ops[at] = Op::RegisterAdd { d, register, index, s: increment, bits };
                ops[at + 1] = NOTHING;
                ops[at + 2] = NOTHING;
            }
        }
    }
}
