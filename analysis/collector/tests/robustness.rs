// SPDX-License-Identifier: Apache-2.0
//! Damaged, truncated, reordered, duplicated and mixed input: clear errors or counted skips, never a wrong number.
#![allow(clippy::unwrap_used)] // a failed expectation is a failed test

mod common;

use std::fs;
use std::path::PathBuf;

use common::{column, read_table, Table};
use narrows_collector::aggregate::summary::Summary;
use narrows_collector::aggregate::{aggregate, AggregateSettings};
use narrows_collector::capture::file::{CaptureFile, End};
use narrows_collector::generate::truth::Truth;
use narrows_collector::generate::{frames, Scenario};
use narrows_collector::wire::{self, original};
use narrows_collector::{Error, Result};
use proptest::prelude::*;
use tempfile::TempDir;

const PORT: u16 = 5500;
/// Offset of the report behind Ethernet, IPv4 and UDP.
const REPORT: usize = 42;

fn scenario() -> Scenario {
    Scenario { reports: 3000, flows: 5, buffer_bytes: 60_000, ..Scenario::default() }
}

fn all_frames(scenario: &Scenario) -> (Vec<Vec<u8>>, Truth) {
    let mut all = Vec::new();
    let truth = frames(scenario, |_, frame| {
        all.push(frame.to_vec());
        Ok(())
    });
    (all, truth.unwrap())
}

fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    for frame in frames {
        [0, 0, frame.len() as u32, frame.len() as u32].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(frame);
    }
    bytes
}

/// pcapng with both byte orders, padding and blocks to be skipped.
fn pcapng(frames: &[Vec<u8>], big_endian: bool) -> Vec<u8> {
    let word = |value: u32| {
        if big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    };
    let half = |value: u16| {
        if big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    };
    let mut bytes = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let padding = (4 - body.len() % 4) % 4;
        let length = word((12 + body.len() + padding) as u32);
        bytes.extend([&word(kind)[..], &length, body, &vec![0; padding], &length].concat());
    };
    block(0x0a0d_0d0a, &[&word(0x1a2b_3c4d)[..], &half(1), &half(0), &[0xff; 8]].concat());
    block(1, &[&half(1)[..], &half(0), &word(0)].concat());
    block(5, &[0; 12]);
    for (index, frame) in frames.iter().enumerate() {
        let length = word(frame.len() as u32);
        if index % 3 == 0 {
            block(3, &[&length[..], frame].concat());
        } else {
            block(6, &[&word(0)[..], &word(0), &word(0), &length, &length, frame].concat());
        }
    }
    bytes
}

struct Run {
    directory: TempDir,
}

impl Run {
    fn new() -> Self {
        Run { directory: TempDir::new().unwrap() }
    }

    fn out(&self) -> PathBuf {
        self.directory.path().join("out")
    }

    fn aggregate(&self, bytes: &[u8]) -> Result<Summary> {
        let source = self.directory.path().join("source");
        fs::write(&source, bytes).unwrap();
        aggregate(&AggregateSettings {
            interval_s: 0.000_1,
            queue_interval_s: 0.000_1,
            ..AggregateSettings::new(source, self.out(), PORT)
        })
    }

    fn totals(&self) -> Table {
        read_table(&self.out().join("flow_totals.parquet"))
    }

    /// Departures and drops of each flow of the truth.
    fn counters(&self, truth: &Truth) -> Vec<(u64, u64)> {
        let totals = self.totals();
        let flows = truth.bottlenecks.iter().flat_map(|b| b.flows.iter().map(|flow| (b.index, flow)));
        flows
            .map(|(index, flow)| {
                let key = [u64::from(index), u64::from(flow.flow), u64::from(flow.signature)];
                (totals.sum_where("departures", key), totals.sum_where("drops", key))
            })
            .collect()
    }
}

fn true_counters(truth: &Truth) -> Vec<(u64, u64)> {
    truth.bottlenecks.iter().flat_map(|b| b.flows.iter().map(|flow| (flow.departures, flow.drops))).collect()
}

fn files_in(directory: &PathBuf) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn every_file_format_gives_the_same_reports() {
    let (frames, truth) = all_frames(&scenario());
    let little = pcap(&frames);
    let mut big = little.clone();
    // The same file in the other byte order.
    let mut swap = |start: usize| big[start..start + 4].reverse();
    [0, 8, 12, 16, 20].into_iter().for_each(&mut swap);
    let mut position = 24;
    for frame in &frames {
        (0..4).for_each(|word| swap(position + 4 * word));
        position += 16 + frame.len();
    }
    big[4..8].copy_from_slice(&[0, 2, 0, 4]);
    let mut nanoseconds = little.clone();
    nanoseconds[..4].copy_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
    for bytes in [little, big, nanoseconds, pcapng(&frames, false), pcapng(&frames, true)] {
        let run = Run::new();
        let summary = run.aggregate(&bytes).unwrap();
        assert_eq!((summary.reports, summary.truncated_at), (3000, None));
        assert_eq!(run.counters(&truth), true_counters(&truth));
    }
}

