//! Large receive offload: a host's card joins the segments of a flow that it delivers together.
// SPDX-License-Identifier: Apache-2.0
use narrows_pipeline::Packet;

use super::joining::Joined;
use super::tcp::TcpFrame;
use super::vnet::VnetHeader;

/// Flows that are joined at once, as many as Linux's GRO would.
const MAX_FLOWS: usize = 64;

/// What is not held of frames.
pub static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// A frame for the host's kernel.
#[derive(Debug)]
pub struct Delivery {
    /// What tells the kernel about it.
    pub header: VnetHeader,
    /// The frame, or the first segment of it.
    pub first: Box<Packet>,
    /// The other segments: their payload follows, which begins at `payload` of each.
    // Boxed: packets move between queues and pools by pointer.
    #[allow(clippy::vec_box)]
    pub rest: Vec<Box<Packet>>,
    /// Where that is.
    pub payload: usize,
}

impl Delivery {
    /// A frame by itself. The card checks the checksum of a TCP segment: to read all of it would cost the kernel more than
    /// anything else that it does with a long one.
    pub fn of(first: Box<Packet>) -> Self {
        let (bytes, total) = (first.bytes(), first.frame_length() as usize);
        let intact = TcpFrame::parse(bytes, total).filter(|parts| parts.is_intact(bytes, total));
        Self::checked(first, intact)
    }

    /// A frame by itself, with its parts if it is an intact TCP segment.
    fn checked(mut first: Box<Packet>, intact: Option<TcpFrame>) -> Self {
        let header = intact.map_or(VnetHeader::COMPLETE, |parts| {
            let segment = first.frame_length() as usize - parts.transport;
            parts.leave_checksum(first.bytes_mut(), segment);
            VnetHeader::checked(parts.payload, parts.checksum())
        });
        Delivery { header, first, rest: Vec::new(), payload: 0 }
    }

    /// The frame in pieces: bytes that are held, and how many zeros follow them.
    pub fn pieces(&self) -> impl Iterator<Item = (&[u8], usize)> {
        let first = std::iter::once((&self.first, 0));
        first.chain(self.rest.iter().map(|packet| (packet, self.payload))).map(|(packet, start)| {
            let held = packet.bytes();
            (&held[start..], packet.frame_length() as usize - held.len())
        })
    }

    /// All that it consists of.
    pub fn packets(&self) -> impl Iterator<Item = &Packet> {
        std::iter::once(&self.first).chain(&self.rest).map(Box::as_ref)
    }
}

/// Segments that are being joined.
#[derive(Debug)]
struct Open {
    /// Which of the deliveries.
    place: usize,
    joined: Joined,
}

impl Open {
    /// Ends the joining: the headers now describe all segments, not only the first.
    fn finish(self, deliveries: &mut [Delivery]) {
        let delivery = &mut deliveries[self.place];
        if !delivery.rest.is_empty() {
            delivery.payload = self.joined.parts.payload;
            delivery.header = self.joined.finish(delivery.first.bytes_mut());
        }
    }
}

/// Joins frames that are delivered together, in the order of their arrival: TCP segments of one flow that follow one another
/// and differ in nothing but their payload, as Linux's GRO does. Only intact segments are joined.
pub fn join(frames: impl Iterator<Item = Box<Packet>>) -> Vec<Delivery> {
    let mut deliveries: Vec<Delivery> = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    for frame in frames {
        let (bytes, total) = (frame.bytes(), frame.frame_length() as usize);
        let Some(parts) = TcpFrame::parse(bytes, total) else {
            deliveries.push(Delivery::checked(frame, None));
            continue;
        };
        let intact = Some(parts).filter(|parts| parts.is_intact(bytes, total));
        let known =
            open.iter().position(|one| one.joined.is_flow_of(deliveries[one.place].first.bytes(), bytes, &parts));
        if let Some(at) = known {
            let one = &mut open[at];
            let delivery = &mut deliveries[one.place];
            if intact.is_some() && one.joined.goes_on(delivery.first.bytes(), &frame, &parts) {
                one.joined.extend(&frame);
                delivery.rest.push(frame);
                if !one.joined.is_open() {
                    open.swap_remove(at).finish(&mut deliveries);
                }
                continue;
            }
            open.swap_remove(at).finish(&mut deliveries);
        }
        if open.len() < MAX_FLOWS {
            let joined = intact.and_then(|parts| Joined::beginning(&frame, parts));
            open.extend(joined.map(|joined| Open { place: deliveries.len(), joined }));
        }
        deliveries.push(Delivery::checked(frame, intact));
    }
    open.into_iter().for_each(|one| one.finish(&mut deliveries));
    deliveries
}

#[cfg(test)]
mod tests {
    use narrows_pipeline::PacketPool;

    use super::super::checksum;
    use super::super::tcp::tests::{frame, Header};
    use super::super::tcp::{ACK, CWR, ECE, FIN, PSH};
    use super::*;

