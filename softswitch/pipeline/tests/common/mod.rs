// SPDX-License-Identifier: Apache-2.0
//! Small programs in BMv2 JSON for tests. Not every test uses all of it.

#![allow(dead_code)]

use std::sync::Arc;

use narrows_pipeline::{
    ActionCall, CounterValue, EgressMeta, Entry, Forward, KeyMatch, MatchKind, PacketPool, Pipeline, Program, TableId,
    TableInfo,
};
use serde_json::{json, Value};

/// The compiled bottleneck program.
pub const NARROWS: &str = include_str!("../../../../p4src/compiled/v1model/narrows.json");

/// A program that uses everything that is supported.
pub const CONFORMANCE: &str = include_str!("../../../../tests/softswitch/p4/compiled/conformance.json");

/// A change of one value that often leaves a program that loads, but another one.
#[derive(Debug, Clone)]
pub enum Change {
    /// Another place's value of the same kind.
    Copy(usize),
    /// A number near by, or a bit turned.
    Turn(u8),
    /// Something else.
    Put(Value),
}

/// A program in JSON, and the paths to all of its values; without its references to the source, which nothing reads.
pub struct Document {
    pub root: Value,
    pub places: Vec<String>,
}

impl Document {
    pub fn new(mut root: Value) -> Self {
        strip(&mut root);
        let mut places = Vec::new();
        walk(&root, String::new(), &mut places);
        Self { root, places }
    }

    pub fn parse(text: &str) -> Self {
        Self::new(serde_json::from_str(text).unwrap_or_default())
    }

    /// The program with some values changed, each at a place by number, modulo their count.
    pub fn changed(&self, changes: &[(usize, Change)]) -> Value {
        let mut root = self.root.clone();
        for (place, change) in changes {
            let place = &self.places[place % self.places.len()];
            let Some(old) = root.pointer_mut(place) else {
                continue;
            };
            *old = match change {
                Change::Put(value) => value.clone(),
                Change::Turn(bits) => match &*old {
                    Value::Number(number) => {
                        json!(number.as_u64().unwrap_or(0) ^ u64::from(*bits % 16))
                    }
                    Value::Bool(bool) => json!(!bool),
                    Value::String(text) if text.starts_with("0x") => json!(format!("0x{bits:02x}")),
                    _ => continue,
                },
                Change::Copy(other) => {
                    let same: Vec<&Value> = self
                        .places
                        .iter()
                        .filter_map(|place| self.root.pointer(place))
                        .filter(|value| std::mem::discriminant(*value) == std::mem::discriminant(old))
                        .collect();
                    if same.is_empty() {
                        continue;
                    }
                    same[other % same.len()].clone()
                }
            };
        }
        root
    }
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("source_info");
            map.values_mut().for_each(strip);
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}

fn walk(value: &Value, at: String, all: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(k, v)| walk(v, format!("{at}/{k}"), all)),
        Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| walk(v, format!("{at}/{i}"), all)),
        _ => {}
    }
    all.push(at);
}

