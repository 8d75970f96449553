// SPDX-License-Identifier: Apache-2.0
//! The loader and the packet path under fire, with tables filled so that every part of the programs runs.
//! `PROPTEST_CASES` sets how often.

mod common;

use std::sync::{Arc, OnceLock};

use common::{fill, insert, table_program, Change, Document, CONFORMANCE, NARROWS};
use narrows_pipeline::{EgressMeta, Forward, KeyMatch, PacketPool, Pipeline, Program};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{json, Value};

const REPORT_BYTES: usize = 184;
const SESSION: u16 = 7;

fn documents() -> &'static [Document; 3] {
    static DOCUMENTS: OnceLock<[Document; 3]> = OnceLock::new();
    DOCUMENTS.get_or_init(|| {
        let [narrows, conformance] = [NARROWS, CONFORMANCE].map(Document::parse);
        [narrows, conformance, Document::new(table_program())]
    })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => any::<usize>().prop_map(Change::Copy),
        3 => any::<u8>().prop_map(Change::Turn),
        2 => replacement().prop_map(Change::Put),
    ]
}

/// A value that comes from nowhere in the program.
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
        prop::sample::select(vec!["assign", "extract", "+", ">>", "lookahead", "start", "register_read", "ternary"])
            .prop_map(|s| json!(s)),
    ]
}

/// The Narrows program with a bottleneck that reports each packet, by its tables' names.
fn bottleneck() -> (Pipeline, PacketPool) {
    static PROGRAM: OnceLock<Arc<Program>> = OnceLock::new();
    let load = || Program::load(NARROWS.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    let program = Arc::clone(PROGRAM.get_or_init(|| Arc::new(load())));
    let mut pipeline = Pipeline::new(Arc::clone(&program), 1);
    let any = vec![KeyMatch::Ternary { value: 0, mask: 0 }; 6];
    let session = u128::from(SESSION);
    let entries = [
        (".cross_connect", any, 1, ".bottleneck", vec![5, 2, 3]),
        (".settings.bottleneck", vec![KeyMatch::Exact(5)], 0, ".observe", vec![1, 0, 0, 0, 0, 9, session]),
        (".collector", vec![KeyMatch::Exact(5)], 0, ".encapsulate", vec![1, 2, 3, 4, 5, 6, REPORT_BYTES as u128]),
    ];
    for (table, key, priority, action, params) in entries {
        insert(&mut pipeline, table, key, priority, action, params);
    }
    let pool = PacketPool::new(&program);
    (pipeline, pool)
}

/// Sends a frame through both pipelines, its copies included: what leaves, and the copy.
fn pass(
    pipeline: &mut Pipeline,
    pool: &mut PacketPool,
    frame: &[u8],
    meta: &EgressMeta,
) -> (Forward, Option<Vec<u8>>, Option<Vec<u8>>) {
    let mut packet = pool.packet(frame);
    pipeline.prepare(&mut packet, 1, 0);
    let verdict = pipeline.ingress(&mut packet, 1, 1_000);
    if verdict.clone.is_some() {
        let mut copy = pool.take(0);
        pipeline.clone_ingress(&packet, &mut copy, usize::MAX);
        let _ = pipeline.egress(&mut copy, meta);
        pipeline.deparse(&mut copy);
        pool.give(copy);
    }
    let forward = verdict.forward;
    let verdict = pipeline.egress(&mut packet, meta);
    let copy = verdict.clone.map(|_| {
        let mut copy = pool.take(0);
        pipeline.clone_egress(&packet, &mut copy, 128);
        copy
    });
    let sent = pipeline.deparse(&mut packet).to_vec();
    pool.give(packet);
    let copy = copy.and_then(|mut copy| {
        let verdict = pipeline.egress(&mut copy, meta);
        let bytes = pipeline.deparse(&mut copy).to_vec();
        pool.give(copy);
        verdict.transmit.then_some(bytes)
    });
    (forward, verdict.transmit.then_some(sent), copy)
}

/// Frames as they come, and as they should not: tags, IPv4 and IPv6 with any header length, cut off anywhere.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(vec![0x0800u16, 0x86dd, 0x88b5, 0x0806, 0x1234]);
    let tags = prop::collection::vec((prop::sample::select(vec![0x8100u16, 0x88a8]), any::<u16>()), 0..4);
    let body = prop::collection::vec(any::<u8>(), 0..200);
    let first = prop::sample::select(vec![0x45u8, 0x46, 0x4f, 0x40, 0x60, 0x65, 0xff]);
    let protocol = prop::sample::select(vec![6u8, 17, 1, 58, 0, 255]);
    (tags, kind, first, protocol, body, any::<Index>(), prop::bool::weighted(0.3)).prop_map(
        |(tags, kind, first, protocol, mut body, cut, is_cut)| {
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
            for (ethertype, tag) in tags {
                frame.extend(ethertype.to_be_bytes());
                frame.extend(tag.to_be_bytes());
            }
            frame.extend(kind.to_be_bytes());
            let place = if kind == 0x0800 { 9 } else { 6 };
            if let Some(byte) = body.get_mut(place) {
                *byte = protocol;
            }
            if let Some(byte) = body.first_mut() {
                *byte = if kind == 0x88b5 { *byte % 12 } else { first };
            }
            frame.extend(body);
            if is_cut {
                frame.truncate(cut.index(frame.len() + 1));
            }
            frame
        },
    )
}

