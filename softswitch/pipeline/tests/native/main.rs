// SPDX-License-Identifier: Apache-2.0
//! Native code does what the interpreter does: the same packets, verdicts, registers, counters, digests and clones.

#[path = "../common/mod.rs"]
mod common;
mod preparation;
mod traffic;
mod twins;

use std::sync::{Arc, OnceLock};

use common::{binary, call, field, hex, program, with_table, NARROWS};
use narrows_pipeline::{ActionCall, EgressMeta, Entry, KeyMatch, PacketPool, Program};
use preparation::{preparation, Preparation};
use proptest::prelude::*;
use serde_json::{json, Value};
use traffic::{configure, metadata, traffic};
use twins::Twins;

/// Metadata of the random programs, and what the architecture gives.
const WATCHED: [&str; 7] =
    ["m.a", "m.b", "m.c", "m.d", "s.i", "standard_metadata.packet_length", "standard_metadata.instance_type"];

fn load(json: &[u8]) -> Program {
    let program = Program::load(json).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(program.interpreted(), None, "there is native code");
    program
}

fn twins(root: &Value) -> Twins {
    Twins::new(Arc::new(load(root.to_string().as_bytes())))
}

fn narrows() -> Arc<Program> {
    static PROGRAM: OnceLock<Arc<Program>> = OnceLock::new();
    PROGRAM.get_or_init(|| Arc::new(load(NARROWS.as_bytes()))).clone()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn narrows_is_the_same(packets in prop::collection::vec((traffic(), 0u16..4, metadata(), preparation()), 1..60)) {
        let mut twins = Twins::new(narrows());
        for (number, (frame, port, meta, preparation)) in packets.iter().enumerate() {
            if number == 2 {
                // Tables change between packets.
                configure(&mut twins);
            }
            twins.pass(frame, *port, meta, *preparation);
        }
        twins.compare();
    }
}

/// A field to read or write.
fn any_field() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        ("h", "a"),
        ("h", "b"),
        ("h", "c"),
        ("h", "d"),
        ("h", "e"),
        ("g", "a"),
        ("g", "b"),
        ("g", "d"),
        ("g", "e"),
        ("small", "x"),
        ("small", "y"),
        ("m", "a"),
        ("m", "b"),
        ("m", "c"),
        ("m", "d"),
        ("m", "e"),
        ("s", "i"),
        ("standard_metadata", "packet_length"),
        ("standard_metadata", "ingress_port"),
        ("standard_metadata", "parser_error"),
        ("standard_metadata", "instance_type"),
        ("standard_metadata", "ingress_global_timestamp"),
    ])
    .prop_map(|(header, name)| field(header, name))
}

fn expression() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => any_field(),
        1 => (0u32..127).prop_map(|bits| hex(1 << bits)),
        2 => any::<u16>().prop_map(|v| hex(v.into())),
    ];
    let one = |op: &str, x: Value| json!({"type": "expression", "value": {"op": op, "left": null, "right": x}});
    leaf.prop_recursive(3, 12, 2, move |inner| {
        let ops = vec!["+", "-", "*", "&", "|", "^", "<<", ">>", "/", "%"];
        let casts = vec!["usat_cast", "sat_cast", "two_comp_mod"];
        let compare = prop::sample::select(vec!["==", "!=", "<", ">", "<=", ">="]);
        prop_oneof![
            4 => (prop::sample::select(ops), inner.clone(), inner.clone()).prop_map(|(op, a, b)| binary(op, a, b)),
            1 => (prop::sample::select(casts), inner.clone(), 1u128..100).prop_map(|(op, a, w)| binary(op, a, hex(w))),
            1 => inner.clone().prop_map(move |a| one("~", a)),
            1 => (compare, inner.clone(), inner).prop_map(move |(op, a, b)| one("b2d", binary(op, a, b))),
        ]
    })
}

/// The index of a cell, which there often is.
fn index() -> impl Strategy<Value = Value> {
    prop_oneof![expression(), any_field(), (any_field(), 2u128..8).prop_map(|(f, most)| binary("&", f, hex(most))),]
}

fn header(name: &str) -> Value {
    json!({"type": "header", "value": name})
}