/// A program with header `h` (`a` 8, `b` 16, `c` 32, `d` 64, `e` 128 bits), header `g` of the same type, header `small`
/// (`x` 4, `y` 12 bits), metadata `m` with the same fields as `h`, and v1model's standard metadata. It parses `h`,
/// sends everything to port 1, runs `ingress` and `egress` (primitives) and emits `small`, `g`, `h`.
pub fn program(ingress: Value, egress: Value) -> Value {
    let fields = json!([["a", 8, false], ["b", 16, false], ["c", 32, false], ["d", 64, false], ["e", 128, false]]);
    let standard = json!([
        ["ingress_port", 9, false],
        ["egress_spec", 9, false],
        ["egress_port", 9, false],
        ["instance_type", 32, false],
        ["packet_length", 32, false],
        ["mcast_grp", 16, false],
        ["parser_error", 32, false],
        ["checksum_error", 1, false],
        ["priority", 3, false],
        ["ingress_global_timestamp", 48, false],
        ["_padding", 4, false]
    ]);
    let send = json!({"op": "assign", "parameters": [field("standard_metadata", "egress_spec"), hex(1)]});
    let mut first = vec![send];
    first.extend(ingress.as_array().cloned().unwrap_or_default());
    json!({
        "__meta__": {"version": [2, 23]},
        "header_types": [
            {"name": "h_t", "id": 0, "fields": fields},
            {"name": "small_t", "id": 1, "fields": [["x", 4, false], ["y", 12, false]]},
            {"name": "standard_t", "id": 2, "fields": standard},
            {"name": "signed_t", "id": 3, "fields": [["i", 8, true], ["_padding", 8, false]]}
        ],
        "headers": [
            {"name": "h", "id": 0, "header_type": "h_t", "metadata": false},
            {"name": "g", "id": 1, "header_type": "h_t", "metadata": false},
            {"name": "small", "id": 2, "header_type": "small_t", "metadata": false},
            {"name": "m", "id": 3, "header_type": "h_t", "metadata": true},
            {"name": "standard_metadata", "id": 4, "header_type": "standard_t", "metadata": true},
            {"name": "s", "id": 5, "header_type": "signed_t", "metadata": true}
        ],
        "header_stacks": [],
        "field_lists": [{"id": 1, "name": "kept", "elements": [field("m", "c"), field("m", "e")]}],
        "errors": [["NoError", 0], ["PacketTooShort", 1]],
        "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [{
            "name": "start", "id": 0,
            "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": "h"}]}],
            "transitions": [{"type": "default", "value": null, "mask": null, "next_state": null}],
            "transition_key": []
        }]}],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["small", "g", "h"]}],
        "register_arrays": [{"name": "r", "id": 0, "size": 4, "bitwidth": 16}],
        "counter_arrays": [{"name": "n", "id": 0, "size": 4, "is_direct": false}],
        "calculations": [
            {"name": "crc", "id": 0, "algo": "crc32", "input": [field("h", "a"), field("h", "b"), field("m", "c")]},
            {"name": "sum", "id": 1, "algo": "csum16", "input": [field("h", "a"), field("h", "c")]}
        ],
        "learn_lists": [{"id": 1, "name": "learned", "elements": [field("h", "a"), field("h", "e"), field("m", "c")]}],
        "actions": [
            {"name": "first", "id": 0, "runtime_data": [], "primitives": first},
            {"name": "second", "id": 1, "runtime_data": [], "primitives": egress},
            {"name": "set", "id": 2, "runtime_data": [{"name": "port", "bitwidth": 9}, {"name": "wide", "bitwidth": 128}],
             "primitives": [
                {"op": "assign", "parameters": [field("standard_metadata", "egress_spec"), {"type": "runtime_data", "value": 0}]},
                {"op": "assign", "parameters": [field("h", "e"), {"type": "runtime_data", "value": 1}]}]},
            {"name": "nothing", "id": 3, "runtime_data": [], "primitives": []}
        ],
        "pipelines": [
            {"name": "ingress", "id": 0, "init_table": "t1", "tables": [table("t1", 0, "first")], "conditionals": []},
            {"name": "egress", "id": 1, "init_table": "t2", "tables": [table("t2", 1, "second")], "conditionals": []}
        ],
        "checksums": [],
        "field_aliases": [
            ["intrinsic_metadata.mcast_grp", ["standard_metadata", "mcast_grp"]],
            ["intrinsic_metadata.ingress_global_timestamp", ["standard_metadata", "ingress_global_timestamp"]]
        ]
    })
}

fn table(name: &str, action: u32, action_name: &str) -> Value {
    json!({
        "name": name, "id": action, "key": [], "match_type": "exact", "type": "simple", "max_size": 1,
        "with_counters": false, "support_timeout": false, "direct_meters": null,
        "action_ids": [action], "actions": [action_name], "base_default_next": null, "next_tables": {action_name: null},
        "default_entry": {"action_id": action, "action_const": true, "action_data": [], "action_entry_const": true}
    })
}

/// Puts a table `t` with the given key in front of ingress; its actions are `set` and (default) `nothing`.
pub fn with_table(mut root: Value, key: Value, match_type: &str) -> Value {
    let table = json!({
        "name": "t", "id": 7, "key": key, "match_type": match_type, "type": "simple", "max_size": 1024,
        "with_counters": true, "support_timeout": false, "direct_meters": null,
        "action_ids": [2, 3], "actions": ["set", "nothing"], "base_default_next": null,
        "next_tables": {"set": null, "nothing": null},
        "default_entry": {"action_id": 3, "action_const": false, "action_data": [], "action_entry_const": false}
    });
    let ingress = &mut root["pipelines"][0];
    ingress["tables"][0]["next_tables"]["first"] = json!("t");
    if let Some(tables) = ingress["tables"].as_array_mut() {
        tables.push(table);
    }
    root
}

/// A small program with a table, a wide sum, and a copy made at ingress.
pub fn table_program() -> Value {
    let steps = json!([
        call("assign", json!([field("m", "e"), binary("+", field("h", "d"), field("h", "e"))])),
        call("clone_ingress_pkt_to_egress", json!([hex(1), hex(1)])),
        call("assign_header", json!([{"type": "header", "value": "g"}, {"type": "header", "value": "h"}])),
    ]);
    let key = json!([{"match_type": "ternary", "target": ["h", "e"], "mask": null, "name": "e"}]);
    with_table(program(steps, json!([])), key, "ternary")
}

