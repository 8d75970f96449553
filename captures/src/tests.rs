// SPDX-License-Identifier: Apache-2.0
//! What was written is read; what is not a capture is refused; timestamps, byte orders and link types are understood.

use proptest::prelude::*;

use crate::pcap::RECORD_HEADER_BYTES;
use crate::writer::BLOCK;
use crate::{End, ReadError, Reader, Writer, ETHERNET};

/// One captured frame.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    time_ns: u64,
    wire_length: usize,
    bytes: Vec<u8>,
}

/// All frames of a capture, which must be Ethernet and have timestamps; a file that is cut short is an error.
fn read_all(file: &[u8]) -> Result<Vec<Record>, ReadError> {
    let mut records = vec![];
    let mut fits = true;
    let end = Reader::new(file)?.for_each(|frame| {
        fits &= frame.link_type == ETHERNET && frame.time_ns.is_some();
        records.push(Record {
            time_ns: frame.time_ns.unwrap_or_default(),
            wire_length: frame.wire_length,
            bytes: frame.bytes.to_vec(),
        });
        true
    })?;
    match (end, fits) {
        (End::Complete, true) => Ok(records),
        (end, fits) => Err(ReadError::Format(format!("{end:?}, {fits}"))),
    }
}

proptest! {
    #[test]
    fn garbage_is_refused_without_panic(start in 0usize..6, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let magics: [&[u8]; 6] = [&[], &[0xd4, 0xc3, 0xb2, 0xa1], &[0xa1, 0xb2, 0x3c, 0x4d],
            &[10, 13, 13, 10], &[10, 13, 13, 10, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a],
            &[10, 13, 13, 10, 16, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 16, 0, 0, 0, 1, 0, 0, 0, 20, 0, 0, 0]];
        let file = [magics[start], &bytes].concat();
        let _ = read_all(&file);
    }
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 12).to_be_bytes();
    [&kind.to_be_bytes(), &length[..], body, &length[..]].concat()
}

#[test]
fn pcapng_with_nanoseconds_in_big_endian() {
    let mut file = block(0x0a0d_0d0a, &[0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    // Interface: Ethernet, snap length 0, if_tsresol 9.
    file.extend(block(1, &[0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0]));
    file.extend(block(0xbad, &[1, 2, 3, 4]));
    file.extend(block(6, &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 9, 0xaa, 0xbb, 0, 0]));
    let records = read_all(&file).expect("valid");
    assert_eq!(records, vec![Record { time_ns: (1 << 32) + 5, wire_length: 9, bytes: vec![0xaa, 0xbb] }]);
}

#[test]
fn microsecond_pcap() {
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    file.extend([2, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 60, 0, 0, 0, 0x55]);
    let expected = Record { time_ns: 2_000_003_000, wire_length: 60, bytes: vec![0x55] };
    assert_eq!(read_all(&file).expect("valid"), vec![expected]);
    let cut = read_all(&file[..file.len() - 1]).expect_err("cut");
    assert!(cut.to_string().contains("Truncated { offset: 24 }"), "{cut}");
}

/// One Ethernet frame of 64 bytes on the wire, including its FCS of 4, of which `captured` were captured.
fn with_fcs(link: u32, captured: u8) -> Vec<u8> {
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0];
    file.extend(link.to_le_bytes());
    file.extend([[0; 4], [0; 4], [captured, 0, 0, 0], [64, 0, 0, 0]].concat());
    file.extend((0..captured).collect::<Vec<u8>>());
    file
}

/// The word is libpcap's: 4 bits of length in units of 16 bits, a reserved bit, and the bit that says that the length is valid.
#[test]
fn a_frame_check_sequence_is_no_part_of_the_frame() {
    let read = |link, captured| read_all(&with_fcs(link, captured)).expect("valid").remove(0);
    for (captured, left) in [(64, 60), (62, 60), (60, 60), (20, 20)] {
        let record = read(0x2400_0001, captured);
        assert_eq!((record.wire_length, record.bytes), (60, (0..left).collect()), "{captured} captured");
    }
    // Without that bit the length means nothing.
    for link in [0x2000_0001, 0x0400_0001, 0x0000_0001] {
        assert_eq!((read(link, 64).wire_length, read(link, 64).bytes.len()), (64, 64), "{link:#x}");
    }
    assert!(read_all(&with_fcs(0x2400_0071, 20)).expect_err("cooked").to_string().contains("link type 113"));
}

