//! A pcap file in memory: frames are looked at where they lie in the page cache, so that what is not read is not copied.
// SPDX-License-Identifier: Apache-2.0
use std::fs::File;

use narrows_captures::pcap::{PcapHeader, FILE_HEADER_BYTES, RECORD_HEADER_BYTES};
use narrows_captures::ReadError;
use narrows_packet_sockets::Mapping;

/// The frames of a mapped pcap file (not pcapng).
pub struct MappedPcap {
    file: Mapping,
    header: PcapHeader,
    next: usize,
}

/// What is known of a frame before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Capture time in nanoseconds since the epoch.
    pub time_ns: u64,
    /// Length on the wire.
    pub wire_length: usize,
    /// Bytes that were captured.
    pub captured: usize,
    /// Where those lie in a file that is mapped.
    pub first: usize,
}

/// Bytes of a frame that are asked for ahead, at most: what follows them is fetched in order.
const FAR: usize = 256;
/// How far ahead short frames are asked for.
const AHEAD: usize = 1_024;
/// Bytes of a cache line.
const LINE: usize = 64;

impl MappedPcap {
    /// `None` if the file cannot be mapped or is not a pcap file.
    pub fn open(file: &File) -> Result<Option<Self>, ReadError> {
        let Some(file) = map(file) else {
            return Ok(None);
        };
        if !PcapHeader::starts(bytes(&file)) {
            return Ok(None);
        }
        let header = PcapHeader::parse(bytes(&file)).map_err(ReadError::Format)?;
        Ok(Some(MappedPcap { file, header, next: FILE_HEADER_BYTES }))
    }

    /// The next frame; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Head>, ReadError> {
        if let Some(head) = self.sound() {
            return Ok(Some(head));
        }
        let rest = self.rest();
        let Some(header) = rest.first_chunk::<RECORD_HEADER_BYTES>() else {
            return if rest.is_empty() { Ok(None) } else { cut_short() };
        };
        let record = self.header.record(header).map_err(ReadError::Format)?;
        check_lengths(record.captured, record.wire_length)?;
        cut_short()
    }

    /// The next frame, if there is one and nothing is wrong with it. Its head stays in registers: with what can be wrong it
    /// would go through memory several times, which takes a twelfth of a replay.
    #[inline(always)]
    pub fn sound(&mut self) -> Option<Head> {
        let (header, rest) = self.rest().split_first_chunk::<RECORD_HEADER_BYTES>()?;
        let record = self.header.record(header).ok()?;
        if record.captured > record.wire_length || record.captured > rest.len() {
            return None;
        }
        let first = self.next + RECORD_HEADER_BYTES;
        self.next = first + record.captured;
        let (time_ns, (captured, wire_length)) = (record.time_ns, self.header.without_fcs(&record));
        Some(Head { time_ns, wire_length, captured, first })
    }

    #[inline]
    fn rest(&self) -> &[u8] {
        bytes(&self.file).get(self.next..).unwrap_or_default()
    }

    /// Asks for what will be read some frames later: as many bytes as the frame takes itself, if all of it is read, so that no line is
    /// left out. Of longer frames the beginning of the next one: where those behind it lie is not known yet. With many captures
    /// at once the processor does not see by itself that each is read in order.
    #[inline]
    pub fn prefetch_behind(&self, head: &Head, shown: usize) {
        let behind = head.first + head.captured;
        let (from, count) = match RECORD_HEADER_BYTES + head.captured {
            record if record <= FAR => (behind + AHEAD, record),
            _ => (behind, RECORD_HEADER_BYTES + shown.min(FAR)),
        };
        let bytes = bytes(&self.file);
        let mut at = from;
        while at < from + count {
            if let Some(byte) = bytes.get(at) {
                narrows_pipeline::prefetch(byte);
            }
            at += LINE;
        }
    }

    /// The captured bytes of a frame.
    #[inline]
    pub fn bytes(&self, head: &Head) -> &[u8] {
        bytes(&self.file).get(head.first..head.first + head.captured).unwrap_or_default()
    }
}

