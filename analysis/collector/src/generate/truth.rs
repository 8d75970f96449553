// SPDX-License-Identifier: Apache-2.0
//! The model's ground truth.

use serde::{Deserialize, Serialize};

/// Truth of a whole capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truth {
    pub reports: u64,
    pub bottlenecks: Vec<BottleneckTruth>,
}

/// Truth of one bottleneck up to its last departure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BottleneckTruth {
    pub index: u8,
    pub departures: u64,
    pub bytes: u64,
    pub first_timestamp: u64,
    pub last_timestamp: u64,
    pub delay_sum: u64,
    pub delay_min: u64,
    pub delay_max: u64,
    pub depth_max: u32,
    pub flows: Vec<FlowTruth>,
}

/// Truth of one flow up to its last departure, at which every drop before it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowTruth {
    pub flow: u16,
    pub signature: u32,
    pub departures: u64,
    pub bytes: u64,
    pub payload_bytes: u64,
    pub retransmitted_bytes: u64,
    pub ce_marks: u64,
    pub delay_sum: u64,
    pub delay_min: u64,
    pub delay_max: u64,
    /// Tail drops before the last departure.
    pub drops: u64,
    /// Loss-emulation drops before the last departed packet arrived.
    pub loss_drops: u64,
    pub first_timestamp: u64,
    pub last_timestamp: u64,
}
