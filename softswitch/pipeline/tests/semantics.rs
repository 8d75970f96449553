// SPDX-License-Identifier: Apache-2.0
//! What primitives do, on small programs.

mod common;

use common::{binary, call, field, frame, hex, load, program, run};
use narrows_pipeline::{CounterValue, EgressMeta, Forward, Instance, PacketPool, Pipeline};
use proptest::prelude::*;
use serde_json::{json, Value};

/// The bytes that leave when ingress runs these primitives.
fn after(primitives: Value, input: &[u8]) -> Vec<u8> {
    run(&mut load(&program(primitives, json!([]))), input).map_or_else(Vec::new, |(_, bytes)| bytes)
}

fn assign(to: Value, from: Value) -> Value {
    call("assign", json!([to, from]))
}

#[test]
fn a_packet_that_is_not_touched_leaves_as_it_came() {
    let input = frame(1, 2, 3, 4, 5);
    assert_eq!(after(json!([]), &input), input);
}

#[test]
fn assignments_cut_to_the_width_of_the_field() {
    let sum = binary("+", field("h", "a"), field("h", "b"));
    assert_eq!(after(json!([assign(field("h", "a"), sum)]), &frame(0xff, 0x0102, 0, 0, 0)), frame(1, 0x0102, 0, 0, 0));
    let difference = binary("-", field("h", "a"), field("h", "c"));
    let out = after(json!([assign(field("h", "d"), difference)]), &frame(1, 0, 2, 0, 0));
    assert_eq!(out, frame(1, 0, 2, u64::MAX, 0));
}

/// The compiler follows copies: a copy must not follow its source when that changes, nor a computed value its operands.
#[test]
fn copies_keep_the_value_they_were_made_of() {
    let steps = json!([
        assign(field("m", "b"), field("h", "b")),
        assign(field("m", "c"), field("m", "b")),
        assign(field("m", "b"), hex(7)),
        assign(field("h", "c"), field("m", "c")),
        assign(field("m", "d"), binary("+", field("m", "b"), hex(1))),
        assign(field("m", "b"), hex(100)),
        assign(field("h", "d"), binary("+", field("m", "b"), hex(1))),
        assign(field("h", "e"), field("m", "d")),
    ]);
    assert_eq!(after(steps, &frame(0, 5, 0, 0, 0)), frame(0, 5, 5, 101, 8));
}

/// A field that was loaded before is loaded again after a store to its header.
#[test]
fn loads_see_stores() {
    let steps = json!([
        assign(field("m", "b"), field("h", "b")),
        assign(field("h", "b"), binary("+", field("h", "b"), hex(1))),
        assign(field("h", "d"), field("h", "b")),
        assign(field("h", "c"), field("m", "b")),
    ]);
    assert_eq!(after(steps, &frame(0, 5, 0, 0, 0)), frame(0, 6, 5, 6, 0));
}

#[test]
fn wide_fields_move_and_compute() {
    let e = 0x0123_4567_89ab_cdef_0011_2233_4455_6677;
    let steps = json!([
        assign(field("m", "e"), field("h", "e")),
        assign(field("h", "e"), binary("+", field("m", "e"), hex(1 << 64))),
        assign(field("h", "d"), binary(">>", field("m", "e"), hex(60))),
    ]);
    assert_eq!(after(steps, &frame(0, 0, 0, 0, e)), frame(0, 0, 0, (e >> 60) as u64, e + (1 << 64)));
}

#[test]
fn a_shift_by_the_width_or_more_gives_0() {
    let left = assign(field("h", "d"), binary("<<", field("h", "d"), field("h", "a")));
    let right = assign(field("h", "c"), binary(">>", field("h", "c"), field("h", "a")));
    assert_eq!(after(json!([left, right]), &frame(200, 0, 7, 7, 0)), frame(200, 0, 0, 0, 0));
}

#[test]
fn signed_fields_extend_their_sign() {
    let steps = json!([
        assign(field("s", "i"), field("h", "a")),
        assign(field("h", "c"), binary("two_comp_mod", field("s", "i"), hex(32))),
        call("_jump_if_zero", json!([binary("<", field("s", "i"), hex(0)), hex(5)])),
        assign(field("h", "b"), hex(1)),
    ]);
    assert_eq!(after(steps.clone(), &frame(0x80, 0, 0, 0, 0)), frame(0x80, 1, 0xffff_ff80, 0, 0));
    assert_eq!(after(steps, &frame(0x7f, 0, 0, 0, 0)), frame(0x7f, 0, 0x7f, 0, 0));
}

