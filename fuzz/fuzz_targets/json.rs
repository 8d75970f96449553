// SPDX-License-Identifier: Apache-2.0
//! Text that is to be a program: refused by name, or it runs.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use narrows_fuzz::preparation::Preparation;
use narrows_fuzz::twins::Twins;
use narrows_pipeline::{EgressMeta, Program};

fuzz_target!(|text: &[u8]| {
    if let Ok(program) = Program::load(text) {
        let mut twins = Twins::new(Arc::new(program));
        twins.pass(&[0x55; 60], 1, &EgressMeta::default(), Preparation::Nothing);
    }
});
