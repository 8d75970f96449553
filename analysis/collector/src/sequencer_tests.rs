// SPDX-License-Identifier: Apache-2.0
//! Order, loss and implausible reports, against counts known by construction.

use proptest::prelude::*;

use super::*;

fn record(sequence: u32, shift: u8) -> Record {
    let mut record = Record::default();
    record.report.sequence = sequence;
    record.report.sample_shift = shift;
    record.report.timestamp = u64::from(sequence);
    record
}

fn run(sequences: &[u32], shift: u8) -> (Vec<u32>, SequenceCounts) {
    let mut sequencer = Sequencer::default();
    let mut out = Vec::new();
    for &sequence in sequences {
        sequencer.push(&record(sequence, shift), &mut |r| out.push(r.report.sequence));
    }
    sequencer.finish(&mut |r| out.push(r.report.sequence));
    (out, sequencer.counts())
}

#[test]
fn a_complete_sequence_passes_across_the_wrap() {
    let sequences: Vec<u32> = (0..2000_u32).map(|i| (u32::MAX - 1000).wrapping_add(i)).collect();
    let (out, counts) = run(&sequences, 0);
    assert_eq!(out, sequences);
    assert_eq!((counts.reports, counts.lost, counts.restarts), (2000, 0, 0));
}

#[test]
fn the_first_to_come_need_not_be_the_first() {
    let (out, counts) = run(&[6, 5, 1, 2, 4, 3, 7, 8], 0);
    assert_eq!(out, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!((counts.lost, counts.late, counts.restarts), (0, 0, 0));
    // A damaged first report is recognised by the others.
    let sequences: Vec<u32> = std::iter::once(1 << 30).chain(10..200).collect();
    let (out, counts) = run(&sequences, 0);
    assert_eq!(out, (10..200).collect::<Vec<u32>>());
    assert_eq!((counts.lost, counts.implausible, counts.restarts), (0, 1, 0));
}

#[test]
fn what_nothing_can_precede_passes_at_once() {
    for shift in [0, 3] {
        let mut sequencer = Sequencer::default();
        let mut out = Vec::new();
        for place in [2_u32, 1, 3] {
            sequencer.push(&record(place << shift, shift), &mut |r| out.push(r.report.sequence >> shift));
        }
        assert_eq!(out, [1, 2, 3]);
    }
}

#[test]
fn gaps_count_in_rows_of_departures() {
    // Rows 0, 1, 4 and 5 of 8 departures each, reported anywhere in them.
    for sequences in [[8, 16, 40, 48], [1, 9, 33, 41], [8, 9, 40, 41], [3, 14, 33, 48]] {
        let (out, counts) = run(&sequences, 3);
        assert_eq!(out, sequences);
        assert_eq!((counts.lost, counts.reordered, counts.restarts), (2, 0, 0));
    }
}

#[test]
fn a_long_gap_is_lost_once() {
    let (out, counts) = run(&[1, 2, 1000, 1001], 0);
    assert_eq!(out, [1, 2, 1000, 1001]);
    assert_eq!(counts.lost, 997);
    let (_, counts) = run(&[1, 2, 1_000_000, 1_000_001, 1_000_002], 0);
    assert_eq!((counts.lost, counts.restarts), (999_997, 0));
}

#[test]
fn reordering_and_duplicates_are_no_loss() {
    let (out, counts) = run(&[1, 2, 4, 5, 3, 5, 6, 2], 0);
    assert_eq!(out, [1, 2, 3, 4, 5, 6]);
    assert_eq!((counts.lost, counts.reordered, counts.duplicates, counts.late), (0, 1, 2, 0));
}

#[test]
fn a_report_already_given_up_is_late_and_stays_lost() {
    let mut sequences = vec![1, 2];
    sequences.extend(4..400);
    sequences.push(3);
    let (out, counts) = run(&sequences, 0);
    assert_eq!(out.len() as u64, counts.reports);
    assert_eq!((counts.lost, counts.late, counts.duplicates), (1, 1, 0));
}

#[test]
fn one_damaged_sequence_is_skipped_not_followed() {
    let (out, counts) = run(&[1, 2, 0x8000_0003, 3, 4, 5], 0);
    assert_eq!(out, [1, 2, 3, 4, 5]);
    assert_eq!((counts.lost, counts.implausible, counts.restarts), (0, 1, 0));
}

#[test]
fn a_sequence_that_begins_anew_is_a_restart() {
    let (out, counts) = run(&[5000, 5001, 5002, 1, 2, 3], 0);
    assert_eq!(out, [5000, 5001, 5002, 1, 2, 3]);
    assert_eq!((counts.lost, counts.restarts), (0, 1));
}

#[test]
fn a_single_report_counts() {
    assert_eq!(run(&[7], 0).0, [7]);
}

proptest! {
    #[test]
    fn loss_duplicates_and_local_reordering_are_counted_exactly(
        start: u32,
        shift in 0_u8..5,
        fates in prop::collection::vec((0_u8..100, 0_usize..50, 0_u32..16), 2..2000),
    ) {
        // Every fate: lost (5 %), duplicated (5 %) or passed; delivery is delayed by up to 49 positions; which packet of the
        // row is reported.
        let step = 1_u32 << shift;
        let start = (start & !(step - 1)).wrapping_add(1);
        let last = fates.len() - 1;
        let mut deliveries = Vec::new();
        let mut lost = 0;
        let mut duplicated = 0;
        for (position, &(fate, delay, sampled)) in fates.iter().enumerate() {
            let sequence = start.wrapping_add(step.wrapping_mul(position as u32)).wrapping_add(sampled & (step - 1));
            // First and last arrive, in place: there is no way to notice their loss.
            let inner = position > 0 && position < last;
            if inner && fate < 5 {
                lost += 1;
                continue;
            }
            let time = if position == 0 { 0 } else if inner { position + 1 + delay } else { position + 100 };
            deliveries.push((time, position, sequence));
            if inner && fate >= 95 {
                duplicated += 1;
                deliveries.push((time + 20, position, sequence));
            }
        }
        deliveries.sort_unstable();
        let sequences: Vec<u32> = deliveries.iter().map(|d| d.2).collect();
        let (out, counts) = run(&sequences, shift);
        prop_assert_eq!(counts.lost, lost);
        prop_assert_eq!(counts.duplicates, duplicated);
        prop_assert_eq!((counts.late, counts.implausible, counts.restarts), (0, 0, 0));
        prop_assert_eq!(counts.reports, fates.len() as u64 - lost);
        let positions: Vec<u32> = out.iter().map(|s| s.wrapping_sub(start)).collect();
        prop_assert!(positions.windows(2).all(|w| w[0] < w[1]));
    }
}
