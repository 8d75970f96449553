// SPDX-License-Identifier: Apache-2.0
//! The working memory of a pipeline.

use narrows_program::Program;

/// Working memory of a pipeline, indexed by slots: any slot number is within it.
pub type Frame = [u64; 65536];

/// The fields that a clone preserves, in the order of the program's live list; 0 for the others.
pub(crate) fn preserve(program: &Program, frame: &Frame, list: u16, kept: &mut Vec<u64>) {
    kept.clear();
    kept.resize(program.live.len(), 0);
    for &(position, slot) in program.kept(list) {
        if let Some(kept) = kept.get_mut(position) {
            *kept = frame[usize::from(slot)];
        }
    }
}