#[test]
fn headers_are_added_zeroed_copied_and_removed() {
    let add = json!([
        call("add_header", json!([{"type": "header", "value": "small"}])),
        assign(field("small", "y"), hex(0xabc))
    ]);
    let mut expected = vec![0x0a, 0xbc];
    expected.extend(frame(1, 2, 3, 4, 5));
    assert_eq!(after(add, &frame(1, 2, 3, 4, 5)), expected);

    let (g, h) = (json!({"type": "header", "value": "g"}), json!({"type": "header", "value": "h"}));
    let copy = json!([call("assign_header", json!([g, h])), assign(field("h", "a"), hex(9))]);
    let mut expected = frame(1, 2, 3, 4, 5);
    expected.truncate(31);
    expected.extend(frame(9, 2, 3, 4, 5));
    assert_eq!(after(copy, &frame(1, 2, 3, 4, 5)), expected);

    let swap = json!([call("assign_header", json!([g, h])), call("remove_header", json!([h]))]);
    assert_eq!(after(swap, &frame(1, 2, 3, 4, 5)), frame(1, 2, 3, 4, 5));
    assert_eq!(after(json!([call("remove_header", json!([h]))]), &frame(1, 2, 3, 4, 5)), [0xca, 0xfe]);
}

#[test]
fn an_invalid_header_reads_as_0_and_ignores_writes() {
    let steps = json!([assign(field("g", "c"), hex(7)), assign(field("h", "c"), field("g", "c"))]);
    assert_eq!(after(steps, &frame(1, 2, 3, 4, 5)), frame(1, 2, 0, 4, 5));
}

#[test]
fn packet_length_follows_added_and_removed_headers() {
    let egress = json!([assign(field("h", "b"), field("standard_metadata", "packet_length"))]);
    let ingress = json!([call("add_header", json!([{"type": "header", "value": "small"}]))]);
    let mut pipeline = load(&program(ingress, egress));
    let out = run(&mut pipeline, &frame(1, 2, 3, 4, 5));
    assert_eq!(out.map(|(_, bytes)| bytes[3..5].to_vec()), Some(vec![0, 35]));
}

#[test]
fn a_packet_that_is_too_short_goes_on_with_an_error_and_as_payload() {
    let steps = json!([
        assign(field("m", "c"), field("standard_metadata", "parser_error")),
        call("register_write", json!([{"type": "register_array", "value": "r"}, hex(0), field("m", "c")]))
    ]);
    let mut pipeline = load(&program(steps, json!([])));
    assert_eq!(run(&mut pipeline, &[1, 2, 3]), Some((1, vec![1, 2, 3])));
    let register = pipeline.program().registers[0].id;
    assert_eq!(pipeline.register_read(register, 0), Ok(vec![1]));
}

#[test]
fn registers_and_counters_ignore_indices_beyond_them() {
    let r = json!({"type": "register_array", "value": "r"});
    let n = json!({"type": "counter_array", "value": "n"});
    let steps = json!([
        call("register_write", json!([r, field("h", "a"), field("h", "c")])),
        call("register_read", json!([field("h", "b"), r, field("h", "a")])),
        call("count", json!([n, field("h", "a")])),
    ]);
    let mut pipeline = load(&program(steps, json!([])));
    assert_eq!(run(&mut pipeline, &frame(3, 7, 0x1_2345, 0, 0)), Some((1, frame(3, 0x2345, 0x1_2345, 0, 0))));
    assert_eq!(run(&mut pipeline, &frame(4, 7, 0x1_2345, 0, 0)), Some((1, frame(4, 7, 0x1_2345, 0, 0))));
    let program = pipeline.program().clone();
    let (r, n) = (program.registers[0].id, program.counters[0].id);
    assert_eq!(pipeline.register_read(r, 3), Ok(vec![0x2345]));
    assert_eq!(pipeline.counter_read(n, 3), Ok(CounterValue { packets: 1, bytes: 33 }));
    assert!(pipeline.register_read(r, 4).is_err() && pipeline.counter_read(n, 4).is_err());
    assert!(pipeline.register_write(r, 0, &[0x1_0000]).is_err(), "the cell has 16 bits");
}