/// A timestamp of 2,000,000 microseconds is 2 s; the option's seconds are added, and may be negative.
#[test]
fn pcapng_timestamps_have_their_interface_offset_added() {
    let section = [0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255];
    let packet = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0x1e, 0x84, 0x80, 0, 0, 0, 1, 0, 0, 0, 1, 0xaa, 0, 0, 0];
    let resolution = [0, 9, 0, 1, 6, 0, 0, 0];
    let time = |offset: i64, resolution_first: bool| {
        let offset = [&[0, 14, 0, 8], &offset.to_be_bytes()[..]].concat();
        let options = if resolution_first { [&resolution, &offset[..]] } else { [&offset[..], &resolution] }.concat();
        let interface = [&[0, 1, 0, 0, 0, 0, 0, 0], &options[..]].concat();
        let file = [block(0x0a0d_0d0a, &section), block(1, &interface), block(6, &packet)].concat();
        let mut found = None;
        let mut reader = Reader::new(&file[..]).expect("valid");
        reader
            .for_each(|frame| {
                found = Some(frame.time_ns);
                true
            })
            .expect("valid");
        found.expect("one frame")
    };
    for first in [true, false] {
        assert_eq!(time(1_700_000_000, first), Some(1_700_000_002_000_000_000));
        assert_eq!(time(-1, first), Some(1_000_000_000));
        assert_eq!(time(-3, first), None, "before 1970");
        assert_eq!(time(i64::MAX, first), None);
    }
}

#[test]
fn other_link_types_are_refused_by_number() {
    let file = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 113, 0, 0, 0];
    assert!(read_all(&file).expect_err("cooked").to_string().contains("113"));
}

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
    // The first frame fills the first block exactly.
    let lengths = [BLOCK - 24 - RECORD_HEADER_BYTES, 14, 60_000, BLOCK - 9, 1, BLOCK, 3 * BLOCK + 5, 200];
    let frame = |number: usize| vec![number as u8; lengths[number % lengths.len()]];
    let mut file = vec![];
    let mut writer = Writer::new(&mut file, 4 * BLOCK);
    for number in 0..40 {
        let frame = frame(number);
        // The bytes of a frame of zeros may be left out.
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

#[test]
fn reading_goes_on_behind_the_frame_at_which_it_was_stopped() {
    let mut file = vec![];
    let mut writer = Writer::new(&mut file, 0);
    for number in 0..3u8 {
        writer.write(u64::from(number), &[number; 60], 60).expect("memory");
    }
    writer.finish().expect("memory");
    let (mut reader, mut seen) = (Reader::new(&file[..]).expect("valid"), vec![]);
    let mut take_one = || {
        let end = reader.for_each(|frame| {
            seen.push(frame.bytes[0]);
            false
        });
        end.expect("valid")
    };
    let ends = [(); 4].map(|()| take_one());
    assert_eq!(ends, [End::Stopped, End::Stopped, End::Stopped, End::Complete]);
    assert_eq!(seen, [0, 1, 2]);
}

/// Timestamps in a unit that is not a power, and frames of other link types: they are handed out as such.
#[test]
fn what_only_the_reader_can_judge_is_left_to_it() {
    let section = block(0x0a0d_0d0a, &[0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    let cooked = block(1, &[0, 113, 0, 0, 0, 0, 0, 0]);
    let too_fine = block(1, &[0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 100, 0, 0, 0]);
    let packet =
        |interface: u8| block(6, &[0, 0, 0, interface, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 1, 0xaa, 0, 0, 0]);
    let simple = block(3, &[0, 0, 0, 2, 1, 2, 0, 0]);
    let file = [section, cooked, too_fine, packet(0), packet(1), simple].concat();
    let mut found = vec![];
    let mut reader = Reader::new(&file[..]).expect("valid");
    let end = reader.for_each(|frame| {
        found.push((frame.link_type, frame.time_ns, frame.wire_length));
        true
    });
    assert_eq!(end.expect("valid"), End::Complete);
    assert_eq!(found, [(113, Some(7_000), 1), (1, None, 1), (113, None, 2)]);
}
