//! TCP segmentation offload: the card of a host cuts what the host's kernel hands over as one frame.
//!
//! Segments are what Linux itself makes of such a frame (`tcp_gso_segment`), so that cutting it here, where most of its payload
//! need not be held, differs from cutting it there in time only.
// SPDX-License-Identifier: Apache-2.0
use super::checksum;
use super::frame::Frame;
use super::tcp::{TcpFrame, CHECKSUM, ETHERNET, FIN, PSH};
use super::vnet::VnetHeader;

const DATA_OFFSET: usize = 12;
const MIN_TCP: usize = 20;
const MIN_IPV4: usize = 20;
const IPV6: usize = 40;

/// How a frame of several TCP segments is cut. Offsets are in the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Of the whole, which may have IP options or extension headers.
    parts: TcpFrame,
    /// Payload of each segment but the last one.
    size: usize,
    /// Payload of all.
    total: usize,
}

impl Cut {
    /// Of a frame of `length` bytes whose beginning is `frame`. `None`: it is not one that a card would cut, or not all of its
    /// headers are held.
    pub fn new(header: VnetHeader, frame: &[u8], length: usize) -> Option<Self> {
        let (is_ipv6, size) = header.tcp_segments()?;
        let transport = header.checksum()?.start;
        let payload = transport + usize::from(*frame.get(transport + DATA_OFFSET)? >> 4) * 4;
        let first = *frame.get(ETHERNET)?;
        let network = if is_ipv6 { IPV6 } else { usize::from(first & 0xf) * 4 };
        // Extension headers of IPv6 may follow. Behind a tag or a tunnel's headers that of IP is not where it is looked for.
        let is_whole = if is_ipv6 { transport >= ETHERNET + network } else { transport == ETHERNET + network };
        let is_ip = first >> 4 == if is_ipv6 { 6 } else { 4 } && network >= MIN_IPV4;
        let fits = payload >= transport + MIN_TCP && payload <= frame.len() && payload < length;
        (is_whole && is_ip && fits && size > 0).then_some(Cut {
            parts: TcpFrame { is_ipv6, transport, payload },
            size,
            total: length - payload,
        })
    }

    /// How many segments there are.
    pub fn count(&self) -> usize {
        self.total.div_ceil(self.size)
    }

    /// Length of the frame of a segment, numbered from 0.
    pub fn length(&self, number: usize) -> usize {
        self.parts.payload + self.size.min(self.total - number * self.size)
    }

    /// Writes the frame of a segment to `segment`, or as many bytes of it as are held of the whole `frame`: those behind them are zeros
    /// in both. Its checksum is left to be completed.
    fn write(&self, number: usize, frame: &[u8], segment: &mut Vec<u8>) {
        let (parts, length) = (self.parts, self.length(number));
        let (offset, payload) = (number * self.size, length - parts.payload);
        let from = parts.payload + offset;
        segment.clear();
        segment.extend_from_slice(&frame[..parts.payload]);
        segment.extend_from_slice(frame.get(from..frame.len().min(from + payload)).unwrap_or_default());
        segment.resize(length.min(frame.len()), 0);
        if !parts.is_ipv6 {
            add(&mut segment[ETHERNET + 4..ETHERNET + 6], number as u16);
        }
        parts.set_network_length(segment, payload);
        parts.set_sequence(segment, parts.sequence(frame).wrapping_add(offset as u32));
        if number + 1 < self.count() {
            parts.set_flags(segment, parts.flags(frame) & !(FIN | PSH));
        }
        // The sum of the pseudo-header, in which the length is another one now.
        let field = &mut segment[parts.transport + CHECKSUM..parts.transport + CHECKSUM + 2];
        let headers = parts.payload - parts.transport;
        let (before, now) = ((headers + self.total) as u16, (headers + payload) as u16);
        let sum = checksum::sum(&[field, &(!before).to_be_bytes(), &now.to_be_bytes()]);
        field.copy_from_slice(&sum.to_be_bytes());
    }
}

fn add(field: &mut [u8], number: u16) {
    let sum = u16::from_be_bytes([field[0], field[1]]).wrapping_add(number);
    field.copy_from_slice(&sum.to_be_bytes());
}

/// The frame that is being cut, one segment after the other.
#[derive(Debug, Default)]
pub struct Segmenter {
    cut: Option<Cut>,
    /// The next segment.
    number: usize,
    segment: Vec<u8>,
}

impl Segmenter {
    /// Length of the frame of the next segment, if the frame that begins or goes on here is one that is cut.
    #[inline]
    pub fn next_length(&mut self, (header, frame): (VnetHeader, Frame<'_>)) -> Option<u32> {
        if self.cut.is_none() && frame.super_packet {
            (self.cut, self.number) = (Cut::new(header, frame.bytes, frame.length), 0);
        }
        self.cut.map(|cut| cut.length(self.number) as u32)
    }

    /// Passes the frame, which [`Segmenter::next_length`] was asked about, to `take`, or its next segment; returns whether nothing
    /// of it is left.
    #[inline]
    pub fn take<R>(&mut self, frame: Frame<'_>, take: impl FnOnce(Frame<'_>) -> R) -> (R, bool) {
        let Some(cut) = self.cut else {
            return (take(frame), true);
        };
        cut.write(self.number, frame.bytes, &mut self.segment);
        let length = cut.length(self.number);
        let result = take(Frame { bytes: &self.segment, length, super_packet: false, ..frame });
        self.number += 1;
        let is_last = self.number == cut.count();
        if is_last {
            self.cut = None;
        }
        (result, is_last)
    }
}

