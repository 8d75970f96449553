// SPDX-License-Identifier: Apache-2.0
//! Files of any length in constant memory: frames are passed on from a buffer that moves through the file.

use std::fmt;
use std::io::{self, ErrorKind, Read};

use crate::format::Format;
use crate::frame::{Frame, Step};

/// Bytes read at a time: far fewer than the last-level cache holds, enough that calls cost little. Copying the file
/// there is cheaper than mapping it page by page.
const BUFFER_BYTES: usize = 2 << 20;

/// Why a capture cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// Reading failed.
    Io(io::Error),
    /// It is not a capture, or is damaged: how and where.
    Format(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(error) => error.fmt(f),
            ReadError::Format(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ReadError {}

/// Where reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At the end of the file, which is also the end of a record.
    Complete,
    /// The file ends within a record, which is not passed on; this is where it starts.
    Truncated { offset: u64 },
    /// After a frame, because the caller wanted no more.
    Stopped,
}

/// A pcap or pcapng file that is being read.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    format: Format,
    buffer: Vec<u8>,
    /// The part of the buffer that has been read from the file and not passed on yet.
    start: usize,
    end: usize,
    /// File offset of the next record.
    position: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the start of a file and recognises its format.
    ///
    /// # Errors
    /// It is neither pcap nor pcapng, or pcap of something other than Ethernet.
    pub fn new(mut input: R) -> Result<Self, ReadError> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut end = 0;
        while end < crate::pcap::FILE_HEADER_BYTES {
            match read(&mut input, &mut buffer[end..])? {
                0 => break,
                bytes => end += bytes,
            }
        }
        let (format, start) = Format::of(&buffer[..end]).map_err(ReadError::Format)?;
        let position = start as u64;
        Ok(Self { input, format, buffer, start, end, position })
    }

    /// Passes every frame to `take` until the file ends or `take` returns false.
    ///
    /// # Errors
    /// An impossible record: all frames before it have been passed on.
    #[inline]
    pub fn for_each(&mut self, mut take: impl FnMut(Frame<'_>) -> bool) -> Result<End, ReadError> {
        loop {
            let available = &self.buffer[self.start..self.end];
            // A loop for each format, so that the format is not tested for every frame.
            let walked = match &mut self.format {
                Format::Pcap(header) => walk(available, |bytes| header.next(bytes), &mut take),
                Format::Pcapng(sections) => walk(available, |bytes| sections.next(bytes), &mut take),
            };
            let (consumed, go_on) = walked.map_err(|(consumed, message)| {
                ReadError::Format(format!("{message} at byte {}", self.position + consumed as u64))
            })?;
            self.start += consumed;
            self.position += consumed as u64;
            if !go_on {
                return Ok(End::Stopped);
            }
            if !self.read_more()? {
                return Ok(match self.end - self.start {
                    0 => End::Complete,
                    _ => End::Truncated { offset: self.position },
                });
            }
        }
    }

    /// Fills the buffer after the incomplete record in it; false at the end of the file.
    fn read_more(&mut self) -> Result<bool, ReadError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            // A record longer than the buffer; no record is longer than `MAX_RECORD_BYTES`.
            self.buffer.resize(self.end * 2, 0);
        }
        let bytes = read(&mut self.input, &mut self.buffer[self.end..])?;
        self.end += bytes;
        Ok(bytes > 0)
    }
}

fn read(input: &mut impl Read, buffer: &mut [u8]) -> Result<usize, ReadError> {
    loop {
        match input.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result.map_err(ReadError::Io),
        }
    }
}

/// Walks the records that are complete in `bytes`; returns how many bytes were consumed and whether to go on.
#[inline]
fn walk(
    bytes: &[u8],
    mut next: impl FnMut(&[u8]) -> Result<Option<Step<'_>>, String>,
    take: &mut impl FnMut(Frame<'_>) -> bool,
) -> Result<(usize, bool), (usize, String)> {
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
