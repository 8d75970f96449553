// SPDX-License-Identifier: Apache-2.0
//! Table lookups against a naive search, and what the control plane may do.

mod common;

use std::sync::Arc;

use common::{entries, frame, load, program, run, table_named, with_table};
use narrows_pipeline::{ActionCall, ControlError, CounterValue, Entry, KeyMatch, PacketPool, Pipeline, TableId};
use proptest::prelude::*;
use serde_json::{json, Value};

fn key(kinds: &[(&str, &str)]) -> Value {
    kinds
        .iter()
        .map(|(kind, name)| json!({"match_type": kind, "target": ["h", name], "mask": null, "name": name}))
        .collect()
}

fn pipeline(kinds: &[(&str, &str)], match_type: &str) -> (Pipeline, TableId) {
    let pipeline = load(&with_table(program(json!([]), json!([])), key(kinds), match_type));
    let table = table_named(pipeline.program(), "t").id;
    (pipeline, table)
}

/// An entry whose action tells its number by the bytes that leave.
fn entry(key: Vec<KeyMatch>, priority: i32, number: u128) -> Entry {
    Entry { key, priority, action: ActionCall { action: "set".into(), params: vec![2, number] } }
}

/// The number of the entry that a packet hit.
fn hit(pipeline: &mut Pipeline, a: u8, b: u16, c: u32) -> Option<u128> {
    let out = run(pipeline, &frame(a, b, c, 0, 0));
    match out {
        Some((2, bytes)) => Some(bytes[15..31].iter().fold(0, |v, &b| v << 8 | u128::from(b))),
        _ => None,
    }
}

fn matches(part: &KeyMatch, value: u128, width: u32) -> bool {
    match *part {
        KeyMatch::Exact(v) => value == v,
        KeyMatch::Lpm { value: v, prefix_len } => prefix_len == 0 || (value ^ v) >> (width - prefix_len) == 0,
        KeyMatch::Ternary { value: v, mask } => value & mask == v,
        KeyMatch::Range { low, high } => (low..=high).contains(&value),
    }
}

fn ternary(width: u32) -> impl Strategy<Value = KeyMatch> {
    // Few masks and small values, so that entries overlap and share masks.
    let masks = prop_oneof![Just(0u128), Just((1 << width) - 1), Just(3), Just(0xfc)];
    (masks, 0u128..8).prop_map(|(mask, value)| KeyMatch::Ternary { value: value & mask, mask })
}

fn range(width: u32) -> impl Strategy<Value = KeyMatch> {
    let most = (1u128 << width) - 1;
    prop_oneof![Just((0, most)), (0u128..8, 0u128..8).prop_map(|(a, b)| (a.min(b), a.max(b)))]
        .prop_map(|(low, high)| KeyMatch::Range { low, high })
}

type Rows = Vec<(Vec<KeyMatch>, i32)>;