#[cfg(test)]
mod tests {
    use super::super::checksum::Partial;
    use super::super::tcp::tests::{frame, Header};
    use super::super::tcp::ACK;
    use super::*;

    const SIZE: usize = 1_000;

    /// A frame of `payload` in segments of [`SIZE`], as a kernel hands it over: the checksum is that of the pseudo-header.
    fn joined(header: Header, payload: &[u8]) -> (VnetHeader, Vec<u8>) {
        let mut whole = frame(header, payload);
        let parts = TcpFrame::parse(&whole, whole.len()).expect("TCP");
        parts.set_length(&mut whole, payload.len());
        (VnetHeader::joined(header.is_ipv6, parts.payload, SIZE, parts.checksum()), whole)
    }

    /// What comes out of a frame of which `held` bytes lie in a slot, with checksums completed.
    fn cut((header, whole): &(VnetHeader, Vec<u8>), held: usize) -> Vec<(u32, Vec<u8>)> {
        let (mut segmenter, mut found) = (Segmenter::default(), vec![]);
        loop {
            let slot = || Frame {
                bytes: &whole[..held],
                length: whole.len(),
                vlan: None,
                partial_checksum: header.checksum(),
                super_packet: true,
            };
            let length = segmenter.next_length((*header, slot())).expect("a frame that is cut");
            let (segment, is_last) = segmenter.take(slot(), |frame| {
                assert_eq!((frame.length, frame.super_packet), (length as usize, false));
                let mut bytes = frame.bytes.to_vec();
                assert!(checksum::complete(&mut bytes, frame.partial_checksum.expect("left to do")));
                bytes
            });
            found.push((length, segment));
            if is_last {
                return found;
            }
        }
    }

    #[test]
    fn segments_are_what_tcp_would_have_sent_one_by_one() {
        let payload: Vec<u8> = (0..3_400).map(|byte| byte as u8).collect();
        for is_ipv6 in [false, true] {
            let header = Header { is_ipv6, sequence: u32::MAX - 1_500, identification: 0xffff, flags: ACK | PSH | FIN };
            let found = cut(&joined(header, &payload), frame(header, &payload).len());
            let expected = payload.chunks(SIZE).enumerate().map(|(number, part)| {
                let header = Header {
                    sequence: header.sequence.wrapping_add((number * SIZE) as u32),
                    identification: header.identification.wrapping_add(number as u16),
                    flags: if number == 3 { header.flags } else { ACK },
                    ..header
                };
                let segment = frame(header, part);
                (segment.len() as u32, segment)
            });
            assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }

    #[test]
    fn zeros_that_are_not_held_make_no_difference() {
        let header = Header { is_ipv6: false, sequence: 7, identification: 3, flags: ACK };
        let whole = joined(header, &[0; 2_500]);
        let (all, beginning) = (cut(&whole, whole.1.len()), cut(&whole, 192));
        assert_eq!(all.iter().map(|(length, _)| *length).collect::<Vec<_>>(), [1_066, 1_066, 566]);
        for ((length, all), (same, beginning)) in all.iter().zip(&beginning) {
            assert_eq!((length, beginning.len()), (same, 192));
            assert_eq!(all[..192], beginning[..]);
            assert!(all[192..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn what_no_card_would_cut_is_left_alone() {
        let header = Header { is_ipv6: false, sequence: 7, identification: 3, flags: ACK };
        let (announced, whole) = joined(header, &[0; 2_500]);
        assert!(Cut::new(announced, &whole, whole.len()).is_some());
        // Not all of the headers are held; no payload; another version of IP, with a tag in front; nothing announced.
        for (header, bytes, length) in [
            (announced, &whole[..65], whole.len()),
            (announced, &whole[..66], 66),
            (VnetHeader::joined(true, 66, SIZE, announced.checksum().expect("one")), &whole[..], whole.len()),
            (announced, &[&whole[..12], &[0x81, 0, 0, 5], &whole[12..]].concat()[..], whole.len() + 4),
            (VnetHeader::joined(false, 66, 0, announced.checksum().expect("one")), &whole[..], whole.len()),
            (VnetHeader::COMPLETE, &whole[..], whole.len()),
        ] {
            assert_eq!(Cut::new(header, bytes, length), None);
        }
    }

    #[test]
    fn options_of_ip_stay() {
        let header = Header { is_ipv6: false, sequence: 7, identification: 3, flags: ACK };
        let (_, plain) = joined(header, &[0; 1_500]);
        let mut whole = [&plain[..34], &[1, 1, 1, 0][..], &plain[34..]].concat();
        whole[14] = 0x46;
        let announced = VnetHeader::joined(false, 70, SIZE, Partial { start: 38, field: CHECKSUM });
        let found = cut(&(announced, whole), 1_570);
        assert_eq!(found.iter().map(|(length, _)| *length).collect::<Vec<_>>(), [1_070, 570]);
        for (length, segment) in found {
            assert_eq!(u32::from(u16::from_be_bytes([segment[16], segment[17]])), length - 14);
            assert_eq!((checksum::sum(&[&segment[14..38]]), &segment[34..38]), (0xffff, &[1, 1, 1, 0][..]));
        }
    }
}