fn primitive(egress: bool) -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["h", "g", "small"]);
    let register = json!({"type": "register_array", "value": "r"});
    let counter = json!({"type": "counter_array", "value": "n"});
    let (r1, r2) = (register.clone(), register);
    let clone = if egress { "clone_egress_pkt_to_egress" } else { "clone_ingress_pkt_to_egress" };
    prop_oneof![
        8 => (any_field(), expression()).prop_map(|(to, from)| call("assign", json!([to, from]))),
        2 => name.clone().prop_map(|h| call("add_header", json!([header(h)]))),
        2 => name.prop_map(|h| call("remove_header", json!([header(h)]))),
        1 => any::<bool>().prop_map(|to_h| {
            let (to, from) = if to_h { ("h", "g") } else { ("g", "h") };
            call("assign_header", json!([header(to), header(from)]))
        }),
        1 => (any_field(), index()).prop_map(move |(to, i)| call("register_read", json!([to, r1, i]))),
        1 => (index(), expression()).prop_map(move |(i, v)| call("register_write", json!([r2, i, v]))),
        1 => index().prop_map(move |i| call("count", json!([counter, i]))),
        1 => (any_field(), any::<u16>(), any::<u32>()).prop_map(|(to, low, high)| {
            call("modify_field_rng_uniform", json!([to, hex(low.into()), hex(high.into())]))
        }),
        1 => (any_field(), prop::sample::select(vec!["crc", "sum"]), 1u128..5000).prop_map(|(to, sum, size)| {
            let sum = json!({"type": "calculation", "value": sum});
            call("modify_field_with_hash_based_offset", json!([to, hex(3), sum, hex(size)]))
        }),
        1 => (20u128..80).prop_map(|length| call("truncate", json!([hex(length)]))),
        1 => (1u128..9).prop_map(move |session| call(clone, json!([hex(session), hex(1)]))),
        1 => Just(call("generate_digest", json!([hex(1), hex(1)]))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Random actions in a program with a table; what the loader refuses is not compared.
    #[test]
    fn random_programs_are_the_same(
        ingress in prop::collection::vec(primitive(false), 0..8),
        egress in prop::collection::vec(primitive(true), 0..8),
        kinds in prop::sample::select(vec!["exact", "ternary", "lpm", "range"]),
        updates in any::<bool>(),
        twice in any::<bool>(),
        watches in any::<bool>(),
        frames in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..60), metadata(), preparation()), 1..6),
    ) {
        let name = if kinds == "lpm" { "c" } else { "b" };
        let second = json!({"match_type": "ternary", "name": "e", "target": ["h", "e"], "mask": null});
        let mut key = vec![json!({"match_type": kinds, "name": "k", "target": ["h", name], "mask": null})];
        if kinds == "ternary" {
            key.push(second);
        }
        let mut root = with_table(program(json!(ingress), json!(egress)), json!(key), kinds);
        if updates {
            root["checksums"] = json!([{
                "name": "c", "id": 0, "target": ["h", "b"], "type": "generic", "calculation": "sum",
                "verify": false, "update": true, "if_cond": binary("!=", field("h", "c"), hex(0))
            }]);
        }
        if twice {
            root["deparsers"][0]["order"] = json!(["h", "small", "g", "h"]);
        }
        let watched = if watches { &WATCHED[..] } else { &[] };
        let watched: Vec<String> = watched.iter().map(|name| (*name).to_owned()).collect();
        let Ok(program) = Program::load_watching(root.to_string().as_bytes(), &watched) else {
            return Ok(());
        };
        let mut twins = Twins::new(Arc::new(program));
        for value in [0u128, 1, 0x1234] {
            let part = match kinds {
                "exact" => KeyMatch::Exact(value),
                "lpm" => KeyMatch::Lpm { value: value << 16, prefix_len: 16 },
                "range" => KeyMatch::Range { low: value, high: value * 2 },
                _ => KeyMatch::Ternary { value, mask: 0xffff },
            };
            let mut key = vec![part];
            if kinds == "ternary" {
                key.push(KeyMatch::Ternary { value: value & 1, mask: 1 });
            }
            let priority = i32::from(kinds == "ternary" || kinds == "range");
            let action = ActionCall { action: "set".to_owned(), params: vec![5, value << 90 | 77] };
            twins.insert("t", &Entry { key, priority, action });
        }
        for (frame, meta, preparation) in &frames {
            twins.pass(frame, 3, meta, *preparation);
        }
        twins.compare();
    }
}

/// What ingress has written is there when egress ends, what egress writes takes its place, and nothing else reads either.
#[test]
fn watched_fields_are_those_that_egress_leaves() {
    let set = |to: &str, value: Value| call("assign", json!([field("m", to), value]));
    let ingress = json!([set("a", hex(7)), set("b", field("h", "b")), set("d", hex(1 << 40))]);
    let egress = json!([set("b", binary("+", field("m", "b"), hex(0xffff)))]);
    let root = program(ingress, egress).to_string();
    let names = ["m.b", "m.a", "m.c", "m.d", "standard_metadata.ingress_port"].map(str::to_owned);
    let program = Program::load_watching(root.as_bytes(), &names).unwrap_or_else(|error| panic!("{error}"));
    let mut twins = Twins::new(Arc::new(program));
    for b in [1, 500] {
        let trace = twins.pass(&common::frame(1, b, 3, 4, 5), 3, &EgressMeta::default(), Preparation::AsItComes);
        assert_eq!(trace.watched, [u64::from(b) - 1, 7, 0, 1 << 40, 3]);
    }
    for (name, why) in [
        ("m.f", "the program is malformed: m.f: the program has no such field of metadata"),
        ("m", "the program is malformed: m: the program has no such field of metadata"),
        ("h.a", "h.a: to watch what is not metadata of up to 64 bits is not supported"),
        ("m.e", "m.e: to watch what is not metadata of up to 64 bits is not supported"),
    ] {
        let refused = Program::load_watching(root.as_bytes(), &[name.to_owned()]).map(drop);
        assert_eq!(refused.map_err(|error| error.to_string()), Err(why.to_owned()));
    }
}