/// What only egress writes starts as 0 for each packet, whatever the previous packet left: where there is no such cell,
/// a read leaves it so.
#[test]
fn metadata_of_egress_starts_as_0() {
    let r = json!({"type": "register_array", "value": "r"});
    let steps = json!([
        call("register_write", json!([r, field("h", "a"), field("h", "c")])),
        call("register_read", json!([field("m", "b"), r, field("h", "a")])),
        assign(field("h", "b"), field("m", "b")),
    ]);
    let root = program(json!([]), steps);
    let native = load(&root);
    let interpreter = Pipeline::interpreter(native.program().clone(), 1);
    for mut pipeline in [native, interpreter] {
        assert_eq!(run(&mut pipeline, &frame(3, 7, 0x1_2345, 0, 0)), Some((1, frame(3, 0x2345, 0x1_2345, 0, 0))));
        assert_eq!(run(&mut pipeline, &frame(4, 7, 0x1_2345, 0, 0)), Some((1, frame(4, 0, 0x1_2345, 0, 0))));
    }
}

#[test]
fn dropping_truncating_and_exiting() {
    let standard = json!({"type": "header", "value": "standard_metadata"});
    assert_eq!(
        run(&mut load(&program(json!([call("mark_to_drop", json!([standard]))]), json!([]))), &frame(0, 0, 0, 0, 0)),
        None
    );
    let mut pipeline = load(&program(json!([]), json!([call("mark_to_drop", json!([standard]))])));
    assert_eq!(run(&mut pipeline, &frame(0, 0, 0, 0, 0)), None);
    let out =
        after(json!([call("truncate", json!([hex(5)])), call("truncate", json!([hex(9)]))]), &frame(1, 2, 3, 4, 5));
    assert_eq!(out, frame(1, 2, 3, 4, 5)[..5]);
    // The rest of the action still runs, as in BMv2.
    let steps = json!([call("exit", json!([])), assign(field("h", "a"), hex(9))]);
    assert_eq!(after(steps, &frame(1, 2, 3, 4, 5)), frame(9, 2, 3, 4, 5));
}

#[test]
fn hashes_run_over_fields_in_order() {
    let steps = json!([
        assign(field("m", "c"), hex(0x3132_3334)),
        call(
            "modify_field_with_hash_based_offset",
            json!([field("h", "d"), hex(5), {"type": "calculation", "value": "crc"}, hex(1 << 32)])
        ),
    ]);
    let out = after(steps, &frame(0x41, 0x4243, 0, 0, 0));
    // CRC-32 of "ABC1234".
    let crc = b"ABC1234".iter().fold(u32::MAX, |crc, &b| {
        (0..8).fold(crc ^ u32::from(b), |c, _| if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 })
    });
    assert_eq!(out, frame(0x41, 0x4243, 0, u64::from(!crc) + 5, 0));
}

#[test]
fn checksums_are_verified_and_updated() {
    let mut root = program(json!([assign(field("h", "d"), field("standard_metadata", "checksum_error"))]), json!([]));
    root["checksums"] = json!([{
        "name": "c", "id": 0, "target": ["h", "b"], "type": "generic", "calculation": "sum",
        "verify": true, "update": true, "if_cond": binary("!=", field("h", "c"), hex(0))
    }]);
    // Bytes 01 00 00 ff fe (a, then c) as words: 0x0100 + 0x00ff + 0xfe00 = 0xffff.
    let mut pipeline = load(&root);
    let right = frame(1, 0, 0x0000_fffe, 0, 0);
    assert_eq!(run(&mut pipeline, &right), Some((1, right)));
    assert_eq!(run(&mut pipeline, &frame(1, 5, 0x0000_fffe, 0, 0)), Some((1, frame(1, 0, 0x0000_fffe, 1, 0))));
    assert_eq!(run(&mut pipeline, &frame(1, 5, 0, 0, 0)), Some((1, frame(1, 5, 0, 0, 0))), "the condition is false");
}

