// SPDX-License-Identifier: Apache-2.0
//! Capture files of any length in constant memory: frames are handed out from a buffer that moves over the file.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::pcap::{self, PcapHeader};
use super::pcapng::Sections;
use crate::error::{Error, Result};

/// Bytes read at a time: far fewer than the last-level cache holds, enough that calls cost little. Copying the file
/// there is cheaper than mapping it page by page.
const BUFFER_BYTES: usize = 2 << 20;
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
    /// What of the buffer has been read from the file and not been handed out.
    start: usize,
    end: usize,
    /// File offset of the next record.
    position: u64,
}

impl CaptureFile {
    /// Opens a file and recognises its format.
    ///
    /// # Errors
    /// [`Error::Input`] if it is neither pcap nor pcapng or holds no Ethernet frames.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path)
            .map_err(|e| Error::Input(format!("cannot open {}: {e}", path.display())))?;
        let metadata = file.metadata().map_err(|e| Error::io(path, "examine", e))?;
        if !metadata.is_file() {
            return Err(Error::Input(format!(
                "{} is not a regular file",
                path.display()
            )));
        }
        let mut capture = CaptureFile {
            file,
            path: path.to_path_buf(),
            format: Format::Pcapng(Sections::default()),
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            position: 0,
        };
        capture.read_more()?;
        let head = &capture.buffer[..capture.end];
        if !Sections::starts(head) {
            let header = PcapHeader::parse(head)
                .map_err(|e| Error::Input(format!("{}: {e}", path.display())))?;
            capture.format = Format::Pcap(header);
            capture.start = pcap::FILE_HEADER_BYTES;
            capture.position = pcap::FILE_HEADER_BYTES as u64;
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
                let offset = self.position + consumed as u64;
                Error::Input(format!(
                    "{}: {message} at byte {offset}",
                    self.path.display()
                ))
            })?;
            self.start += consumed;
            self.position += consumed as u64;
            if !go_on {
                return Ok(End::Complete);
            }
            if !self.read_more()? {
                return Ok(match self.end - self.start {
                    0 => End::Complete,
                    _ => End::Truncated {
                        offset: self.position,
                    },
                });
            }
        }
    }

    /// Fills the buffer behind the incomplete record in it; false at the end of the file.
    fn read_more(&mut self) -> Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            // A record longer than the buffer; there is none beyond MAX_RECORD_BYTES.
            self.buffer.resize(self.end * 2, 0);
        }
        loop {
            match self.file.read(&mut self.buffer[self.end..]) {
                Ok(bytes) => {
                    self.end += bytes;
                    return Ok(bytes > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
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