    const HEADER: Header = Header { is_ipv6: false, sequence: 0, identification: 1, flags: ACK };

    /// A segment whose payload begins at `sequence` of the flow's bytes.
    fn segment(header: Header, sequence: u32, length: u32) -> Vec<u8> {
        let payload: Vec<u8> = (sequence..sequence + length).map(|byte| byte as u8).collect();
        frame(Header { sequence, ..header }, &payload)
    }

    fn joined_of(frames: &[Vec<u8>]) -> Vec<Delivery> {
        let mut pool = PacketPool::default();
        join(frames.iter().map(|frame| pool.packet(frame)))
    }

    /// The frame that the kernel gets.
    fn whole(delivery: &Delivery) -> Vec<u8> {
        let rest = delivery.rest.iter().map(|frame| &frame.bytes()[delivery.payload..]);
        std::iter::once(delivery.first.bytes()).chain(rest).flatten().copied().collect()
    }

    fn counts(frames: &[Vec<u8>]) -> Vec<usize> {
        joined_of(frames).iter().map(|delivery| 1 + delivery.rest.len()).collect()
    }

    #[test]
    fn segments_that_follow_one_another_are_one_frame() {
        for is_ipv6 in [false, true] {
            let header = Header { is_ipv6, ..HEADER };
            let numbered = |number: u32| Header { identification: number as u16, ..header };
            let mut frames: Vec<_> = (0..9).map(|number| segment(numbered(number), number * 100, 100)).collect();
            frames.push(segment(Header { flags: ACK | PSH, ..numbered(9) }, 900, 50));
            let found = joined_of(&frames);
            assert_eq!(found.len(), 1);
            let mut bytes = whole(&found[0]);
            let parts = TcpFrame::parse(&bytes, bytes.len()).expect("TCP");
            assert_eq!(found[0].header, VnetHeader::joined(is_ipv6, parts.payload, 100, parts.checksum()));
            // What a card would be left to do makes it the frame of one long segment.
            checksum::complete(&mut bytes, parts.checksum());
            assert_eq!(bytes, segment(Header { flags: ACK | PSH, ..numbered(0) }, 0, 950));
            assert_eq!(found[0].packets().count(), 10);
        }
    }

    #[test]
    fn what_is_not_held_of_a_frame_is_zeros() {
        let mut pool = PacketPool::default();
        let mut long = || {
            let mut packet = pool.take_beginning(9_014, 192);
            packet.bytes_mut().fill(7);
            packet
        };
        let delivery = Delivery { header: VnetHeader::COMPLETE, first: long(), rest: vec![long()], payload: 66 };
        let pieces: Vec<_> = delivery.pieces().map(|(bytes, zeros)| (bytes.to_vec(), zeros)).collect();
        assert_eq!(pieces, [(vec![7; 192], 9_014 - 192), (vec![7; 126], 9_014 - 192)]);
        let short = Delivery::of(pool.packet(&[7; 60]));
        assert_eq!(short.pieces().collect::<Vec<_>>(), [(&[7; 60][..], 0)]);
    }

    #[test]
    fn the_kernel_does_not_check_again_what_is_intact() {
        let intact = segment(HEADER, 0, 100);
        let mut damaged = intact.clone();
        damaged[80] ^= 1;
        for (frame, is_intact) in [(&intact, true), (&damaged, false)] {
            let found = Delivery::of(PacketPool::default().packet(frame));
            assert_eq!(found.header == VnetHeader::COMPLETE, !is_intact);
            let mut bytes = found.first.bytes().to_vec();
            found.header.checksum().map(|partial| checksum::complete(&mut bytes, partial));
            assert_eq!(bytes, *frame);
        }
    }

    #[test]
    fn a_payload_of_zeros_need_not_be_held() {
        let mut pool = PacketPool::default();
        let mut beginning = |number: u32, other: u8| {
            let mut whole = frame(Header { sequence: number * 1000, ..HEADER }, &[0; 1000]);
            let mut packet = pool.take_beginning(whole.len(), 192);
            // The last byte of the header is in the last timestamp.
            whole[65] ^= other;
            packet.bytes_mut().copy_from_slice(&whole[..192]);
            packet
        };
        let frames: Vec<_> = (0..4).map(|number| beginning(number, 0)).collect();
        let found = join(frames.into_iter());
        assert_eq!((found.len(), found[0].packets().count()), (1, 4));
        let parts = TcpFrame::parse(found[0].first.bytes(), 66 + 4000).expect("the length of all");
        assert_eq!(found[0].header, VnetHeader::joined(false, 66, 1000, parts.checksum()));
        // A checksum that is wrong for that payload.
        let damaged = [beginning(0, 0), beginning(1, 1)];
        assert_eq!(join(damaged.into_iter()).len(), 2);
    }