/// The table whose name ends like this.
pub fn table_named<'p>(program: &'p Program, suffix: &str) -> &'p TableInfo {
    let found = program.tables().iter().find(|t| t.name.ends_with(suffix));
    found.unwrap_or_else(|| panic!("no table {suffix}"))
}

/// Inserts an entry; table and action by the ends of their names.
pub fn insert(pipeline: &mut Pipeline, name: &str, key: Vec<KeyMatch>, priority: i32, action: &str, params: Vec<u128>) {
    let program = Arc::clone(pipeline.program());
    let table = table_named(&program, name);
    let found = table.actions.iter().find(|a| a.name.ends_with(action));
    let action = found.map_or_else(|| panic!("no action {action}"), |a| a.name.clone());
    let action = ActionCall { action, params };
    let entry = Entry { key, priority, action };
    assert_eq!(pipeline.table_insert(table.id, &entry), Ok(()));
}

/// All entries of a table in the order of insertion.
pub fn entries(pipeline: &Pipeline, table: TableId) -> Vec<(Entry, CounterValue)> {
    let part = pipeline.table_entries_from(table, 0, usize::MAX);
    let mut found = part.unwrap_or_default().entries;
    found.sort_by_key(|(sequence, ..)| *sequence);
    found.into_iter().map(|(_, entry, state)| (entry, state.counter)).collect()
}

/// An entry in each table that takes one, for any key or a key of ones; wrong ones are refused.
pub fn fill(pipeline: &mut Pipeline, values: &[u128]) {
    let program = Arc::clone(pipeline.program());
    for (number, table) in program.tables().iter().enumerate() {
        let value = values[number % values.len()];
        let width = |bits: u32| value & 1u128.checked_shl(bits).map_or(u128::MAX, |top| top - 1);
        let key = table.keys.iter().map(|key| match key.kind {
            MatchKind::Exact => KeyMatch::Exact(0),
            MatchKind::Lpm => KeyMatch::Lpm { value: 0, prefix_len: 0 },
            MatchKind::Ternary => KeyMatch::Ternary { value: 0, mask: 0 },
            MatchKind::Range => KeyMatch::Range { low: 0, high: width(key.width) },
        });
        let key: Vec<KeyMatch> = key.collect();
        for (place, action) in table.actions.iter().enumerate() {
            let params = action.params.iter().map(|(_, bits)| width(*bits)).collect();
            let action = ActionCall { action: action.name.clone(), params };
            let entry = Entry { key: key.clone(), priority: place as i32 + 1, action };
            let _ = pipeline.table_insert(table.id, &entry);
            let _ = pipeline.table_set_default(table.id, Some(&entry.action));
        }
    }
}

pub fn field(header: &str, name: &str) -> Value {
    json!({"type": "field", "value": [header, name]})
}

pub fn hex(value: u128) -> Value {
    json!({"type": "hexstr", "value": format!("{value:#x}")})
}

pub fn call(op: &str, parameters: Value) -> Value {
    json!({"op": op, "parameters": parameters})
}

/// `left op right` as an expression.
pub fn binary(op: &str, left: Value, right: Value) -> Value {
    json!({"type": "expression", "value": {"op": op, "left": left, "right": right}})
}

pub fn load(root: &Value) -> Pipeline {
    match Program::load(root.to_string().as_bytes()) {
        Ok(program) => Pipeline::new(Arc::new(program), 1),
        Err(error) => panic!("{error}"),
    }
}

/// A frame: `h` with these values, then two bytes of payload.
pub fn frame(a: u8, b: u16, c: u32, d: u64, e: u128) -> Vec<u8> {
    let mut bytes = vec![a];
    bytes.extend(b.to_be_bytes());
    bytes.extend(c.to_be_bytes());
    bytes.extend(d.to_be_bytes());
    bytes.extend(e.to_be_bytes());
    bytes.extend([0xca, 0xfe]);
    bytes
}

/// What leaves for a frame that came in at port 3: port and bytes, or nothing.
pub fn run(pipeline: &mut Pipeline, frame: &[u8]) -> Option<(u16, Vec<u8>)> {
    let mut pool = PacketPool::new(pipeline.program());
    let mut packet = pool.packet(frame);
    let Forward::Unicast { port, .. } = pipeline.ingress(&mut packet, 3, 0).forward else {
        return None;
    };
    let verdict = pipeline.egress(&mut packet, &EgressMeta { port, ..EgressMeta::default() });
    verdict.transmit.then(|| (port, pipeline.deparse(&mut packet).to_vec()))
}