#[test]
fn what_is_no_capture_is_refused_and_leaves_nothing() {
    let (frames, _) = all_frames(&scenario());
    let good = pcap(&frames);
    let mut link_type = good.clone();
    link_type[20] = 113;
    let mut version = good.clone();
    version[4] = 3;
    let mut length = good.clone();
    length[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    let cases: [(&[u8], &str); 7] = [
        (b"", "too short"),
        (b"not a capture file at all, really", "neither a pcap nor a pcapng"),
        (&link_type, "link type 113"),
        (&version, "pcap version 3"),
        (&length, "damaged at byte 24"),
        (&good[..24], "no reports to UDP port 5500"),
        (&good[..10], "too short"),
    ];
    for (bytes, message) in cases {
        let run = Run::new();
        let error = run.aggregate(bytes).unwrap_err();
        assert!(matches!(error, Error::Input(_)) && error.to_string().contains(message), "{message}: {error}");
        assert_eq!(error.exit_code(), 2);
        assert!(!run.out().exists() || files_in(&run.out()).is_empty(), "{message}");
    }
}

#[test]
fn two_runs_in_one_file_are_refused() {
    let (first, _) = all_frames(&scenario());
    let (second, _) = all_frames(&Scenario { seed: 2, ..scenario() });
    let run = Run::new();
    let error = run.aggregate(&pcap(&[first.clone(), second.clone()].concat())).unwrap_err();
    assert!(error.to_string().contains("bottleneck 0 begins anew"), "{error}");
    assert!(files_in(&run.out()).is_empty());
    let rates = [first, all_frames(&Scenario { sample_shift: 2, ..scenario() }).0].concat();
    assert!(run.aggregate(&pcap(&rates)).unwrap_err().to_string().contains("sampling rate"));
}

#[test]
fn other_versions_and_damaged_headers_are_counted() {
    let (frames, _) = all_frames(&scenario());
    let mut damaged = frames.clone();
    damaged[10][REPORT] = 3;
    damaged[20][26] ^= 1; // source address: the IPv4 checksum no longer holds
    damaged[30].truncate(80);
    damaged[40][REPORT + 2] = 64;
    damaged[50][REPORT + 3] = 21;
    damaged[60][37] ^= 1; // destination port
    damaged[70][40..42].copy_from_slice(&[0x12, 0x34]); // a UDP checksum that does not hold
    let run = Run::new();
    let summary = run.aggregate(&pcap(&damaged)).unwrap();
    for reason in ["version", "ipv4_checksum", "short", "bottleneck", "sample_shift", "udp_checksum"] {
        assert_eq!(summary.bad[reason], 1, "{reason}");
    }
    assert_eq!(summary.other_traffic, 1);
    let account = &summary.bottlenecks["0"].account;
    assert_eq!((account.reports, account.lost), (2993, 7));
}

/// Every bit of a report, in reports at the start, in the middle and near the end.
#[test]
fn every_single_bit_of_some_reports_can_be_damaged() {
    for frame in [1, 1200] {
        for bit in (REPORT * 8..90 * 8).step_by(7) {
            assert_damage_is_harmless(frame, bit);
        }
    }
}

fn assert_damage_is_harmless(frame: usize, bit: usize) {
    let (mut frames, truth) = all_frames(&scenario());
    frames[frame][bit / 8] ^= 1 << (bit % 8);
    let run = Run::new();
    let summary = run.aggregate(&pcap(&frames)).unwrap_or_else(|e| panic!("frame {frame} bit {bit}: {e}"));
    let account = &summary.bottlenecks["0"].account;
    assert!(account.lost <= 1 && account.reports >= 2999, "frame {frame} bit {bit}: {account:?}");
    // Damage to flow index or signature makes one packet another flow's, with the drops just before it.
    let identity = [REPORT + 4, REPORT + 5].contains(&(bit / 8)) || (REPORT + 8..REPORT + 12).contains(&(bit / 8));
    if !identity {
        assert_eq!(run.counters(&truth), true_counters(&truth), "frame {frame} bit {bit}");
    }
    // A flow that exists only in the damaged report has at most that one packet.
    let totals = run.totals();
    assert!((3000..=3001).contains(&column(&totals, "departures").iter().sum::<u64>()), "frame {frame} bit {bit}");
    let drops: u64 = true_counters(&truth).iter().map(|counters| counters.1).sum();
    assert_eq!(column(&totals, "drops").iter().sum::<u64>(), drops, "frame {frame} bit {bit}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_file_cut_anywhere_gives_all_complete_records(share in 0.0..1.0_f64) {
        let (frames, _) = all_frames(&scenario());
        let whole = pcap(&frames);
        let cut = 24 + ((whole.len() - 24) as f64 * share) as usize;
        let complete = frames.iter().scan(24, |end, frame| { *end += 16 + frame.len(); Some(*end) });
        let complete = complete.filter(|end| *end <= cut).count() as u64;
        let run = Run::new();
        match run.aggregate(&whole[..cut]) {
            Ok(summary) => {
                prop_assert_eq!(summary.reports, complete);
                let at_end = whole[..cut].len() == 24 + frames.iter().take(complete as usize).map(|f| 16 + f.len()).sum::<usize>();
                prop_assert_eq!(summary.truncated_at.is_none(), at_end);
                prop_assert_eq!(column(&run.totals(), "reports").iter().sum::<u64>(), complete);
            }
            Err(error) => prop_assert!(complete == 0 && error.exit_code() == 2),
        }
    }

    #[test]
    fn lost_duplicated_and_reordered_reports_change_no_counter(
        fates in prop::collection::vec((0_u8..100, 0_usize..40), 3000),
    ) {
        let (frames, truth) = all_frames(&scenario());
        // The last report of each flow stays: nothing after it says the same.
        let keep = frames.len() - 400;
        let mut delivered: Vec<(usize, &Vec<u8>)> = Vec::new();
        let (mut lost, mut duplicated) = (0, 0);
        for (index, frame) in frames.iter().enumerate() {
            let (fate, delay) = if index == 0 || index >= keep { (50, 0) } else { fates[index] };
            if fate < 5 { lost += 1; continue; }
            let late = if index >= keep { 100 } else { delay };
            delivered.push((index + late, frame));
            if fate >= 95 { duplicated += 1; delivered.push((index + late + 10, frame)); }
        }
        delivered.sort_by_key(|entry| entry.0);
        let delivered: Vec<Vec<u8>> = delivered.into_iter().map(|entry| entry.1.clone()).collect();
        let run = Run::new();
        let summary = run.aggregate(&pcap(&delivered)).unwrap();
        let account = &summary.bottlenecks["0"].account;
        prop_assert_eq!((account.lost, account.duplicates, account.late), (lost, duplicated, 0));
        prop_assert_eq!(summary.implausible_counters, 0);
        prop_assert_eq!(run.counters(&truth), true_counters(&truth));
    }

    #[test]
    fn one_damaged_bit_changes_no_sum_and_no_other_flow(frame in 1_usize..2500, bit in 0_usize..(90 * 8)) {
        assert_damage_is_harmless(frame, bit);
    }

    #[test]
    fn any_damage_to_a_file_gives_an_answer_or_an_error(
        damage in prop::collection::vec((0_usize..200_000, any::<u8>()), 1..40),
        kind in 0..3,
    ) {
        let (frames, _) = all_frames(&Scenario { reports: 500, mixed_headers: true, ..scenario() });
        let mut bytes = match kind { 0 => pcap(&frames), 1 => pcapng(&frames, false), _ => pcapng(&frames, true) };
        for (position, value) in damage {
            let length = bytes.len();
            bytes[position % length] = value;
        }
        match Run::new().aggregate(&bytes) {
            Ok(summary) => prop_assert!(summary.reports <= 500),
            Err(error) => prop_assert_eq!(error.exit_code(), 2),
        }
    }

    #[test]
    fn arbitrary_bytes_are_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), length: u16) {
        let _ = wire::decode(&bytes, PORT);
        let _ = original::Original::parse(&bytes, length);
        let _ = original::five_tuple(&bytes);
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("file");
        for head in [&[][..], &0xa1b2_c3d4_u32.to_le_bytes(), &0x0a0d_0d0a_u32.to_be_bytes()] {
            fs::write(&path, [head, &bytes].concat()).unwrap();
            if let Ok(mut file) = CaptureFile::open(&path) {
                if let Ok(End::Truncated { offset }) = file.for_each(|_| true) {
                    prop_assert!(offset <= bytes.len() as u64 + 4);
                }
            }
        }
    }
}
