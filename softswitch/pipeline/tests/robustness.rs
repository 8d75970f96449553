// SPDX-License-Identifier: Apache-2.0
//! Whatever comes in, as a program or as a packet, nothing panics, and what is not supported is named.

mod common;

use std::sync::{Arc, OnceLock};

use common::{binary, call, field, hex, program, with_table, Change, Document, NARROWS};
use narrows_pipeline::{EgressMeta, PacketPool, Pipeline, Program};
use proptest::prelude::*;
use serde_json::{json, Value};

/// Sends a frame through everything.
fn exercise(pipeline: &mut Pipeline, frame: &[u8]) {
    let mut pool = PacketPool::new(pipeline.program());
    let mut packet = pool.packet(frame);
    pipeline.anticipate(&mut packet, 511, 0);
    let verdict = pipeline.ingress(&mut packet, 511, u64::MAX);
    if verdict.clone.is_some() {
        let mut copy = pool.take(0);
        pipeline.clone_ingress(&packet, &mut copy);
        let _ = pipeline.egress(&mut copy, &EgressMeta::default());
        pipeline.deparse(&mut copy);
    }
    let meta = EgressMeta {
        port: 511,
        epoch: 1,
        enq_qdepth: u32::MAX,
        ..EgressMeta::default()
    };
    let verdict = pipeline.egress(&mut packet, &meta);
    if verdict.clone.is_some() {
        let mut copy = pool.take(0);
        pipeline.clone_egress(&packet, &mut copy, 176);
        let _ = pipeline.egress(&mut copy, &meta);
        pipeline.deparse(&mut copy);
        pool.give(copy);
    }
    pipeline.deparse(&mut packet);
    pool.give(packet);
}

fn replacement() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(json!([])),
        Just(json!({})),
        Just(json!(true)),
        any::<u64>().prop_map(|n| json!(n)),
        (0u64..64).prop_map(|n| json!(n)),
        any::<i32>().prop_map(|n| json!(n)),
        any::<u128>().prop_map(|n| json!(format!("{n:#x}"))),
        "[a-z_.]{0,12}".prop_map(|s| json!(s)),
        prop::sample::select(vec![
            "assign",
            "extract",
            "+",
            ">>",
            "lookahead",
            "start",
            "register_read",
            "ternary"
        ])
        .prop_map(|s| json!(s)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn random_bytes_are_no_program(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Program::load(&bytes).is_err());
    }

    /// A program with one to three values replaced is refused or runs.
    #[test]
    fn mutated_programs_do_not_panic(
        changes in prop::collection::vec((any::<usize>(), replacement().prop_map(Change::Put)), 1..4),
        small in any::<bool>(),
        frame in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let document = if small { Document::new(table_program()) } else { Document::parse(NARROWS) };
        if let Ok(program) = Program::load(document.changed(&changes).to_string().as_bytes()) {
            exercise(&mut Pipeline::new(Arc::new(program), 1), &frame);
        }
    }
}

