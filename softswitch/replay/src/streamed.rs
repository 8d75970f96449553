//! Captures that cannot be mapped, or are pcapng: each frame is copied out of a buffer.
// SPDX-License-Identifier: Apache-2.0
use std::fs::File;

use narrows_captures::{End, ReadError, Reader, ETHERNET};

use crate::mapped::{check_lengths, cut_short, Head};

/// A capture, and the frame that was read last.
pub struct Streamed {
    reader: Reader<File>,
    bytes: Vec<u8>,
}

impl Streamed {
    /// Reads the start of the file.
    pub fn new(file: File) -> Result<Self, ReadError> {
        Ok(Streamed { reader: Reader::new(file)?, bytes: vec![] })
    }

    /// The next frame; `None` at the end. Frames of other links, and those without a time, cannot be replayed.
    pub fn next(&mut self) -> Result<Option<Head>, ReadError> {
        let bytes = &mut self.bytes;
        let mut found = None;
        let end = self.reader.for_each(|frame| {
            bytes.clear();
            bytes.extend_from_slice(frame.bytes);
            found = Some((frame.link_type, frame.time_ns, frame.wire_length));
            false
        })?;
        match (found, end) {
            (None, End::Truncated { .. }) => cut_short(),
            (None, _) => Ok(None),
            (Some((ETHERNET, Some(time_ns), wire_length)), _) => {
                let captured = self.bytes.len();
                check_lengths(captured, wire_length)?;
                Ok(Some(Head { time_ns, wire_length, captured, first: 0 }))
            }
            (Some((ETHERNET, None, _)), _) => {
                Err(ReadError::Format("pcapng: packets without a timestamp, or in a unit that does not fit".into()))
            }
            (Some((link_type, ..)), _) => {
                Err(ReadError::Format(format!("link type {link_type}: only Ethernet ({ETHERNET}) is supported")))
            }
        }
    }

    /// The captured bytes of that frame.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 12).to_be_bytes();
        [&kind.to_be_bytes(), &length[..], body, &length[..]].concat()
    }

    /// A pcapng file with one packet of an interface with this link type and resolution.
    fn first(name: &str, link_type: u8, resolution: u8, wire_length: u8) -> Result<Option<Head>, ReadError> {
        let section = [0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255];
        let interface = [0, link_type, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, resolution, 0, 0, 0];
        let packet = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0, wire_length, 0xaa, 0xbb, 0, 0];
        let file = [block(0x0a0d_0d0a, &section), block(1, &interface), block(6, &packet)].concat();
        let path = std::env::temp_dir().join(format!("narrows-streamed-{}-{name}", std::process::id()));
        std::fs::write(&path, file).expect("a temporary file");
        let mut streamed = Streamed::new(File::open(&path).expect("made above"))?;
        std::fs::remove_file(&path).expect("made above");
        let head = streamed.next()?;
        assert_eq!(streamed.bytes(), [0xaa, 0xbb]);
        assert_eq!(streamed.next()?, None);
        Ok(head)
    }

    #[test]
    fn what_cannot_be_replayed_is_refused() {
        let head = first("good", 1, 9, 60).expect("valid");
        assert_eq!(head, Some(Head { time_ns: 7, wire_length: 60, captured: 2, first: 0 }));
        for (name, link_type, resolution, wire_length, message) in [
            ("link", 113, 9, 60, "link type 113"),
            ("unit", 1, 100, 60, "without a timestamp"),
            ("length", 1, 9, 1, "2 captured of 1 bytes"),
        ] {
            let error = first(name, link_type, resolution, wire_length).expect_err(name);
            assert!(error.to_string().contains(message), "{name}: {error}");
        }
    }
}
