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
    for op in ["assign_union", "assign_header_union_stack"] {
        let refused = refusal(&program(json!([call(op, json!([]))]), json!([])));
        assert_eq!(refused, format!("action first, {op}: the primitive {op} is not supported"));
    }
    let table = "/pipelines/0/tables/0";
    let state = "/parsers/0/parse_states/0/parser_ops/0";
    for (place, value, what) in [
        ("/extern_instances".into(), json!([{"name": "x1"}]), "x1: an extern"),
        ("/header_types/0/fields/4/1".into(), json!(2049), "h_t.e: a field of 2049 bits (1 to 2048 are)"),
        ("/calculations/0/algo".into(), json!("xxh64"), "crc: the hash algorithm xxh64"),
        ("/register_arrays/0/bitwidth".into(), json!(2049), "r: a register of 2049 bits (1 to 2048 are)"),
        (format!("{table}/type"), json!("indirect_xy"), "table t1: the implementation indirect_xy"),
        (format!("{state}/parameters/0/type"), json!("union"), "parser state start, extract: extraction to a union"),
        (
            format!("{state}/op"),
            json!("extract_all"),
            "parser state start, extract_all: the parser operation extract_all",
        ),
        ("/__meta__/version".into(), json!([3, 0]), "__meta__: BMv2 JSON version 3 (2 is)"),
    ] {
        assert_eq!(with(&place, value), format!("{what} is not supported"));
    }
    let wide =
        call("assign", json!([field("m", "e"), binary(">>", binary("+", field("h", "e"), field("h", "e")), hex(1))]));
    let refused = refusal(&program(json!([wide]), json!([])));
    assert_eq!(refused, "action first, assign: an expression wider than 128 bits is not supported");
    let mut with_varbit = program(json!([call("assign", json!([field("s", "i"), field("h", "e")]))]), json!([]));
    with_varbit["header_types"][0]["fields"][4][1] = json!("*");
    assert_eq!(refusal(&with_varbit), "the program is malformed: h_t: `max_length` is missing");
    with_varbit["header_types"][0]["max_length"] = json!(64);
    assert_eq!(refusal(&with_varbit), "m: metadata with a varbit among other fields is not supported");
    let dereference = binary("dereference_header_stack", hex(0), hex(0));
    let refused = refusal(&program(json!([call("assign", json!([field("m", "a"), dereference]))]), json!([])));
    assert_eq!(refused, "action first, assign: the operator dereference_header_stack is not supported");
}

/// Members of a value set are compared in one step, as exact values of the fields of one select.
#[test]
fn value_sets_that_cannot_be_asked_are_refused() {
    let mut root = program(json!([]), json!([]));
    root["parse_vsets"] = json!([{"name": "v", "id": 0, "max_size": 2, "compressed_bitwidth": 8}]);
    let state = |names: &[&str], mask: Value| {
        let key: Vec<Value> = names.iter().map(|name| field("h", name)).collect();
        let asked = json!({"type": "parse_vset", "value": "v", "mask": mask, "next_state": null});
        json!({"name": names.concat(), "id": 0, "parser_ops": [], "transition_key": key, "transitions": [asked]})
    };
    let mut with = |states: Value, meaning: &str| {
        root["parsers"][0]["init_state"] = states[0]["name"].clone();
        root["parsers"][0]["parse_states"] = states;
        assert_eq!(refusal(&root), meaning);
    };
    with(json!([state(&["d"], Value::Null)]), "loaded");
    with(json!([state(&["a", "d"], Value::Null)]), "v: a value set of 9 bytes (8 are) is not supported");
    with(json!([state(&["a"], hex(15))]), "parser state a: a masked value set is not supported");
    let (mut first, second) = (state(&["a"], Value::Null), state(&["b"], Value::Null));
    first["transitions"][0]["next_state"] = json!("b");
    with(json!([first, second]), "v: a value set in selects of different fields is not supported");
    let mut unknown = state(&["a"], Value::Null);
    unknown["transitions"][0]["value"] = json!("w");
    with(json!([unknown]), "the program is malformed: parser state a: no value set w");
}

