// SPDX-License-Identifier: Apache-2.0
//! Capture files out: pcap with nanosecond timestamps.

use std::io::{self, Write};

use crate::frame::ETHERNET;
use crate::pcap::{FILE_HEADER_BYTES, MAGIC_NANOSECONDS, RECORD_HEADER_BYTES};

/// Bytes gathered before they are written: few enough to stay in the cache. Whole blocks are written, so that the file grows by
/// whole pages.
pub(crate) const BLOCK: usize = 1 << 18;

/// Writes a pcap file with nanosecond timestamps.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
    snap_length: usize,
    block: Box<[u8]>,
    /// Bytes of the block that wait to be written.
    filled: usize,
}

impl<W: Write> Writer<W> {
    /// Starts with the file header. `snap_length`: the most bytes of each frame that are kept; 0 = all.
    pub fn new(output: W, snap_length: usize) -> Self {
        let snap_length = if snap_length == 0 { 262_144 } else { snap_length };
        let mut block = vec![0; BLOCK].into_boxed_slice();
        block[..4].copy_from_slice(&MAGIC_NANOSECONDS.to_le_bytes());
        block[4..8].copy_from_slice(&[2, 0, 4, 0]);
        block[16..20].copy_from_slice(&(snap_length as u32).to_le_bytes());
        block[20..24].copy_from_slice(&ETHERNET.to_le_bytes());
        Writer { output, snap_length, block, filled: FILE_HEADER_BYTES }
    }

    /// Where it writes to.
    pub fn output(&self) -> &W {
        &self.output
    }

    /// Bytes that wait to be written.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.filled
    }

    /// Appends a frame of `wire_length` bytes: `frame`, then zeros.
    ///
    /// # Errors
    /// Writing failed.
    #[inline(always)]
    pub fn write(&mut self, time_ns: u64, frame: &[u8], wire_length: u32) -> io::Result<()> {
        let length = self.snap_length.min(wire_length as usize);
        let kept = &frame[..frame.len().min(length)];
        let time = (time_ns / 1_000_000_000) | ((time_ns % 1_000_000_000) << 32);
        let lengths = length as u64 | (u64::from(wire_length) << 32);
        let rest =
            self.block.get_mut(self.filled..).and_then(|rest| rest.split_first_chunk_mut::<RECORD_HEADER_BYTES>());
        let Some((header, rest)) = rest.filter(|(_, rest)| rest.len() > length) else {
            return self.write_out(time, lengths, kept, length - kept.len());
        };
        header[..8].copy_from_slice(&time.to_le_bytes());
        header[8..].copy_from_slice(&lengths.to_le_bytes());
        let (start, zeros) = rest[..length].split_at_mut(kept.len());
        start.copy_from_slice(kept);
        if !zeros.is_empty() {
            zeros.fill(0);
        }
        self.filled += RECORD_HEADER_BYTES + length;
        Ok(())
    }

    /// Appends a frame that does not fit into the block.
    #[cold]
    fn write_out(&mut self, time: u64, lengths: u64, kept: &[u8], zeros: usize) -> io::Result<()> {
        for mut rest in [&time.to_le_bytes()[..], &lengths.to_le_bytes()[..], kept, &vec![0; zeros]] {
            while !rest.is_empty() {
                let (fits, later) = rest.split_at(rest.len().min(BLOCK - self.filled));
                self.block[self.filled..self.filled + fits.len()].copy_from_slice(fits);
                self.filled += fits.len();
                rest = later;
                if self.filled == BLOCK {
                    self.filled = 0;
                    self.output.write_all(&self.block)?;
                }
            }
        }
        Ok(())
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// Writing failed.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.write_all(&self.block[..std::mem::take(&mut self.filled)])?;
        self.output.flush()
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// Writing failed.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()
    }
}