fn meta() -> impl Strategy<Value = EgressMeta> {
    (any::<u64>(), any::<[u32; 6]>(), any::<u16>()).prop_map(|(timestamp, n, epoch)| EgressMeta {
        port: 2,
        priority: 3,
        rid: 0,
        timestamp,
        enq_timestamp: n[0],
        deq_timedelta: n[1],
        enq_qdepth: n[2],
        deq_qdepth: n[3],
        enq_depth_bytes: n[4],
        deq_depth_bytes: n[5],
        queue_delay: timestamp >> 16,
        epoch,
    })
}

proptest! {
    /// Whatever comes in leaves as long as it came, and as it came but for an ECN mark and the checksum over it; its
    /// report is no longer than it may be.
    #[test]
    fn a_bottleneck_takes_any_frame(frames in prop::collection::vec((frame(), meta()), 1..8)) {
        let (mut pipeline, mut pool) = bottleneck();
        for (frame, meta) in frames {
            let (forward, sent, report) = pass(&mut pipeline, &mut pool, &frame, &meta);
            prop_assert_eq!(forward, Forward::Unicast { port: 2, priority: 3 });
            let sent = sent.unwrap_or_default();
            prop_assert_eq!(sent.len(), frame.len());
            let different = sent.iter().zip(&frame).filter(|(a, b)| a != b).count();
            prop_assert!(different <= 3, "{different} bytes changed");
            let report = report.unwrap_or_default();
            prop_assert!(report.len() >= 98 && report.len() <= REPORT_BYTES, "{} bytes", report.len());
        }
    }

    /// A program of which some values were changed is refused by name, or runs.
    #[test]
    fn changed_programs_are_refused_or_run(
        which in 0..3usize,
        changes in prop::collection::vec((any::<usize>(), change()), 1..4),
        values in prop::collection::vec(any::<u128>(), 1..5),
        frames in prop::collection::vec((frame(), meta()), 1..4),
    ) {
        let root = documents()[which].changed(&changes);
        match Program::load(root.to_string().as_bytes()) {
            Err(error) => prop_assert!(!error.to_string().is_empty()),
            Ok(program) => {
                let program = Arc::new(program);
                let mut pool = PacketPool::new(&program);
                let mut pipeline = Pipeline::new(program, 1);
                fill(&mut pipeline, &values);
                for (frame, meta) in frames {
                    pass(&mut pipeline, &mut pool, &frame, &meta);
                }
            }
        }
    }

    #[test]
    fn random_bytes_are_no_program(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Program::load(&bytes).is_err());
    }

    /// Text that is cut off or has bytes changed must not cause a panic either.
    #[test]
    fn damaged_text_is_refused_or_runs(
        which in 0..2usize,
        damage in prop::collection::vec((any::<Index>(), any::<u8>()), 0..4),
        end in prop::option::of(any::<Index>()),
    ) {
        let mut bytes = [NARROWS, CONFORMANCE][which].as_bytes().to_vec();
        for (index, byte) in damage {
            let place = index.index(bytes.len());
            bytes[place] = byte;
        }
        if let Some(end) = end {
            bytes.truncate(end.index(bytes.len()));
        }
        if let Ok(program) = Program::load(&bytes) {
            let program = Arc::new(program);
            let mut pool = PacketPool::new(&program);
            pass(&mut Pipeline::new(program, 1), &mut pool, &[0x55; 100], &EgressMeta::default());
        }
    }
}

/// The fuzzing above is worth something: a good part of the changed programs load, another part does not.
#[test]
fn changed_programs_are_of_both_sorts() {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = prop::collection::vec((any::<usize>(), change()), 1..4);
    let mut loaded = 0;
    for number in 0..200 {
        let changes = strategy.new_tree(&mut runner).map(|tree| tree.current()).unwrap_or_default();
        let root = documents()[number % 3].changed(&changes);
        loaded += u32::from(Program::load(root.to_string().as_bytes()).is_ok());
    }
    assert!((40..=160).contains(&loaded), "{loaded} of 200 load");
}
