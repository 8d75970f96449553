// SPDX-License-Identifier: Apache-2.0
//! `collector.json`: what was received, what was not, and why the collector stopped.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::intake::FrameCounts;
use crate::sequencer::SequenceCounts;
use crate::storage::write_json;
use crate::wire::Reject;

/// Name of the file.
pub const FILE_NAME: &str = "collector.json";

/// The contents of the file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Account {
    pub collector_version: String,
    pub schema_version: String,
    pub report_version: u8,
    /// Interface name or file path.
    pub source: String,
    pub udp_port: u16,
    /// Start and end of the collector by the host's clock, in seconds since 1970.
    pub started_unix_s: f64,
    pub ended_unix_s: f64,
    /// `signal`, `end_of_file`, `truncated_file`, `disk_full` or `error`.
    pub stop_reason: String,
    /// The error in words, if there was one.
    pub error: Option<String>,
    pub frames: u64,
    pub bytes: u64,
    pub other_traffic: u64,
    pub bad: BTreeMap<String, u64>,
    /// Reports stored whose original packet contradicts itself (IP length beyond the frame, ...).
    pub malformed_originals: u64,
    /// Frames that the kernel dropped because the ring was full.
    pub kernel_ring_drops: u64,
    /// Reports decoded but not stored because the disk was full.
    pub rows_not_stored: u64,
    pub rows: u64,
    pub files: u32,
    pub flows: u64,
    pub flow_keys_overflow: u64,
    /// Rows of the table of drops.
    #[serde(default)]
    pub drop_records: u64,
    pub bottlenecks: BTreeMap<String, SequenceCounts>,
}

impl Account {
    /// Adopts the counts of frames.
    pub fn set_frames(&mut self, counts: &FrameCounts) {
        self.frames = counts.frames;
        self.bytes = counts.bytes;
        self.other_traffic = counts.rejected(Reject::Other);
        let bad = Reject::ALL.iter().filter(|&&reason| reason != Reject::Other);
        self.bad = bad.map(|&reason| (reason.name().to_string(), counts.rejected(reason))).collect();
    }

    /// Adopts the counts of every bottleneck.
    pub fn set_sequences(&mut self, counts: Vec<(u8, SequenceCounts)>) {
        self.bottlenecks = counts.into_iter().map(|(index, c)| (index.to_string(), c)).collect();
    }

    /// Writes the account under its final name at once.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn write(&self, directory: &Path) -> Result<()> {
        write_json(&directory.join(FILE_NAME), self)
    }
}
