// SPDX-License-Identifier: Apache-2.0
//! Instructions that do nothing or are never reached.

use narrows_program::op::Op;
use narrows_program::Program;

use super::NOTHING;

/// Removes what does nothing or is never reached.
pub(super) fn compact(program: &mut Program) {
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
    let mut keep: Vec<bool> = code.ops.iter().zip(&reached).map(|(op, &r)| r && *op != NOTHING).collect();
    // The last instruction of each part stays, so that no part is empty.
    for limit in [code.verify, code.ingress, code.egress, code.update, code.ops.len() as u32] {
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
    for start in [&mut code.parser, &mut code.verify, &mut code.ingress, &mut code.egress, &mut code.update] {
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
    for target in program.tables.iter_mut().flat_map(|t| &mut t.actions).flat_map(|a| &mut a.targets) {
        *target = moved[*target as usize];
    }
}

fn reached(program: &Program) -> Vec<bool> {
    let code = &program.code;
    let mut reached = vec![false; code.ops.len()];
    let mut pending = code.starts().to_vec();
    while let Some(at) = pending.pop() {
        let Some(mark) = reached.get_mut(at as usize).filter(|m| !**m) else {
            continue;
        };
        *mark = true;
        let op = code.ops[at as usize];
        pending.extend(program.targets(&op));
        if !op.is_last() {
            pending.push(at + 1);
        }
    }
    reached
}