fn table_program() -> Value {
    let steps = json!([
        call(
            "assign",
            json!([
                field("m", "e"),
                binary("+", field("h", "d"), field("h", "e"))
            ])
        ),
        call("clone_ingress_pkt_to_egress", json!([hex(1), hex(1)])),
        call(
            "assign_header",
            json!([{"type": "header", "value": "g"}, {"type": "header", "value": "h"}])
        ),
    ]);
    let key = json!([{"match_type": "ternary", "target": ["h", "e"], "mask": null, "name": "e"}]);
    with_table(program(steps, json!([])), key, "ternary")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_frame_passes_the_narrows_program(frame in prop::collection::vec(any::<u8>(), 0..300), kind in 0..4usize) {
        static PROGRAM: OnceLock<Arc<Program>> = OnceLock::new();
        let load = || Program::load(NARROWS.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        let program = PROGRAM.get_or_init(|| Arc::new(load())).clone();
        let mut frame = frame;
        // Most frames get an EtherType that the parser knows.
        if let (Some(place), Some(ethertype)) = (frame.get_mut(12..14), [[8, 0], [0x86, 0xdd], [0x81, 0]].get(kind)) {
            place.copy_from_slice(ethertype);
        }
        exercise(&mut Pipeline::new(program, 1), &frame);
    }
}

/// The error of a program, which must name the thing.
fn refusal(root: &Value) -> String {
    Program::load(root.to_string().as_bytes())
        .map_or_else(|e| e.to_string(), |_| "loaded".to_owned())
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let empty = || program(json!([]), json!([]));
    let with = |pointer: &str, value: Value| {
        let mut root = empty();
        match root.pointer_mut(pointer) {
            Some(place) => *place = value,
            None => root[pointer.trim_start_matches('/')] = value,
        }
        refusal(&root)
    };
    let primitive = |op: &str| refusal(&program(json!([call(op, json!([]))]), json!([])));
    assert_eq!(
        primitive("resubmit"),
        "action first, resubmit: the primitive resubmit is not supported"
    );
    assert_eq!(
        primitive("recirculate"),
        "action first, recirculate: the primitive recirculate is not supported"
    );
    assert_eq!(
        primitive("push"),
        "action first, push: the primitive push is not supported"
    );
    assert_eq!(
        primitive("assert"),
        "action first, assert: the primitive assert is not supported"
    );
    assert_eq!(
        with("/meter_arrays", json!([{"name": "m1"}])),
        "m1: a meter is not supported"
    );
    assert_eq!(
        with("/extern_instances", json!([{"name": "x1"}])),
        "x1: an extern is not supported"
    );
    assert_eq!(
        with("/parse_vsets", json!([{"name": "v1"}])),
        "v1: a parser value set is not supported"
    );
    assert_eq!(
        with("/header_unions", json!([{"name": "u1"}])),
        "u1: a header union is not supported"
    );
    assert_eq!(
        with("/header_types/0/fields/4/1", json!("*")),
        "h_t.e: a varbit field is not supported"
    );
    assert_eq!(
        with("/header_types/0/fields/4/1", json!(256)),
        "h_t.e: a field of 256 bits (1 to 128 are) is not supported"
    );
    assert_eq!(
        with("/calculations/0/algo", json!("xxh64")),
        "crc: the hash algorithm xxh64 is not supported"
    );
    assert_eq!(
        with("/register_arrays/0/bitwidth", json!(65)),
        "r: a register of 65 bits (1 to 64 are) is not supported"
    );
    assert_eq!(
        with("/pipelines/0/tables/0/type", json!("indirect")),
        "table t1: the implementation indirect (action profile) is not supported"
    );
    assert_eq!(
        with("/pipelines/0/tables/0/support_timeout", json!(true)),
        "table t1: an idle timeout is not supported"
    );
    assert_eq!(
        with("/pipelines/0/tables/0/direct_meters", json!("m")),
        "table t1: a direct meter is not supported"
    );
    assert_eq!(
        with(
            "/parsers/0/parse_states/0/parser_ops/0/parameters/0/type",
            json!("stack")
        ),
        "parser state start, extract: extraction to a stack is not supported"
    );
    assert_eq!(
        with(
            "/parsers/0/parse_states/0/parser_ops/0/op",
            json!("extract_VL")
        ),
        "parser state start, extract_VL: the parser operation extract_VL is not supported"
    );
    assert_eq!(
        with("/__meta__/version", json!([3, 0])),
        "__meta__: BMv2 JSON version 3 (2 is) is not supported"
    );
    let wide = call(
        "assign",
        json!([
            field("m", "e"),
            binary(">>", binary("+", field("h", "e"), field("h", "e")), hex(1))
        ]),
    );
    let refused = refusal(&program(json!([wide]), json!([])));
    assert_eq!(
        refused,
        "action first, assign: an expression wider than 128 bits is not supported"
    );
    let dereference = binary("dereference_header_stack", hex(0), hex(0));
    let refused = refusal(&program(
        json!([call("assign", json!([field("m", "a"), dereference]))]),
        json!([]),
    ));
    assert_eq!(
        refused,
        "action first, assign: the operator dereference_header_stack is not supported"
    );
}

#[test]
fn control_flow_in_circles_is_refused() {
    let mut root = table_program();
    root["pipelines"][0]["tables"][1]["next_tables"]["set"] = json!("t1");
    assert_eq!(
        refusal(&root),
        "the program is malformed: ingress: control flow goes in circles"
    );
}

#[test]
fn a_parser_that_never_ends_is_stopped() {
    let mut root = program(json!([]), json!([]));
    let state = &mut root["parsers"][0]["parse_states"][0];
    state["parser_ops"] = json!([]);
    state["transitions"][0]["next_state"] = json!("start");
    let loaded = Program::load(root.to_string().as_bytes());
    let mut pipeline = Pipeline::new(Arc::new(loaded.unwrap_or_else(|e| panic!("{e}"))), 1);
    assert_eq!(
        common::run(&mut pipeline, &[1, 2, 3]),
        Some((1, vec![1, 2, 3]))
    );
}

/// Constant entries with fewer key fields than their table has.
#[test]
fn constant_entries_of_another_shape_are_refused() -> Result<(), serde_json::Error> {
    let mut root: Value = serde_json::from_str(common::NARROWS)?;
    let mut changed = 0;
    for pipeline in root["pipelines"].as_array_mut().into_iter().flatten() {
        for table in pipeline["tables"].as_array_mut().into_iter().flatten() {
            for entry in table["entries"].as_array_mut().into_iter().flatten() {
                entry["match_key"] = json!([]);
                changed += 1;
            }
        }
    }
    assert!(changed > 0);
    assert!(Program::load(root.to_string().as_bytes()).is_err());
    Ok(())
}
