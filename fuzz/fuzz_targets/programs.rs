// SPDX-License-Identifier: Apache-2.0
//! Programs of which some values were changed: refused by name, or they run, as native code and interpreted alike.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use narrows_fuzz::circumstances;
use narrows_fuzz::common::{binary, call, field, fill, hex, program, with_table, Change, Document, CONFORMANCE};
use narrows_fuzz::twins::Twins;
use narrows_pipeline::Program;
use serde_json::{json, Value};

#[derive(Debug, Arbitrary)]
enum Replacement {
    Copy(u16),
    Turn(u8),
    Null,
    Number(u64),
    Small(u8),
    Hex(u128),
    Operation(u8),
    Cut,
}

#[derive(Debug, Arbitrary)]
struct Case {
    /// One of eight is of the large program, which takes long to load.
    which: u8,
    changes: Vec<(u16, Replacement)>,
    value: u128,
    packets: Vec<([u8; 8], Vec<u8>)>,
}

const MOST: usize = 6;
const OPERATIONS: [&str; 24] = [
    "+",
    "-",
    "*",
    "&",
    "|",
    "^",
    "<<",
    ">>",
    "/",
    "%",
    "==",
    "<",
    "~",
    "?",
    "b2d",
    "usat_cast",
    "two_comp_mod",
    "assign",
    "assign_header",
    "add_header",
    "remove_header",
    "register_read",
    "register_write",
    "lookahead",
];

static DOCUMENTS: LazyLock<[Document; 2]> = LazyLock::new(|| {
    let sum = binary("+", field("h", "d"), field("h", "e"));
    let steps = json!([
        call("assign", json!([field("m", "e"), {"type": "expression", "value": sum}])),
        call("clone_ingress_pkt_to_egress", json!([hex(1), hex(1)])),
        call("assign_header", json!([{"type": "header", "value": "g"}, {"type": "header", "value": "h"}])),
        call("count", json!([{"type": "counter_array", "value": "n"}, field("h", "a")])),
        call("register_write", json!([{"type": "register_array", "value": "r"}, field("h", "a"), field("h", "b")])),
    ]);
    let key = json!([{"match_type": "ternary", "target": ["h", "e"], "mask": null, "name": "e"}]);
    let small = with_table(program(steps, json!([])), key, "ternary");
    [Document::new(small), Document::parse(CONFORMANCE)]
});

fn change(replacement: &Replacement) -> Change {
    match replacement {
        Replacement::Copy(place) => Change::Copy(usize::from(*place)),
        Replacement::Turn(bits) => Change::Turn(*bits),
        Replacement::Null => Change::Put(Value::Null),
        Replacement::Number(number) => Change::Put(json!(number)),
        Replacement::Small(number) => Change::Put(json!(number)),
        Replacement::Hex(number) => Change::Put(json!(format!("{number:#x}"))),
        Replacement::Operation(number) => Change::Put(json!(OPERATIONS[usize::from(*number) % OPERATIONS.len()])),
        Replacement::Cut => Change::Put(json!([])),
    }
}

fuzz_target!(|case: Case| {
    let document = &DOCUMENTS[usize::from(case.which % 8 == 7)];
    let changes = case.changes.iter().take(MOST);
    let changes: Vec<_> = changes.map(|(place, replacement)| (usize::from(*place), change(replacement))).collect();
    match Program::load(document.changed(&changes).to_string().as_bytes()) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(program) => {
            let mut twins = Twins::new(Arc::new(program));
            for pipeline in &mut twins.both {
                fill(pipeline, &[case.value, u128::MAX]);
            }
            for (front, frame) in case.packets.iter().take(MOST) {
                let (meta, preparation, port) = circumstances(*front);
                twins.pass(frame, port, &meta, preparation);
            }
        }
    }
});
