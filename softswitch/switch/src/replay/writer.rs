//! Capture files out: pcap with nanosecond timestamps.
// SPDX-License-Identifier: Apache-2.0
use std::io::{self, Write};

use super::pcap::ETHERNET;

/// Bytes gathered before they are written: few enough to stay in the cache. Whole blocks are written, so that the file grows by
/// whole pages.
const BLOCK: usize = 1 << 18;
const RECORD_HEADER: usize = 16;

/// Writes a pcap file with nanosecond timestamps.
pub struct Writer<W> {
    output: W,
    snap_length: usize,
    block: Box<[u8]>,
    /// Bytes of the block that wait to be written.
    filled: usize,
}

impl<W: Write> Writer<W> {
    /// Starts with the file header. `snap_length`: bytes of each frame that are kept at most; 0 = all.
    pub fn new(output: W, snap_length: usize) -> Self {
        let snap_length = if snap_length == 0 { 262_144 } else { snap_length };
        let mut block = vec![0; BLOCK].into_boxed_slice();
        block[..4].copy_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
        block[4..8].copy_from_slice(&[2, 0, 4, 0]);
        block[16..20].copy_from_slice(&(snap_length as u32).to_le_bytes());
        block[20..24].copy_from_slice(&ETHERNET.to_le_bytes());
        Writer { output, snap_length, block, filled: 24 }
    }

    /// Appends a frame of `wire_length` bytes: `frame`, then zeros.
    #[inline(always)]
    pub fn write(&mut self, time_ns: u64, frame: &[u8], wire_length: u32) -> io::Result<()> {
        let length = self.snap_length.min(wire_length as usize);
        let kept = &frame[..frame.len().min(length)];
        let time = (time_ns / 1_000_000_000) | ((time_ns % 1_000_000_000) << 32);
        let lengths = length as u64 | (u64::from(wire_length) << 32);
        let rest = self.block.get_mut(self.filled..).and_then(|rest| rest.split_first_chunk_mut::<RECORD_HEADER>());
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
        self.filled += RECORD_HEADER + length;
        Ok(())
    }

    /// Appends a frame that the block has no room for.
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

    /// Writes what is left.
    pub fn finish(mut self) -> io::Result<()> {
        self.output.write_all(&self.block[..self.filled])?;
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::super::pcap::{read_all, Record};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(
            frames in prop::collection::vec(
                (0u64..4_000_000_000_000_000_000, prop::collection::vec(any::<u8>(), 0..100), 0usize..50), 0..20,
            ),
            snap in 0usize..120,
        ) {
            let mut file = vec![];
            let mut writer = Writer::new(&mut file, snap);
            for (time, frame, zeros) in &frames {
                writer.write(*time, frame, (frame.len() + zeros) as u32).expect("memory");
            }
            writer.finish().expect("memory");
            let expected: Vec<Record> = frames.into_iter().map(|(time_ns, mut bytes, zeros)| {
                bytes.resize(bytes.len() + zeros, 0);
                let wire_length = bytes.len();
                bytes.truncate(if snap == 0 { usize::MAX } else { snap });
                Record { time_ns, wire_length, bytes }
            }).collect();
            prop_assert_eq!(read_all(&file).expect("valid"), expected);
        }
    }

    #[test]
    fn frames_across_blocks_are_read_back() {
        // The first frame fills the first block to the byte.
        let lengths = [BLOCK - 24 - RECORD_HEADER, 14, 60_000, BLOCK - 9, 1, BLOCK, 3 * BLOCK + 5, 200];
        let frame = |number: usize| vec![number as u8; lengths[number % lengths.len()]];
        let mut file = vec![];
        let mut writer = Writer::new(&mut file, 4 * BLOCK);
        for number in 0..40 {
            let frame = frame(number);
            // A frame of zeros need not be there.
            let there = if number % 256 == 0 { 7 } else { frame.len() };
            writer.write(number as u64, &frame[..there], frame.len() as u32).expect("memory");
        }
        writer.finish().expect("memory");
        let records = read_all(&file).expect("valid");
        assert_eq!(records.len(), 40);
        for (number, record) in records.iter().enumerate() {
            assert_eq!((record.time_ns, &record.bytes), (number as u64, &frame(number)));
        }
    }
}