/// The output has it each time, as the program has left it, and queues account as much.
#[test]
fn a_header_that_is_emitted_twice_leaves_twice() {
    let change = call("assign", json!([field("h", "a"), hex(9)]));
    for [ingress, egress] in [[json!([change]), json!([])], [json!([]), json!([change])]] {
        let mut root = program(ingress, egress);
        root["deparsers"][0]["order"] = json!(["small", "h", "h"]);
        let came = common::frame(1, 2, 3, 4, 5);
        let trace = twins(&root).pass(&came, 3, &EgressMeta::default(), Preparation::AsItComes);
        let changed = common::frame(9, 2, 3, 4, 5);
        // 31 bytes of the header, and 2 behind it.
        let expected = [&changed[..31], &changed[..]].concat();
        assert_eq!((trace.sent, trace.length), (vec![expected], 31 + 33));
    }
}

/// An added header is zero, even if an earlier packet used its place.
#[test]
fn added_headers_are_zero() {
    let add = call("add_header", json!([header("g")]));
    let read = call("assign", json!([field("h", "c"), field("g", "c")]));
    let write = |name: &str| call("assign", json!([field("g", name), field("h", "d")]));
    let actions = json!([add, read, write("c"), write("d")]);
    for [ingress, egress] in [[actions.clone(), json!([])], [json!([]), actions]] {
        let mut twins = twins(&program(ingress, egress));
        for d in 1..4 {
            let frame = common::frame(1, 2, 3, d << 32 | d, 5);
            twins.pass(&frame, 3, &EgressMeta::default(), Preparation::AsItComes);
        }
    }
}

/// A field that was the index of a cell may not be one the next time.
#[test]
fn indices_that_change() {
    let cell = json!({"type": "counter_array", "value": "n"});
    let register = json!({"type": "register_array", "value": "r"});
    let count = call("count", json!([cell, field("m", "a")]));
    let write = call("register_write", json!([register, field("m", "a"), field("h", "b")]));
    let other = call("assign", json!([field("m", "a"), field("h", "a")]));
    let actions = json!([count, write, other, count, write, count]);
    let mut twins = twins(&program(actions.clone(), actions));
    for a in [0, 1, 3, 4, 5, 200, 2] {
        let frame = common::frame(a, 2, 3, 4, 5);
        twins.pass(&frame, 3, &EgressMeta::default(), Preparation::AsItComes);
    }
    twins.compare();
}

/// Ingress reads what it is given, not what was announced.
#[test]
fn announcements_that_were_wrong() {
    for name in ["ingress_global_timestamp", "ingress_port"] {
        let read = call("assign", json!([field("h", "d"), field("standard_metadata", name)]));
        let mut twins = twins(&program(json!([read]), json!([])));
        let frame = common::frame(1, 2, 3, 4, 5);
        let meta = EgressMeta { timestamp: 1 << 40, ..EgressMeta::default() };
        for preparation in
            [Preparation::Nothing, Preparation::AsItComes, Preparation::OtherTime, Preparation::OtherPort]
        {
            twins.pass(&frame, 3, &meta, preparation);
        }
    }
}

/// A packet that was made for another program is left to the interpreter: it has no room where headers are put.
#[test]
fn packets_of_another_pool() {
    let add = json!([call("add_header", json!([header("g")]))]);
    let mut twins = twins(&program(add, json!([])));
    let frame = common::frame(1, 2, 3, 4, 5);
    for pipeline in &mut twins.both {
        let mut packet = PacketPool::default().packet(&frame);
        let _ = pipeline.ingress(&mut packet, 1, 0);
        let _ = pipeline.egress(&mut packet, &EgressMeta::default());
        pipeline.deparse(&mut packet);
        // Native code takes announcements once it has run.
        let _ = pipeline.ingress(&mut PacketPool::new(&twins.program).packet(&frame), 1, 0);
        // Never seen by ingress, and only announced to it.
        for announced in [false, true] {
            let mut packet = PacketPool::new(&twins.program).packet(&frame);
            if announced {
                pipeline.prepare(&mut packet, 1, 0);
            }
            let _ = pipeline.egress(&mut packet, &EgressMeta::default());
            assert_eq!(pipeline.deparse(&mut packet), frame);
        }
    }
}

#[test]
fn what_is_too_large_for_native_code_says_so() {
    let mut root: Value = serde_json::from_str(NARROWS).expect("JSON");
    let fields: Vec<Value> = (0..33).map(|number| json!([format!("part{number}"), 64, false])).collect();
    let list = |value: &mut Value, more: Value| value.as_array_mut().expect("a list").push(more);
    list(&mut root["header_types"], json!({"name": "large_t", "id": 1000, "fields": fields}));
    let header = json!({"name": "large", "id": 1000, "header_type": "large_t", "metadata": false, "pi_omit": true});
    list(&mut root["headers"], header);
    let program = Program::load(root.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    let warning = program.warning().expect("264 bytes are more than 256");
    assert!(warning.ends_with("three times as long as native code: a header of more than 256 bytes"), "{warning}");
    assert_eq!(narrows().warning(), None);
}