/// The meter of a table is the one that is bound to it: without one, no packet would have a color.
#[test]
fn a_direct_meter_that_is_not_there_is_refused() {
    let mut root = program(json!([]), json!([]));
    root["pipelines"][0]["tables"][0]["direct_meters"] = json!("m");
    let missing = "the program is malformed: table t1: no meter in `meter_arrays` is bound to it";
    assert_eq!(refusal(&root), missing);
    let meter = |table: &str| {
        let target = json!(["m", "a"]);
        json!([{"name": "m", "id": 0, "is_direct": true, "type": "bytes", "binding": table, "result_target": target}])
    };
    root["meter_arrays"] = meter("t2");
    assert_eq!(refusal(&root), missing);
    root["meter_arrays"] = meter("t1");
    assert_eq!(refusal(&root), "loaded");
}

/// What the switch takes of a program's fields is not cut: a priority of 256 is not 0.
#[test]
fn fields_that_the_switch_could_only_take_in_part_are_refused() {
    for (name, wide, bits, most) in [
        ("standard_metadata.egress_spec", "c", 32, 16),
        ("intrinsic_metadata.mcast_grp", "c", 32, 16),
        ("intrinsic_metadata.priority", "b", 16, 8),
        ("narrows.flow", "d", 64, 32),
    ] {
        let mut root = program(json!([]), json!([]));
        root["field_aliases"] = json!([[name, ["m", wide]]]);
        let what = format!("a field of {bits} bits (up to {most} are) as {name}");
        assert_eq!(refusal(&root), format!("field_aliases: {what} is not supported"));
    }
}

/// As BMv2 does with one that was made by hand; what is there has to be right.
#[test]
fn a_program_need_not_say_its_version() {
    let mut root = program(json!([]), json!([]));
    root["__meta__"]["version"] = json!("2");
    assert_eq!(refusal(&root), "the program is malformed: __meta__: `version` is not a list of numbers");
    for meta in [json!({"compiler": "by hand"}), Value::Null] {
        root["__meta__"] = meta;
        assert_eq!(refusal(&root), "loaded");
    }
    root.as_object_mut().expect("object").remove("__meta__");
    assert_eq!(refusal(&root), "loaded");
}

/// Keys of up to 512 bits load, however their fields divide them: nine of 48 bits and fifteen of 34 leave much of words unused.
#[test]
fn long_keys_load_however_their_fields_divide_them() {
    let keyed = |count: usize, width: u32| {
        let mut root = program(json!([]), json!([]));
        let name = |number: usize| format!("k{number}");
        let fields: Vec<Value> = (0..count).map(|number| json!([name(number), width, false])).collect();
        root["header_types"].as_array_mut().expect("types").push(json!({"name": "key_t", "id": 9, "fields": fields}));
        let instance = json!({"name": "key", "id": 9, "header_type": "key_t", "metadata": true});
        root["headers"].as_array_mut().expect("headers").push(instance);
        let part = |number| json!({"match_type": "exact", "target": ["key", name(number)], "mask": null, "name": name(number)});
        common::with_table(root, (0..count).map(part).collect(), "exact")
    };
    for (count, width) in [(9, 48), (15, 34), (8, 64), (4, 128), (512, 1), (10, 51)] {
        assert_eq!(refusal(&keyed(count, width)), "loaded", "{count} of {width} bits");
    }
    for (count, width) in [(10, 52), (16, 33), (9, 64), (513, 1)] {
        let bits = count as u32 * width;
        assert_eq!(refusal(&keyed(count, width)), format!("table t: a key of {bits} bits (512 are) is not supported"));
    }
    // And match by all of their fields.
    let mut pipeline = common::load(&keyed(9, 48));
    let table = common::table_named(pipeline.program(), "t").id;
    let entry = |last: u128| narrows_pipeline::Entry {
        key: (0..9).map(|number| narrows_pipeline::KeyMatch::Exact(if number == 8 { last } else { 0 })).collect(),
        priority: 0,
        action: narrows_pipeline::ActionCall { action: "set".into(), params: vec![2, 7] },
    };
    let out = |pipeline: &mut Pipeline| common::run(pipeline, &common::frame(0, 0, 0, 0, 0)).expect("leaves").0;
    assert_eq!(pipeline.table_insert(table, &entry(1)), Ok(()));
    assert_eq!(out(&mut pipeline), 1);
    assert_eq!(pipeline.table_insert(table, &entry(0)), Ok(()));
    assert_eq!(out(&mut pipeline), 2);
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
