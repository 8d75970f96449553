// SPDX-License-Identifier: Apache-2.0
//! Counts frames by fate and keeps one [`Sequencer`] a bottleneck.

use std::path::Path;

use crate::error::Error;
use crate::sequencer::{SequenceCounts, Sequencer};
use crate::wire::{report, Record, Reject, BOTTLENECKS};

/// Frames by fate, before the sequence is looked at.
#[derive(Clone, Debug, Default)]
pub struct FrameCounts {
    pub frames: u64,
    pub bytes: u64,
    pub reports: u64,
    rejected: [u64; Reject::ALL.len()],
}

impl FrameCounts {
    /// Counts a frame of `bytes` captured bytes with a report.
    #[inline]
    pub fn accept(&mut self, bytes: usize) {
        self.frames += 1;
        self.bytes += bytes as u64;
        self.reports += 1;
    }

    /// Counts a frame without a report.
    pub fn reject(&mut self, bytes: usize, reason: Reject) {
        self.frames += 1;
        self.bytes += bytes as u64;
        self.rejected[reason as usize] += 1;
    }

    /// Adds what another intake has counted.
    pub fn merge(&mut self, other: &FrameCounts) {
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.reports += other.reports;
        for (rejected, more) in self.rejected.iter_mut().zip(other.rejected) {
            *rejected += more;
        }
    }

    /// Frames rejected for `reason`.
    pub fn rejected(&self, reason: Reject) -> u64 {
        self.rejected[reason as usize]
    }

    /// Damaged or foreign reports: everything rejected except other traffic.
    pub fn bad(&self) -> u64 {
        self.rejected.iter().sum::<u64>() - self.rejected(Reject::Other)
    }
}

/// The error for a source without a usable report: it has `frames` frames, `bad` of them bad reports. `other_version` is
/// what [`crate::wire::Decoder::other_version`] has found.
pub fn no_reports(source: &Path, port: u16, frames: u64, bad: u64, other_version: Option<u8>) -> Error {
    let source = source.display();
    let other = other_version.map_or_else(String::new, |found| {
        let read = report::VERSION;
        format!("; they begin with version {found}, of another format or release: version {read} is read")
    });
    Error::Input(format!("{source}: no reports to UDP port {port} ({frames} frames, {bad} of them bad reports{other})"))
}

/// One sequencer a bottleneck, made when its first report comes.
pub struct Sequencers {
    sequencers: [Option<Box<Sequencer>>; BOTTLENECKS],
}

impl Default for Sequencers {
    fn default() -> Self {
        Sequencers { sequencers: [const { None }; BOTTLENECKS] }
    }
}

impl Sequencers {
    /// Takes a report whose bottleneck index [`crate::wire::check`] has accepted.
    #[inline]
    pub fn push(&mut self, record: &Record, emit: &mut impl FnMut(&Record)) {
        let index = usize::from(record.report.bottleneck) % BOTTLENECKS;
        self.sequencers[index].get_or_insert_default().push(record, emit);
    }

    /// Passes on what is still held.
    pub fn finish(&mut self, emit: &mut impl FnMut(&Record)) {
        for sequencer in self.sequencers.iter_mut().flatten() {
            sequencer.finish(emit);
        }
    }

    /// The first bottleneck whose sequence began anew.
    pub fn first_restart(&self) -> Option<u8> {
        let restarted = |s: &Option<Box<Sequencer>>| s.as_ref().is_some_and(|s| s.counts().restarts > 0);
        self.sequencers.iter().position(restarted).map(|index| index as u8)
    }

    /// Counts of every bottleneck that sent a report.
    pub fn counts(&self) -> Vec<(u8, SequenceCounts)> {
        let seen = self.sequencers.iter().enumerate();
        seen.filter_map(|(index, s)| s.as_ref().map(|s| (index as u8, s.counts()))).collect()
    }
}