/// Inserts, deletes some, and compares every lookup with a search through all entries.
fn check(
    kinds: &[(&str, &str)],
    match_type: &str,
    rows: &Rows,
    best: fn(&(Vec<KeyMatch>, i32)) -> i64,
) -> Result<(), TestCaseError> {
    let (mut pipeline, table) = pipeline(kinds, match_type);
    let mut kept: Vec<(usize, (Vec<KeyMatch>, i32))> = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        if pipeline.table_insert(table, &entry(row.0.clone(), row.1, number as u128)).is_ok() {
            kept.push((number, row.clone()));
        }
        // Packets between the changes: each of them is seen by itself.
        hit(&mut pipeline, 0, 0, 0);
        if number % 5 == 4 {
            let (_, gone) = kept.remove(kept.len() / 2);
            prop_assert_eq!(pipeline.table_delete(table, &gone.0, gone.1), Ok(()));
        }
    }
    for a in 0..9u8 {
        for b in [0u16, 1, 2, 3, 5, 7, 300] {
            let values = [(u128::from(a), 8), (u128::from(b), 16)];
            let expected = kept
                .iter()
                .filter(|(_, row)| row.0.iter().zip(values).all(|(part, (v, w))| matches(part, v, w)))
                .max_by_key(|(number, row)| (best(row), -(*number as i64)))
                .map(|(number, _)| *number as u128);
            prop_assert_eq!(hit(&mut pipeline, a, b, 0), expected, "a {} b {}", a, b);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn ternary_lookup_equals_a_search(rows in prop::collection::vec((prop::collection::vec(ternary(8), 2), 1..6i32), 1..120)) {
        check(&[("ternary", "a"), ("ternary", "b")], "ternary", &rows, |row| i64::from(row.1))?;
    }

    #[test]
    fn range_lookup_equals_a_search(rows in prop::collection::vec(((range(8), ternary(8)), 1..6i32), 1..20)) {
        let rows = rows.into_iter().map(|((a, b), p)| (vec![a, b], p)).collect();
        check(&[("range", "a"), ("ternary", "b")], "range", &rows, |row| i64::from(row.1))?;
    }

    #[test]
    fn prefix_lookup_equals_a_search(rows in prop::collection::vec((0u128..256, 0..=8u32), 1..40)) {
        let prefix = |(v, n): (u128, u32)| (vec![KeyMatch::Lpm { value: v >> (8 - n) << (8 - n), prefix_len: n }], 0);
        let rows: Rows = rows.into_iter().map(prefix).collect();
        check(&[("lpm", "a")], "lpm", &rows, |row| match row.0[0] {
            KeyMatch::Lpm { prefix_len, .. } => i64::from(prefix_len),
            _ => 0,
        })?;
    }

    #[test]
    fn prefix_beside_an_exact_field_equals_a_search(rows in prop::collection::vec((0u128..3, 0u128..16, 12..=16u32), 1..30)) {
        let row = |(a, v, n): (u128, u128, u32)| (vec![KeyMatch::Exact(a), KeyMatch::Lpm { value: v >> (16 - n) << (16 - n), prefix_len: n }], 0);
        let rows: Rows = rows.into_iter().map(row).collect();
        check(&[("exact", "a"), ("lpm", "b")], "lpm", &rows, |row| match row.0[1] {
            KeyMatch::Lpm { prefix_len, .. } => i64::from(prefix_len),
            _ => 0,
        })?;
    }

    #[test]
    fn exact_lookup_equals_a_search(rows in prop::collection::vec((0u128..9, 0u128..9), 1..40)) {
        let rows: Rows = rows.into_iter().map(|(a, b)| (vec![KeyMatch::Exact(a), KeyMatch::Exact(b)], 0)).collect();
        check(&[("exact", "a"), ("exact", "b")], "exact", &rows, |_| 0)?;
        let rows: Rows = rows.into_iter().map(|(key, _)| (key[..1].to_vec(), 0)).collect();
        check(&[("exact", "a")], "exact", &rows, |_| 0)?;
    }
}

#[test]
fn keys_of_all_widths_find_their_entry() {
    let kinds = [("exact", "a"), ("exact", "e"), ("exact", "d"), ("exact", "c")];
    let (mut pipeline, table) = pipeline(&kinds, "exact");
    let e = 1 << 127 | 3;
    let key = vec![KeyMatch::Exact(7), KeyMatch::Exact(e), KeyMatch::Exact(1 << 63), KeyMatch::Exact(5)];
    assert_eq!(pipeline.table_insert(table, &entry(key, 0, 42)), Ok(()));
    let out = |pipeline: &mut Pipeline, e| run(pipeline, &frame(7, 0, 5, 1 << 63, e)).map(|o| o.0);
    assert_eq!(out(&mut pipeline, e), Some(2));
    assert_eq!(out(&mut pipeline, e ^ 1 << 127), Some(1));
    assert_eq!(out(&mut pipeline, e ^ 1), Some(1));
}

#[test]
fn entries_are_read_modified_and_counted() {
    let (mut pipeline, table) = pipeline(&[("exact", "a")], "exact");
    let first = entry(vec![KeyMatch::Exact(1)], 0, 10);
    assert_eq!(pipeline.table_insert(table, &first), Ok(()));
    assert!(matches!(pipeline.table_insert(table, &first), Err(ControlError::AlreadyExists(_))));
    hit(&mut pipeline, 1, 0, 0);
    hit(&mut pipeline, 2, 0, 0);
    let changed = entry(vec![KeyMatch::Exact(1)], 0, 11);
    assert_eq!(pipeline.table_modify(table, &changed), Ok(()));
    assert_eq!(hit(&mut pipeline, 1, 0, 0), Some(11));
    let count = CounterValue { packets: 2, bytes: 66 };
    assert_eq!(entries(&pipeline, table), [(changed.clone(), count)]);
    let written = CounterValue { packets: 5, bytes: 6 };
    assert_eq!(pipeline.direct_counter_write(table, &changed.key, 0, written), Ok(()));
    assert_eq!(entries(&pipeline, table), [(changed.clone(), written)]);
    assert_eq!(pipeline.table_delete(table, &changed.key, 0), Ok(()));
    assert!(matches!(pipeline.table_delete(table, &changed.key, 0), Err(ControlError::NotFound { .. })));
    assert_eq!(hit(&mut pipeline, 1, 0, 0), None);
}

/// By interpreter and native code alike: an entry is as old as the last packet that found it, or as itself.
#[test]
fn an_entry_ages_from_the_last_packet_that_found_it() {
    let mut root = with_table(program(json!([]), json!([])), key(&[("exact", "a")]), "exact");
    root["pipelines"][0]["tables"][1]["support_timeout"] = json!(true);
    let program = Arc::clone(load(&root).program());
    for mut pipeline in [Pipeline::new(Arc::clone(&program), 1), Pipeline::interpreter(Arc::clone(&program), 1)] {
        let table = table_named(&program, "t").id;
        let mut pool = PacketPool::new(&program);
        let mut send = |pipeline: &mut Pipeline, a: u8, now_ns: u64| {
            let _ = pipeline.ingress(&mut pool.packet(&frame(a, 0, 0, 0, 0)), 3, now_ns);
        };
        pipeline.pass_time(1_000);
        for value in [1, 2] {
            assert_eq!(pipeline.table_insert(table, &entry(vec![KeyMatch::Exact(value)], 0, value)), Ok(()));
        }
        let hits = |pipeline: &Pipeline| {
            [1, 2].map(|value| pipeline.entry_hit_ns(table, &[KeyMatch::Exact(value)], 0).unwrap_or_default())
        };
        assert_eq!(hits(&pipeline), [1_000, 1_000]);
        for (value, now_ns, found) in
            [(2, 5_000, [1_000, 5_000]), (1, 6_000, [6_000, 5_000]), (3, 7_000, [6_000, 5_000])]
        {
            send(&mut pipeline, value, now_ns);
            assert_eq!(hits(&pipeline), found, "{value} at {now_ns}");
        }
        // What an action is modified to says nothing of packets; what takes an entry's place is new.
        let second = entry(vec![KeyMatch::Exact(2)], 0, 9);
        assert_eq!(pipeline.table_modify(table, &second), Ok(()));
        assert_eq!(hits(&pipeline), [6_000, 5_000]);
        assert_eq!(pipeline.table_delete(table, &second.key, 0), Ok(()));
        assert_eq!(pipeline.table_insert(table, &second), Ok(()));
        assert_eq!(hits(&pipeline), [6_000, 7_000]);
    }
}

#[test]
fn a_table_is_read_in_parts() {
    let (mut pipeline, table) = pipeline(&[("exact", "a")], "exact");
    for key in 0..7 {
        let added = pipeline.table_insert(table, &entry(vec![KeyMatch::Exact(key)], 0, 10 + key));
        assert_eq!(added, Ok(()));
    }
    // A place that was free is used again: by place, the order is not that of insertion.
    assert_eq!(pipeline.table_delete(table, &[KeyMatch::Exact(2)], 0), Ok(()));
    assert_eq!(pipeline.table_insert(table, &entry(vec![KeyMatch::Exact(9)], 0, 19)), Ok(()));
    assert_eq!(pipeline.table_delete(table, &[KeyMatch::Exact(4)], 0), Ok(()));
    let (mut found, mut next, mut sizes) = (vec![], Some(0), vec![]);
    while let Some(place) = next {
        let part = pipeline.table_entries_from(table, place, 3).unwrap_or_default();
        sizes.push(part.entries.len());
        found.extend(part.entries);
        next = part.next;
    }
    assert_eq!(sizes, vec![3, 2, 1]);
    found.sort_by_key(|(sequence, ..)| *sequence);
    let found: Vec<_> = found.into_iter().map(|(_, entry, state)| (entry, state.counter)).collect();
    assert_eq!(found, entries(&pipeline, table));
}

#[test]
fn the_default_action_can_be_set_and_reset() {
    let (mut pipeline, table) = pipeline(&[("exact", "a")], "exact");
    let call = ActionCall { action: "set".into(), params: vec![2, 99] };
    assert_eq!(pipeline.table_set_default(table, Some(&call)), Ok(()));
    assert_eq!((hit(&mut pipeline, 1, 0, 0), pipeline.table_default(table)), (Some(99), Ok(call)));
    assert_eq!(pipeline.table_set_default(table, None), Ok(()));
    assert_eq!(hit(&mut pipeline, 1, 0, 0), None);
    let constant = table_named(pipeline.program(), "t1").id;
    assert!(matches!(pipeline.table_set_default(constant, None), Err(ControlError::PermissionDenied(_))));
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let (mut pipeline, table) = pipeline(&[("ternary", "a"), ("lpm", "b")], "ternary");
    let lpm = KeyMatch::Lpm { value: 0, prefix_len: 0 };
    let any = KeyMatch::Ternary { value: 0, mask: 0 };
    let bad_keys = [
        vec![any],
        vec![KeyMatch::Ternary { value: 2, mask: 1 }, lpm],
        vec![KeyMatch::Ternary { value: 0, mask: 0x100 }, lpm],
        vec![any, KeyMatch::Lpm { value: 1, prefix_len: 8 }],
        vec![any, KeyMatch::Lpm { value: 0, prefix_len: 17 }],
        vec![any, KeyMatch::Lpm { value: 0x1_0000, prefix_len: 16 }],
        vec![any, KeyMatch::Exact(1)],
        vec![KeyMatch::Ternary { value: 0x100, mask: 0x1ff }, lpm],
    ];
    for key in bad_keys {
        let error = pipeline.table_insert(table, &entry(key.clone(), 1, 1));
        assert!(matches!(error, Err(ControlError::InvalidArgument(_))), "{key:?}: {error:?}");
    }
    let mut wrong = entry(vec![any, lpm], 1, 1);
    wrong.action.params[0] = 512;
    assert!(matches!(pipeline.table_insert(table, &wrong), Err(ControlError::InvalidArgument(_))));
    wrong.action.params = vec![1];
    assert!(matches!(pipeline.table_insert(table, &wrong), Err(ControlError::InvalidArgument(_))));
    wrong.action.action = "first".into();
    assert!(matches!(pipeline.table_insert(table, &wrong), Err(ControlError::NotFound { .. })));
    assert_eq!(entries(&pipeline, table), []);
}

#[test]
fn a_table_holds_as_many_entries_as_it_says() {
    let mut root = with_table(program(json!([]), json!([])), key(&[("exact", "c")]), "exact");
    root["pipelines"][0]["tables"][1]["max_size"] = json!(2);
    let mut pipeline = load(&root);
    let table = table_named(pipeline.program(), "t").id;
    for i in 0..2 {
        assert_eq!(pipeline.table_insert(table, &entry(vec![KeyMatch::Exact(i)], 0, i)), Ok(()));
    }
    let error = pipeline.table_insert(table, &entry(vec![KeyMatch::Exact(9)], 0, 9));
    assert!(matches!(error, Err(ControlError::ResourceExhausted(_))), "{error:?}");
}

#[test]
fn constant_entries_win_in_the_order_of_the_program_and_cannot_change() {
    let mut root = with_table(program(json!([]), json!([])), key(&[("ternary", "a")]), "ternary");
    let row = |value: &str, mask: &str, number: &str, priority| {
        json!({
            "match_key": [{"match_type": "ternary", "key": value, "mask": mask}], "priority": priority,
            "action_entry": {"action_id": 2, "action_data": ["0x2", number]}
        })
    };
    root["pipelines"][0]["tables"][1]["entries"] =
        json!([row("0x01", "0xff", "0xa", 1), row("0x00", "0x00", "0xb", 2)]);
    let mut pipeline = load(&root);
    assert_eq!((hit(&mut pipeline, 1, 0, 0), hit(&mut pipeline, 2, 0, 0)), (Some(0xa), Some(0xb)));
    let table = table_named(pipeline.program(), "t").id;
    let entries = entries(&pipeline, table);
    assert!(entries[0].0.priority > entries[1].0.priority);
    let denied = pipeline.table_delete(table, &entries[0].0.key, entries[0].0.priority);
    assert!(matches!(denied, Err(ControlError::PermissionDenied(_))));
}