#[test]
fn digests_carry_the_fields_at_the_end_of_ingress() {
    let steps = json!([
        call("generate_digest", json!([hex(1), hex(1)])),
        assign(field("h", "a"), hex(9)),
        assign(field("m", "c"), hex(8))
    ]);
    let mut pipeline = load(&program(steps, json!([])));
    run(&mut pipeline, &frame(1, 2, 3, 4, 5));
    let mut records = Vec::new();
    pipeline.drain_digests(&mut records);
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].list, &records[0].values[..]), (1, &[9, 5, 8][..]));
    pipeline.drain_digests(&mut records);
    assert_eq!(records.len(), 1);
}

/// Clones and their metadata: egress marks packets with instance type and the kept fields.
#[test]
fn clones_keep_what_the_field_list_says() {
    let ingress = json!([
        assign(field("m", "c"), hex(0x55)),
        assign(field("m", "b"), hex(0x66)),
        assign(field("m", "e"), hex(1 << 100)),
        assign(field("h", "a"), hex(0x77)),
        call("clone_ingress_pkt_to_egress", json!([hex(5), hex(1)])),
    ]);
    let egress = json!([
        assign(field("h", "a"), field("standard_metadata", "instance_type")),
        assign(field("h", "b"), field("m", "b")),
        assign(field("h", "c"), field("m", "c")),
        assign(field("h", "e"), field("m", "e")),
        call("_jump_if_zero", json!([binary("==", field("standard_metadata", "instance_type"), hex(0)), hex(6)])),
        call("clone_egress_pkt_to_egress", json!([hex(6), hex(1)])),
    ]);
    let mut pipeline = load(&program(ingress, egress));
    let mut pool = PacketPool::new(pipeline.program());
    let mut packet = pool.packet(&frame(1, 2, 3, 4, 5));
    let verdict = pipeline.ingress(&mut packet, 3, 0);
    assert_eq!((verdict.forward, verdict.clone), (Forward::Unicast { port: 1, priority: 0 }, Some(5)));
    let mut first = pool.take(0);
    pipeline.clone_ingress(&packet, &mut first, usize::MAX);
    // A session may have several replicas: each carries on the same.
    let mut other = pool.take(0);
    pipeline.clone_ingress(&packet, &mut other, usize::MAX);
    assert_eq!(first.instance(), Instance::IngressClone);
    let meta = EgressMeta::default();
    // The original, then its egress clone, then the ingress clone, which starts from the bytes as they came in.
    let verdict = pipeline.egress(&mut packet, &meta);
    assert_eq!(verdict.clone, Some(6));
    let mut second = pool.take(0);
    pipeline.clone_egress(&packet, &mut second, usize::MAX);
    assert_eq!(pipeline.deparse(&mut packet), frame(0, 0x66, 0x55, 4, 1 << 100));
    assert_eq!(pipeline.egress(&mut second, &meta).clone, None);
    assert_eq!(pipeline.deparse(&mut second), frame(2, 0, 0x55, 4, 1 << 100));
    for copy in [&mut first, &mut other] {
        assert_eq!(pipeline.egress(copy, &meta).clone, None);
        assert_eq!(pipeline.deparse(copy), frame(1, 0, 0x55, 4, 1 << 100));
    }
}

/// At ingress as at egress: the whole headers (31 bytes) are left of the two bytes of payload behind them, and the limit is what
/// queues account.
#[test]
fn a_limited_clone_of_ingress_keeps_its_headers() {
    let ingress = json!([call("clone_ingress_pkt_to_egress", json!([hex(6), hex(0)]))]);
    let mut pipeline = load(&program(ingress, json!([])));
    let mut pool = PacketPool::new(pipeline.program());
    let mut packet = pool.packet(&frame(1, 2, 3, 4, 5));
    assert_eq!(pipeline.ingress(&mut packet, 3, 0).clone, Some(6));
    for (limit, length, left) in [(4, 4, 31), (32, 32, 32), (33, 33, 33), (usize::MAX, 33, 33)] {
        let mut copy = pool.take(0);
        pipeline.clone_ingress(&packet, &mut copy, limit);
        assert_eq!(copy.length(), length);
        assert!(pipeline.egress(&mut copy, &EgressMeta::default()).transmit);
        assert_eq!(pipeline.deparse(&mut copy), &frame(1, 2, 3, 4, 5)[..left]);
    }
}

