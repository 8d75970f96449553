// SPDX-License-Identifier: Apache-2.0
//! Capture files of any length in constant memory: frames are handed out from a window that moves over the file.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::map::Window;
use super::pcap::{self, PcapHeader};
use super::pcapng::Sections;
use crate::error::{Error, Result};

/// Bytes of the file in memory at a time; longer than any record.
const WINDOW_BYTES: usize = 4 << 20;
/// Windows start at a multiple of this: no system has larger pages.
const ALIGNMENT: u64 = 64 << 10;
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
    length: u64,
    format: Format,
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
            length: metadata.len(),
            format: Format::Pcapng(Sections::default()),
            position: 0,
        };
        let window = capture.window()?;
        let head = window
            .as_ref()
            .map_or(&[][..], |(window, _)| window.bytes());
        if !Sections::starts(head) {
            let header = PcapHeader::parse(head)
                .map_err(|e| Error::Input(format!("{}: {e}", path.display())))?;
            capture.format = Format::Pcap(header);
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
        while let Some((window, start)) = self.window()? {
            let available = &window.bytes()[start..];
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
            self.position += consumed as u64;
            if !go_on {
                return Ok(End::Complete);
            }
            if consumed == 0 {
                return Ok(End::Truncated {
                    offset: self.position,
                });
            }
        }
        Ok(End::Complete)
    }

    /// The window that holds the next record, and where in it the record starts; `None` at the end of the file.
    fn window(&self) -> Result<Option<(Window, usize)>> {
        if self.position >= self.length {
            return Ok(None);
        }
        let offset = self.position / ALIGNMENT * ALIGNMENT;
        let length = (self.length - offset).min(WINDOW_BYTES as u64) as usize;
        let window = Window::map(&self.file, offset, length);
        let window =
            window.map_err(|e| Error::io(&self.path, "read (is it still being written?)", e))?;
        Ok(Some((window, (self.position - offset) as usize)))
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
