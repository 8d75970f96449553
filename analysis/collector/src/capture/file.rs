// SPDX-License-Identifier: Apache-2.0
//! Capture files of any length in constant memory: frames are handed out from a buffer that is refilled as needed.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::pcap::{self, PcapHeader};
use super::pcapng::Sections;
use crate::error::{Error, Result};

/// Large enough for few system calls, small enough to stay in the second-level cache.
const BUFFER_BYTES: usize = 256 << 10;
/// No captured frame and no block is longer; a greater length means a damaged file.
pub const MAX_RECORD_BYTES: usize = 1 << 20;
/// Link type of Ethernet in both formats.
pub const LINKTYPE_ETHERNET: u32 = 1;

/// How a capture file ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// At the end of a record.
    Complete,
    /// Within a record, which is not handed out; says where.
    Truncated { offset: u64 },
}

/// A step through the buffer: bytes to skip and the frame among them.
pub struct Step<'a> {
    pub consumed: usize,
    pub frame: Option<&'a [u8]>,
}

enum Format {
    Pcap(PcapHeader),
    Pcapng(Sections),
}

/// An open pcap or pcapng file.
pub struct CaptureFile {
    file: File,
    path: PathBuf,
    format: Format,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// File offset of `buffer[0]`.
    base: u64,
}

impl CaptureFile {
    /// Opens a file and recognises its format.
    ///
    /// # Errors
    /// [`Error::Input`] if it is neither pcap nor pcapng or holds no Ethernet frames.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path)
            .map_err(|e| Error::Input(format!("cannot open {}: {e}", path.display())))?;
        let mut capture = CaptureFile {
            file,
            path: path.to_path_buf(),
            format: Format::Pcapng(Sections::default()),
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            base: 0,
        };
        while capture.end < pcap::FILE_HEADER_BYTES && capture.refill()? {}
        let head = &capture.buffer[..capture.end];
        if !Sections::starts(head) {
            let header = PcapHeader::parse(head)
                .map_err(|e| Error::Input(format!("{}: {e}", path.display())))?;
            capture.format = Format::Pcap(header);
            capture.start = pcap::FILE_HEADER_BYTES;
        }
        Ok(capture)
    }

    /// Hands every frame to `take` until the file ends or `take` answers false.
    ///
    /// # Errors
    /// [`Error::Input`] at a record that cannot be: all frames before it have been handed out.
    #[inline]
    pub fn for_each(&mut self, mut take: impl FnMut(&[u8]) -> bool) -> Result<End> {
        loop {
            let available = &self.buffer[self.start..self.end];
            let consumed = match &mut self.format {
                Format::Pcap(header) => frames(available, |bytes| header.next(bytes), &mut take),
                Format::Pcapng(sections) => {
                    frames(available, |bytes| sections.next(bytes), &mut take)
                }
            };
            let (consumed, go_on) = consumed.map_err(|(consumed, message)| {
                let offset = self.base + (self.start + consumed) as u64;
                Error::Input(format!(
                    "{}: {message} at byte {offset}",
                    self.path.display()
                ))
            })?;
            self.start += consumed;
            if !go_on {
                return Ok(End::Complete);
            }
            if !self.refill()? {
                let offset = self.base + self.start as u64;
                return Ok(if self.start == self.end {
                    End::Complete
                } else {
                    End::Truncated { offset }
                });
            }
        }
    }

    /// Moves the rest to the front and reads on; false at the end of the file.
    fn refill(&mut self) -> Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.base += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            // A record longer than the buffer: lengths were checked against MAX_RECORD_BYTES.
            self.buffer.resize(self.buffer.len() + MAX_RECORD_BYTES, 0);
        }
        loop {
            match self.file.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(&self.path, "read", error)),
            }
        }
    }
}

/// Walks the records that lie in `bytes` completely; answers bytes consumed and whether to go on.
#[inline]
fn frames(
    bytes: &[u8],
    mut next: impl FnMut(&[u8]) -> std::result::Result<Option<Step<'_>>, String>,
    take: &mut impl FnMut(&[u8]) -> bool,
) -> std::result::Result<(usize, bool), (usize, String)> {
    let mut consumed = 0;
    while let Some(step) = next(&bytes[consumed..]).map_err(|message| (consumed, message))? {
        consumed += step.consumed;
        if let Some(frame) = step.frame {
            if !take(frame) {
                return Ok((consumed, false));
            }
        }
    }
    Ok((consumed, true))
}