#[test]
fn a_limited_clone_keeps_its_headers() {
    let egress = json!([call("clone_egress_pkt_to_egress", json!([hex(6), hex(0)]))]);
    let mut pipeline = load(&program(json!([]), egress));
    let mut pool = PacketPool::new(pipeline.program());
    let mut packet = pool.packet(&frame(1, 2, 3, 4, 5));
    assert_eq!(pipeline.ingress(&mut packet, 3, 0).clone, None);
    assert!(pipeline.egress(&mut packet, &EgressMeta::default()).transmit);
    let mut copy = pool.take(0);
    pipeline.clone_egress(&packet, &mut copy, 4);
    assert_eq!(pipeline.deparse(&mut copy), &frame(1, 2, 3, 4, 5)[..31]);
}

/// A random expression over the fields of `h`, and its value with unlimited integers (operands are small enough).
#[allow(clippy::type_complexity)]
fn expression() -> impl Strategy<Value = (Value, fn(u8, u16, u32) -> i128, u32)> {
    // Leaves only; operators are applied by the test.
    prop_oneof![
        Just((field("h", "a"), (|a, _, _| i128::from(a)) as fn(u8, u16, u32) -> i128, 8)),
        Just((field("h", "b"), (|_, b, _| i128::from(b)) as fn(u8, u16, u32) -> i128, 16)),
        Just((field("h", "c"), (|_, _, c| i128::from(c)) as fn(u8, u16, u32) -> i128, 32)),
    ]
}

fn apply(op: &str, x: i128, y: i128) -> i128 {
    match op {
        "+" => x + y,
        "-" => x - y,
        "*" => x * y,
        "&" => x & y,
        "|" => x | y,
        "^" => x ^ y,
        ">>" => x >> (y & 15),
        "<<" => x << (y & 15),
        "==" => i128::from(x == y),
        "<" => i128::from(x < y),
        ">=" => i128::from(x >= y),
        "two_comp_mod" => (x << 116) >> 116,
        "usat_cast" => x.clamp(0, 0xfff),
        _ => x.clamp(-0x800, 0x7ff),
    }
}

fn operation(op: &str, x: Value, y: Value) -> Value {
    match op {
        ">>" | "<<" => binary(op, x, binary("&", y, hex(15))),
        "==" | "<" | ">=" => {
            json!({"type": "expression", "value": {"op": "b2d", "left": null, "right": binary(op, x, y)}})
        }
        "two_comp_mod" | "usat_cast" | "sat_cast" => binary(op, x, hex(12)),
        _ => binary(op, x, y),
    }
}

const OPERATORS: [&str; 14] =
    ["+", "-", "*", "&", "|", "^", ">>", "<<", "==", "<", ">=", "two_comp_mod", "usat_cast", "sat_cast"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// ((x op y) op z) op x, with signed intermediate values, stored to each width.
    #[test]
    fn arithmetic_is_that_of_unlimited_integers(
        (x, y, z) in (expression(), expression(), expression()),
        (i, j, k) in (0..OPERATORS.len(), 0..OPERATORS.len(), 0..OPERATORS.len()),
        (a, b, c) in (any::<u8>(), any::<u16>(), any::<u32>()),
    ) {
        let shifted = |n: usize| OPERATORS[n] == ">>" || OPERATORS[n] == "<<";
        // A negative amount of shift is not defined, nor a shift of shifts beyond 128 bits.
        prop_assume!(!shifted(k) || z.2 > 0);
        let tree = operation(OPERATORS[i], x.0.clone(), y.0);
        let tree = operation(OPERATORS[j], tree, z.0);
        let tree = operation(OPERATORS[k], tree, x.0);
        let (xv, yv, zv) = (x.1(a, b, c), y.1(a, b, c), z.1(a, b, c));
        let value = apply(OPERATORS[k], apply(OPERATORS[j], apply(OPERATORS[i], xv, yv), zv), xv);
        let root = program(json!([
            assign(field("m", "d"), tree.clone()), assign(field("m", "e"), tree.clone()), assign(field("m", "b"), tree),
            assign(field("h", "d"), field("m", "d")), assign(field("h", "e"), field("m", "e")),
            assign(field("h", "b"), field("m", "b")),
        ]), json!([]));
        let mut pipeline = load(&root);
        let out = run(&mut pipeline, &frame(a, b, c, 0, 0)).map(|o| o.1);
        prop_assert_eq!(out, Some(frame(a, value as u16, c, value as u64, value as u128)));
    }
}
