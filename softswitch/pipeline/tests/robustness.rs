// SPDX-License-Identifier: Apache-2.0
//! What is not supported is refused by name.

mod common;

use std::sync::Arc;

use common::{binary, call, field, hex, program};
use narrows_pipeline::{Pipeline, Program};
use serde_json::{json, Value};

/// The error of a program, which must name the thing.
fn refusal(root: &Value) -> String {
    Program::load(root.to_string().as_bytes()).map_or_else(|e| e.to_string(), |_| "loaded".to_owned())
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let with = |pointer: &str, value: Value| {
        let mut root = program(json!([]), json!([]));
        match root.pointer_mut(pointer) {
            Some(place) => *place = value,
            None => root[pointer.trim_start_matches('/')] = value,
        }
        refusal(&root)
    };
    for op in ["resubmit", "recirculate", "push", "assert"] {
        let refused = refusal(&program(json!([call(op, json!([]))]), json!([])));
        assert_eq!(refused, format!("action first, {op}: the primitive {op} is not supported"));
    }
    let table = "/pipelines/0/tables/0";
    let state = "/parsers/0/parse_states/0/parser_ops/0";
    for (place, value, what) in [
        ("/meter_arrays".into(), json!([{"name": "m1"}]), "m1: a meter"),
        ("/extern_instances".into(), json!([{"name": "x1"}]), "x1: an extern"),
        ("/parse_vsets".into(), json!([{"name": "v1"}]), "v1: a parser value set"),
        ("/header_unions".into(), json!([{"name": "u1"}]), "u1: a header union"),
        ("/header_types/0/fields/4/1".into(), json!("*"), "h_t.e: a varbit field"),
        ("/header_types/0/fields/4/1".into(), json!(256), "h_t.e: a field of 256 bits (1 to 128 are)"),
        ("/calculations/0/algo".into(), json!("xxh64"), "crc: the hash algorithm xxh64"),
        ("/register_arrays/0/bitwidth".into(), json!(65), "r: a register of 65 bits (1 to 64 are)"),
        (format!("{table}/type"), json!("indirect"), "table t1: the implementation indirect (action profile)"),
        (format!("{table}/support_timeout"), json!(true), "table t1: an idle timeout"),
        (format!("{table}/direct_meters"), json!("m"), "table t1: a direct meter"),
        (format!("{state}/parameters/0/type"), json!("stack"), "parser state start, extract: extraction to a stack"),
        (format!("{state}/op"), json!("extract_VL"), "parser state start, extract_VL: the parser operation extract_VL"),
        ("/__meta__/version".into(), json!([3, 0]), "__meta__: BMv2 JSON version 3 (2 is)"),
    ] {
        assert_eq!(with(&place, value), format!("{what} is not supported"));
    }
    let wide =
        call("assign", json!([field("m", "e"), binary(">>", binary("+", field("h", "e"), field("h", "e")), hex(1))]));
    let refused = refusal(&program(json!([wide]), json!([])));
    assert_eq!(refused, "action first, assign: an expression wider than 128 bits is not supported");
    let dereference = binary("dereference_header_stack", hex(0), hex(0));
    let refused = refusal(&program(json!([call("assign", json!([field("m", "a"), dereference]))]), json!([])));
    assert_eq!(refused, "action first, assign: the operator dereference_header_stack is not supported");
}

#[test]
fn control_flow_in_circles_is_refused() {
    let mut root = common::table_program();
    root["pipelines"][0]["tables"][1]["next_tables"]["set"] = json!("t1");
    assert_eq!(refusal(&root), "the program is malformed: ingress: control flow goes in circles");
}

#[test]
fn a_parser_that_never_ends_is_stopped() {
    let mut root = program(json!([]), json!([]));
    let state = &mut root["parsers"][0]["parse_states"][0];
    state["parser_ops"] = json!([]);
    state["transitions"][0]["next_state"] = json!("start");
    let loaded = Program::load(root.to_string().as_bytes());
    let mut pipeline = Pipeline::new(Arc::new(loaded.unwrap_or_else(|e| panic!("{e}"))), 1);
    assert_eq!(common::run(&mut pipeline, &[1, 2, 3]), Some((1, vec![1, 2, 3])));
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
