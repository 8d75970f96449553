// SPDX-License-Identifier: Apache-2.0
//! Frames on the ports of the bottleneck program: native code does what the interpreter does.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use narrows_fuzz::common::NARROWS;
use narrows_fuzz::traffic::configure;
use narrows_fuzz::twins::Twins;
use narrows_fuzz::{circumstances, frames};
use narrows_pipeline::Program;

static PROGRAM: LazyLock<Arc<Program>> =
    LazyLock::new(|| Arc::new(Program::load(NARROWS.as_bytes()).expect("it is ours")));

fuzz_target!(|bytes: &[u8]| {
    let mut twins = Twins::new(Arc::clone(&PROGRAM));
    configure(&mut twins);
    for (front, frame) in frames(bytes) {
        let (meta, preparation, port) = circumstances(*front);
        if !frame.is_empty() {
            twins.pass(frame, port, &meta, preparation);
        }
    }
});
