//! What is counted of frames that leave.
// SPDX-License-Identifier: Apache-2.0
/// Counters of transmission.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransmitCounters {
    /// Frames sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Frames dropped because the interface stayed full.
    pub drops: u64,
    /// Frames refused by the interface.
    pub errors: u64,
}