    #[test]
    fn flows_are_joined_each_by_itself() {
        let other = |mut frame: Vec<u8>| {
            // Another source port; the checksum has its difference.
            frame[35] += 1;
            let sum = u16::from_be_bytes([frame[50], frame[51]]) - 1;
            frame[50..52].copy_from_slice(&sum.to_be_bytes());
            frame
        };
        let frames: Vec<_> = (0..4)
            .flat_map(|number| [segment(HEADER, number * 100, 100), other(segment(HEADER, number * 100, 100))])
            .collect();
        assert_eq!(counts(&frames), [4, 4]);
    }

    #[test]
    fn what_would_be_lost_by_joining_is_kept_apart() {
        let first = segment(HEADER, 0, 100);
        let next = segment(HEADER, 100, 100);
        assert_eq!(counts(&[first.clone(), next.clone()]), [2]);
        let with_flags = |flags| segment(Header { flags, ..HEADER }, 100, 100);
        let with_byte = |at: usize, from: u8| {
            let mut frame = next.clone();
            assert_eq!(frame[at], from);
            frame[at] ^= 1;
            let parts = TcpFrame::parse(&frame, frame.len()).expect("TCP");
            parts.set_length(&mut frame, 100);
            checksum::complete(&mut frame, parts.checksum());
            frame
        };
        let kept_apart = [
            // A gap, a repetition, a longer segment, none.
            segment(HEADER, 200, 100),
            segment(HEADER, 0, 100),
            segment(HEADER, 100, 101),
            segment(HEADER, 100, 0),
            with_flags(0x02 | ACK),
            // Other feedback of congestion: ECE, CWR, and AE, the lowest bit of the byte before the flags.
            with_flags(ECE | ACK),
            with_flags(CWR | ACK),
            with_byte(46, 0x80),
            // ECN's field (a mark of congestion), time to live, an acknowledgement, the window, a timestamp.
            with_byte(15, 0),
            with_byte(22, 64),
            with_byte(45, 9),
            with_byte(48, 1),
            with_byte(61, 5),
        ];
        for (number, other) in kept_apart.into_iter().enumerate() {
            assert_eq!(counts(&[first.clone(), other]), [1, 1], "frame {number}");
        }
        let mut broken = next.clone();
        broken[80] ^= 1;
        assert_eq!(counts(&[first.clone(), broken]), [1, 1]);
        // A short segment and one with PSH end what is joined; FIN comes with the last one.
        assert_eq!(counts(&[first.clone(), segment(HEADER, 100, 99), segment(HEADER, 199, 1)]), [2, 1]);
        assert_eq!(counts(&[first.clone(), with_flags(ACK | PSH), segment(HEADER, 200, 100)]), [2, 1]);
        assert_eq!(counts(&[first, with_flags(ACK | FIN)]), [2]);
    }

    #[test]
    fn equal_feedback_of_congestion_is_kept() {
        // A counter of 5, at which accurate ECN begins: AE and ECE; one of 2: CWR.
        for (ae, flags) in [(1, ECE | ACK), (0, CWR | ACK), (1, CWR | ECE | ACK)] {
            let counting = |number: u32, flags| {
                let mut frame = segment(Header { flags, ..HEADER }, number * 100, 100);
                frame[46] |= ae;
                let parts = TcpFrame::parse(&frame, frame.len()).expect("TCP");
                parts.leave_checksum(&mut frame, 132);
                checksum::complete(&mut frame, parts.checksum());
                frame
            };
            let frames: Vec<_> =
                (0..3).map(|number| counting(number, flags)).chain([counting(3, flags | PSH)]).collect();
            let found = joined_of(&frames);
            assert_eq!(found.len(), 1);
            let bytes = whole(&found[0]);
            assert_eq!((bytes[46] & 1, bytes[47]), (ae, flags | PSH));
            assert_eq!(counts(&[frames[0].clone(), counting(1, flags ^ ECE)]), [1, 1]);
        }
    }

    #[test]
    fn every_mark_is_a_frame() {
        for is_ipv6 in [false, true] {
            let with_ecn = |number: u32, ecn: u8| {
                let mut frame = segment(Header { is_ipv6, ..HEADER }, number * 100, 100);
                frame[15] |= if is_ipv6 { ecn << 4 } else { ecn };
                let parts = TcpFrame::parse(&frame, frame.len()).expect("TCP");
                parts.set_length(&mut frame, 100);
                checksum::complete(&mut frame, parts.checksum());
                frame
            };
            let of = |fields: [u8; 4]| counts(&[0, 1, 2, 3].map(|at| with_ecn(at, fields[at as usize])));
            assert_eq!(of([3, 3, 3, 3]), [1, 1, 1, 1]);
            assert_eq!(of([1, 1, 3, 1]), [2, 1, 1]);
            assert_eq!(of([2, 2, 2, 2]), [4]);
        }
    }

    #[test]
    fn no_frame_is_longer_than_ip_allows() {
        let frames: Vec<_> = (0..50).map(|number| segment(HEADER, number * 1400, 1400)).collect();
        assert_eq!(counts(&frames), [46, 4]);
    }
}
