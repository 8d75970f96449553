// SPDX-License-Identifier: Apache-2.0
//! Frames, as read from either format.

/// Link type of Ethernet in both formats.
pub const ETHERNET: u32 = 1;
/// No captured frame and no block is longer; a larger length means a damaged file.
pub(crate) const MAX_RECORD_BYTES: usize = 16 << 20;

/// A captured frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// [`ETHERNET`], or that of another kind of interface.
    pub link_type: u32,
    /// Nanoseconds since the epoch. `None` if the format has no time, or in a unit that does not fit.
    pub time_ns: Option<u64>,
    /// Length on the wire in bytes, as the file says: in a valid file at least as many as were captured.
    pub wire_length: usize,
    /// The captured bytes.
    pub bytes: &'a [u8],
}

/// A step through a file: how many bytes to skip, and the frame in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step<'a> {
    pub(crate) consumed: usize,
    pub(crate) frame: Option<Frame<'a>>,
}
