// SPDX-License-Identifier: Apache-2.0
//! What either format is read into.

/// Link type of Ethernet in both formats.
pub const ETHERNET: u32 = 1;
/// No captured frame and no block is longer; a greater length means a damaged file.
pub(crate) const MAX_RECORD_BYTES: usize = 16 << 20;

/// A captured frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// [`ETHERNET`], or what else its interface was.
    pub link_type: u32,
    /// Nanoseconds since the epoch. `None` where the format has none, or in a unit that does not fit.
    pub time_ns: Option<u64>,
    /// Length on the wire in bytes, as the file says: of sound files at least as many as were captured.
    pub wire_length: usize,
    /// The captured bytes.
    pub bytes: &'a [u8],
}

/// A step through a file: bytes to skip and the frame among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step<'a> {
    pub(crate) consumed: usize,
    pub(crate) frame: Option<Frame<'a>>,
}
