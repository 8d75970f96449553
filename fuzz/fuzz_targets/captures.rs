// SPDX-License-Identifier: Apache-2.0
//! Capture files: the same frames however the bytes arrive, and the same again once they were written.
#![no_main]

use std::io::Read;

use libfuzzer_sys::fuzz_target;
use narrows_captures::{End, Reader, Writer, ETHERNET};

const SECOND: u64 = 1_000_000_000;
const LONGEST: usize = 20_000;

/// A file whose bytes arrive a few at a time.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let few = buffer.len().min(7);
        self.0.read(&mut buffer[..few])
    }
}

/// A frame's link type, time, length on the wire and bytes.
type Frame = (u32, Option<u64>, usize, Vec<u8>);

/// All frames, and where and why reading ended.
fn read(input: impl Read) -> (Vec<Frame>, Result<End, String>) {
    let mut frames = Vec::new();
    let end = Reader::new(input).and_then(|mut reader| {
        reader.for_each(|frame| {
            frames.push((frame.link_type, frame.time_ns, frame.wire_length, frame.bytes.to_vec()));
            true
        })
    });
    (frames, end.map_err(|error| error.to_string()))
}

fuzz_target!(|bytes: &[u8]| {
    let (frames, end) = read(bytes);
    let (slowly, slow_end) = read(Trickle(bytes));
    assert_eq!((&frames, &end), (&slowly, &slow_end));
    assert!(frames.iter().map(|frame| frame.3.len()).sum::<usize>() <= bytes.len());
    if let Ok(End::Truncated { offset }) = end {
        assert!(offset <= bytes.len() as u64);
    }
    // What a pcap file can say: 32 bits of seconds, no more bytes than the frame had, and not all the zeros of a jumbo one.
    let fits = |frame: &Frame| {
        frame.0 == ETHERNET
            && frame.1.is_some_and(|time| time / SECOND <= u64::from(u32::MAX))
            && (frame.3.len()..=LONGEST).contains(&frame.2)
    };
    let mut again: Vec<Frame> = frames.into_iter().filter(fits).collect();
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, 0);
    for (_, time, wire_length, bytes) in &again {
        let written = writer.write(time.unwrap_or(0), bytes, *wire_length as u32);
        written.expect("memory takes it");
    }
    writer.finish().expect("memory takes it");
    // What was not captured is written as zeros.
    again.iter_mut().for_each(|frame| frame.3.resize(frame.2, 0));
    assert_eq!(read(&file[..]), (again, Ok(End::Complete)));
});