/// `None` if the file cannot be mapped: a pipe, for example, or an empty file.
fn map(file: &File) -> Option<Mapping> {
    Mapping::of_file(file, usize::try_from(file.metadata().ok()?.len()).ok()?).ok()
}

#[inline]
fn bytes(file: &Mapping) -> &[u8] {
    // SAFETY: the mapping is as long and lives as long as `file`. A capture must not be written to while it is replayed, as
    // the documentation says: cutting it short ends the process.
    unsafe { std::slice::from_raw_parts(file.start(), file.length()) }
}

/// A frame cannot be shorter on the wire than what was captured of it.
#[inline]
pub(super) fn check_lengths(captured: usize, wire_length: usize) -> Result<(), ReadError> {
    if captured > wire_length {
        return Err(ReadError::Format(format!("a record of {captured} captured of {wire_length} bytes")));
    }
    Ok(())
}

#[cold]
pub(super) fn cut_short<T>() -> Result<T, ReadError> {
    Err(ReadError::Format("the capture ends in the middle of a record".into()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::streamed::Streamed;

    fn file(name: &str, bytes: &[u8]) -> PathBuf {
        let path = std::env::temp_dir().join(format!("narrows-mapped-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).expect("a temporary file");
        path
    }

    /// Time, length on the wire and bytes of each frame.
    type Frames = Vec<(u64, usize, Vec<u8>)>;

    fn all(bytes: &[u8], name: &str) -> Result<Option<Frames>, ReadError> {
        let path = file(name, bytes);
        let opened = MappedPcap::open(&File::open(&path).expect("made above"));
        std::fs::remove_file(&path).expect("made above");
        let Some(mut mapped) = opened? else {
            return Ok(None);
        };
        let mut records = vec![];
        while let Some(head) = mapped.next()? {
            records.push((head.time_ns, head.wire_length, mapped.bytes(&head).to_vec()));
        }
        Ok(Some(records))
    }

    /// Two frames, the second one cut short, in a file of each byte order and resolution.
    fn captures() -> Vec<Vec<u8>> {
        let mut files = vec![];
        for (big, magic) in [(false, 0xa1b2_c3d4_u32), (true, 0xa1b2_c3d4), (false, 0xa1b2_3c4d), (true, 0xa1b2_3c4d)] {
            let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
            let mut bytes = word(magic).to_vec();
            let version = if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
            bytes.extend([version, [0; 4], [0; 4], word(65_535), word(1)].concat());
            bytes.extend([word(5), word(7), word(14), word(14)].concat());
            bytes.extend([1; 14]);
            bytes.extend([word(6), word(8), word(3), word(99)].concat());
            bytes.extend([2; 3]);
            files.push(bytes);
        }
        files
    }

    #[test]
    fn frames_are_those_of_the_streaming_reader() {
        for (number, bytes) in captures().iter().enumerate() {
            let path = file(&format!("streamed-{number}"), bytes);
            let mut streamed = Streamed::new(File::open(&path).expect("made above")).expect("valid");
            std::fs::remove_file(&path).expect("made above");
            let mut records = vec![];
            while let Some(head) = streamed.next().expect("valid") {
                records.push((head.time_ns, head.wire_length, streamed.bytes().to_vec()));
            }
            assert_eq!(records.len(), 2);
            assert_eq!(all(bytes, &format!("frames-{number}")).expect("valid"), Some(records));
        }
    }

    #[test]
    fn a_file_that_ends_too_early_is_refused() {
        let bytes = &captures()[0];
        for length in [10, 24 + 5, 24 + 16, 24 + 16 + 13, bytes.len() - 1] {
            assert!(all(&bytes[..length], &format!("cut-{length}")).is_err(), "{length}");
        }
        assert_eq!(all(&bytes[..24], "empty").expect("valid"), Some(vec![]));
    }

    #[test]
    fn other_files_are_left_to_the_streaming_reader() {
        assert_eq!(all(&[0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 0], "pcapng").expect("not pcap"), None);
        assert_eq!(all(&[], "nothing").expect("not pcap"), None);
    }
}
