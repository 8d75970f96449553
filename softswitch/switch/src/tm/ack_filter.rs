//! ACK filtering (RFC 3449, section 5.2.1): of the acknowledgements of a connection that wait, those go that a later one makes redundant,
//! as with `ack-filter` of tc-cake(8) and the ACK suppression of cable modems.
//!
//! An acknowledgement that arrives makes another redundant that waits if it is of the same connection and says all that the other
//! does, and more: it acknowledges more bytes. So duplicate ACKs stay, which loss recovery counts (RFC 5681), and window updates. What
//! may go says nothing else: no payload, no flag but ACK (no ECE and CWR, by which ECN and AccECN speak), no option but timestamps (no
//! SACK), and in its IP header the same DSCP and ECN as the one that arrives.
// SPDX-License-Identifier: Apache-2.0

const ETHERNET_BYTES: usize = 14;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const TCP_BYTES: usize = 20;
const TCP: u8 = 6;
const ACK: u16 = 0x10;
const END: u8 = 0;
const NOP: u8 = 1;
const TIMESTAMPS: u8 = 8;

/// A TCP segment that acknowledges, and does nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Addresses (those of IPv4 with zeros behind them) and ports, as they are in the packet.
    connection: [u8; 36],
    /// DSCP and ECN.
    traffic_class: u8,
    sequence: u32,
    acknowledged: u32,
    /// TSval and TSecr.
    timestamps: Option<[u32; 2]>,
    /// It has no other options.
    plain: bool,
}

impl Ack {
    /// That of an Ethernet frame; `None`: it is something else, or has IP options, extension headers or a VLAN tag.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let packet = frame.get(ETHERNET_BYTES..)?;
        let mut connection = [0; 36];
        let (traffic_class, addresses, header, payload) = match u16_at(frame, ETHERNET_BYTES - 2)? {
            IPV4 => {
                let unfragmented = u16_at(packet, 6)? & 0x3fff == 0;
                if packet[0] != 0x45 || packet.get(9) != Some(&TCP) || !unfragmented {
                    return None;
                }
                (packet[1], packet.get(12..20)?, IPV4_BYTES, usize::from(u16_at(packet, 2)?).checked_sub(IPV4_BYTES)?)
            }
            IPV6 => {
                if packet.first()? >> 4 != 6 || packet.get(6) != Some(&TCP) {
                    return None;
                }
                let traffic_class = (u16_at(packet, 0)? >> 4) as u8;
                (traffic_class, packet.get(8..40)?, IPV6_BYTES, usize::from(u16_at(packet, 4)?))
            }
            _ => return None,
        };
        connection[..addresses.len()].copy_from_slice(addresses);
        let segment = packet.get(header..header.checked_add(payload)?)?;
        connection[32..].copy_from_slice(segment.get(..4)?);
        let offset_and_flags = u16_at(segment, 12)?;
        // Without payload all of it is header.
        if usize::from(offset_and_flags >> 12) * 4 != segment.len() || offset_and_flags & 0x0fff != ACK {
            return None;
        }
        let (timestamps, plain) = options(segment.get(TCP_BYTES..)?)?;
        let (sequence, acknowledged) = (u32_at(segment, 4)?, u32_at(segment, 8)?);
        Some(Ack { connection, traffic_class, sequence, acknowledged, timestamps, plain })
    }

    /// Whether this one says all that an earlier one does.
    pub(super) fn makes_redundant(&self, earlier: &Ack) -> bool {
        let not_before = |now: u32, then: u32| now.wrapping_sub(then) < 1 << 31;
        let later = match (self.timestamps, earlier.timestamps) {
            (Some(now), Some(then)) => now.into_iter().zip(then).all(|(now, then)| not_before(now, then)),
            (now, then) => now == then,
        };
        earlier.plain
            && later
            && (self.connection, self.traffic_class) == (earlier.connection, earlier.traffic_class)
            && not_before(self.sequence, earlier.sequence)
            && self.acknowledged != earlier.acknowledged
            && not_before(self.acknowledged, earlier.acknowledged)
    }
}

/// Timestamps among TCP options, and whether nothing else is there. `None`: they cannot be read.
fn options(mut rest: &[u8]) -> Option<(Option<[u32; 2]>, bool)> {
    let (mut timestamps, mut plain) = (None, true);
    while let Some(kind) = rest.first().filter(|kind| **kind != END) {
        let length = if *kind == NOP { 1 } else { usize::from(*rest.get(1)?) };
        if length == 0 {
            return None;
        }
        match (*kind, length) {
            (NOP, _) => {}
            (TIMESTAMPS, 10) => timestamps = Some([u32_at(rest, 2)?, u32_at(rest, 6)?]),
            _ => plain = false,
        }
        rest = rest.get(length..)?;
    }
    Some((timestamps, plain))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::{
        Admission, BucketSettings, Changes, Drops, FlowCause, Management, PolicerSettings, PushedOut, Rate, Scheduling,
        TrafficManager, PRIORITIES,
    };

    const PORT: (u16, u8) = (3, 0);

    /// A segment from port 1 to port 2, as it is on the wire.
    #[derive(Clone)]
    struct Segment {
        v6: bool,
        traffic_class: u8,
        flags: u16,
        sequence: u32,
        acknowledged: u32,
        options: Vec<u8>,
        payload: usize,
        padding: usize,
    }

    const PLAIN: Segment = Segment {
        v6: false,
        traffic_class: 0,
        flags: ACK,
        sequence: 7,
        acknowledged: 1_000,
        options: Vec::new(),
        payload: 0,
        padding: 0,
    };

    fn timestamps(value: u32, echo: u32) -> Vec<u8> {
        [&[NOP, NOP, TIMESTAMPS, 10][..], &value.to_be_bytes(), &echo.to_be_bytes()].concat()
    }

    impl Segment {
        fn frame(&self) -> Vec<u8> {
            let tcp = TCP_BYTES + self.options.len();
            let length = tcp + self.payload;
            let mut frame = vec![0; ETHERNET_BYTES - 2];
            if self.v6 {
                frame.extend(IPV6.to_be_bytes());
                frame.extend((6 << 28 | u32::from(self.traffic_class) << 20 | 0xabcde).to_be_bytes());
                frame.extend((length as u16).to_be_bytes());
                frame.extend([TCP, 64]);
                frame.extend([9; 32]);
            } else {
                frame.extend(IPV4.to_be_bytes());
                frame.extend([0x45, self.traffic_class]);
                frame.extend(((IPV4_BYTES + length) as u16).to_be_bytes());
                frame.extend([1, 2, 0x40, 0, 64, TCP, 0, 0]);
                frame.extend([9; 8]);
            }
            frame.extend([0, 1, 0, 2]);
            frame.extend(self.sequence.to_be_bytes());
            frame.extend(self.acknowledged.to_be_bytes());
            frame.extend(((tcp as u16 / 4) << 12 | self.flags).to_be_bytes());
            frame.extend([0; 6]);
            frame.extend(&self.options);
            frame.extend(vec![0; self.payload + self.padding]);
            frame
        }

        fn ack(&self) -> Option<Ack> {
            Ack::of(&self.frame())
        }
    }

    /// Whether the second one makes the first redundant.
    fn redundant(earlier: &Segment, later: &Segment) -> bool {
        later.ack().zip(earlier.ack()).is_some_and(|(later, earlier)| later.makes_redundant(&earlier))
    }

    #[test]
    fn one_that_acknowledges_more_makes_another_redundant() {
        for (v6, options) in
            [(false, Vec::new()), (true, Vec::new()), (false, timestamps(5, 6)), (true, timestamps(5, 6))]
        {
            let earlier = Segment { v6, options, padding: 6, ..PLAIN };
            let later = Segment { acknowledged: 1_001, padding: 0, ..earlier.clone() };
            assert!(redundant(&earlier, &later));
            // Not the other way around, and no duplicate.
            assert!(!redundant(&later, &earlier) && !redundant(&earlier, &earlier));
        }
        // Across the end of sequence space.
        assert!(redundant(&Segment { acknowledged: u32::MAX, ..PLAIN }, &Segment { acknowledged: 1, ..PLAIN }));
        // What selective acknowledgements add to a later one does no harm.
        let with_sack = [&[NOP, NOP, 5, 10][..], &[0; 8]].concat();
        let later = Segment { acknowledged: 2_000, options: with_sack.clone(), ..PLAIN };
        assert!(redundant(&PLAIN, &later));
        assert!(!redundant(&Segment { options: with_sack, ..PLAIN }, &Segment { acknowledged: 2_000, ..PLAIN }));
    }

    #[test]
    fn what_says_anything_else_stays() {
        let later = Segment { acknowledged: 2_000, sequence: 9, ..PLAIN };
        // PSH, FIN, SYN, RST, URG, ECE, CWR, AE.
        for flag in [8, 1, 2, 4, 0x20, 0x40, 0x80, 0x100] {
            let marked = Segment { flags: ACK | flag, ..PLAIN };
            assert!(!redundant(&marked, &later) && marked.ack().is_none(), "{flag:#x}");
        }
        for earlier in [
            Segment { payload: 1, ..PLAIN },
            Segment { traffic_class: 1, ..PLAIN },
            Segment { sequence: 10, ..PLAIN },
            Segment { options: timestamps(1, 1), ..PLAIN },
            Segment { options: vec![253, 4, 0, 0], ..PLAIN },
            Segment { options: vec![TIMESTAMPS, 0, 0, 0], ..PLAIN },
            Segment { v6: true, ..PLAIN },
        ] {
            assert!(!redundant(&earlier, &later));
        }
        // Of an older segment that was overtaken.
        let now = Segment { options: timestamps(9, 9), ..later.clone() };
        assert!(redundant(&Segment { options: timestamps(9, 8), ..PLAIN }, &now));
        assert!(!redundant(&Segment { options: timestamps(10, 8), ..PLAIN }, &now));
        assert!(!redundant(&Segment { options: timestamps(9, 10), ..PLAIN }, &now));
    }

    #[test]
    fn another_connection_and_other_packets_are_none() {
        let frame = PLAIN.frame();
        let mut other = Segment { acknowledged: 2_000, ..PLAIN }.frame();
        other[ETHERNET_BYTES + IPV4_BYTES + 1] += 1;
        let (ack, other) = (Ack::of(&frame).expect("one"), Ack::of(&other).expect("one"));
        assert!(!other.makes_redundant(&ack));
        for (at, value) in [(12, 0x81), (14, 0x46), (20, 0x20), (23, 17)] {
            let mut wrong = frame.clone();
            wrong[at] = value;
            assert_eq!(Ack::of(&wrong), None, "{at}");
        }
        (0..frame.len()).for_each(|length| assert_eq!(Ack::of(&frame[..length]), None, "{length}"));
    }

    /// A queue of segments, all of which found something waiting, and how many that a later one makes redundant stay there.
    fn filtered(segments: &[Segment], changes: Changes) -> (TrafficManager<Segment>, Vec<u32>) {
        let mut tm = TrafficManager::new(100);
        tm.read_acks(Segment::ack);
        tm.configure(PORT, 0, Changes { rate: Some(Rate::Bps(8_000_000)), ..changes }).expect("in range");
        // Not to be filtered, and a microsecond for each byte of it.
        let busy = tm.enqueue(0, PORT, 0, 1_000_000, Some(1), Segment { payload: 9, ..PLAIN });
        assert!(matches!(busy, Admission::Started(_)));
        let mut dropped = Vec::new();
        for (number, segment) in segments.iter().enumerate() {
            tm.enqueue(number as u64 + 1, PORT, 0, 66, Some(7), segment.clone());
            while let Some(PushedOut { queue, redundant, packet, .. }) = tm.next_pushed_out() {
                tm.count_pushed_out(queue, redundant, 66, Some(7));
                dropped.push(packet.acknowledged);
            }
        }
        (tm, dropped)
    }

    fn left(tm: &mut TrafficManager<Segment>) -> Vec<u32> {
        std::iter::from_fn(|| tm.poll_start(u64::MAX)).map(|dequeued| dequeued.packet.acknowledged).collect()
    }

    fn acks(numbers: impl IntoIterator<Item = u32>) -> Vec<Segment> {
        numbers.into_iter().map(|acknowledged| Segment { acknowledged, ..PLAIN }).collect()
    }

    #[test]
    fn as_many_stay_as_are_to_and_the_oldest_go() {
        for (keep, dropped, stay) in [
            // Aggressive, and conservative.
            (0, (1..=9).collect::<Vec<u32>>(), vec![10]),
            (2, (1..=7).collect(), vec![8, 9, 10]),
            (9, vec![], (1..=10).collect()),
        ] {
            let changes = Changes { ack_filter: Some(Some(keep)), ..Changes::default() };
            let (mut tm, found) = filtered(&acks(1..=10), changes);
            assert_eq!(found, dropped);
            let status = &tm.status()[0];
            let (depth, counters) = ((status.depth_packets, status.depth_bytes), status.counters);
            assert_eq!(depth, (stay.len() as u64, 66 * stay.len() as u64));
            assert_eq!((counters.enqueued_packets, counters.dequeued_packets), (11, 1));
            assert_eq!(counters.enqueued_bytes, counters.dequeued_bytes + counters.redundant_bytes + depth.1);
            let thinned = Drops { packets: found.len() as u64, bytes: 66 * found.len() as u64 };
            assert_eq!((counters.redundant_packets, counters.redundant_bytes), (thinned.packets, thinned.bytes));
            assert_eq!((counters.dropped_packets, counters.dropped_bytes), (thinned.packets, thinned.bytes));
            let by_flow = if thinned.packets > 0 { vec![(7, thinned)] } else { vec![] };
            assert_eq!(tm.flows(PORT.0, PORT.1, FlowCause::Redundant), Ok(by_flow));
            assert_eq!(tm.flows(PORT.0, PORT.1, FlowCause::Tail), Ok(vec![]));
            assert_eq!(tm.held(), stay.len());
            assert_eq!(left(&mut tm), stay);
        }
    }

    #[test]
    fn duplicates_stay_in_their_order() {
        let changes = Changes { ack_filter: Some(Some(0)), ..Changes::default() };
        let (mut tm, dropped) = filtered(&acks([5, 5, 5]), changes.clone());
        assert!(dropped.is_empty() && left(&mut tm) == [5, 5, 5]);
        // Data wait in between, and stay.
        let data = Segment { payload: 100, acknowledged: 1, ..PLAIN };
        let segments = [acks([1, 2]), vec![data], acks([2, 3])].concat();
        let (mut tm, dropped) = filtered(&segments, changes);
        assert_eq!((dropped, left(&mut tm)), (vec![1, 2, 2], vec![1, 3]));
    }

    #[test]
    fn none_goes_for_one_that_is_not_admitted() {
        // Room for two; what is redundant makes room, but a policer's drop does not.
        let changes = Changes { ack_filter: Some(Some(0)), limit_packets: Some(2), ..Changes::default() };
        let data = Segment { payload: 100, ..PLAIN };
        let (mut tm, dropped) = filtered(&[vec![data.clone()], acks([1, 2, 3])].concat(), changes.clone());
        assert_eq!((dropped, tm.status()[0].counters.dropped_packets), (vec![1, 2], 2));
        assert_eq!(left(&mut tm), [1_000, 3]);
        let (mut tm, dropped) = filtered(&[acks([1]), vec![data; 2], acks([1])].concat(), changes.clone());
        assert_eq!((dropped, left(&mut tm)), (vec![], vec![1, 1_000]));
        let bucket = BucketSettings { rate_bps: 1, burst_bytes: 1_000_066 };
        let policer = Some(Some(PolicerSettings::new(bucket, None).expect("in range")));
        let (mut tm, dropped) = filtered(&acks([1, 2]), Changes { policer, ..changes });
        assert_eq!((dropped, left(&mut tm)), (vec![], vec![1]));
    }

    #[test]
    fn of_several_queues_it_is_the_one_of_the_connection() {
        for scheduling in [
            Scheduling::Fair { queues: 8, quantum: 1_514, batch: 1 },
            Scheduling::Coupled { classic_percent: 10, mtu: 1_514 },
            Scheduling::Deficit { quanta: [64; PRIORITIES] },
            Scheduling::Strict,
        ] {
            let management = Some(Some(Management::new(0, 0, scheduling).expect("in range")));
            let changes = Changes { ack_filter: Some(Some(1)), management, ..Changes::default() };
            let mut tm = TrafficManager::new(100);
            tm.read_acks(Segment::ack);
            tm.configure(PORT, 0, Changes { rate: Some(Rate::Bps(8_000_000)), ..changes }).expect("in range");
            let Admission::Started(dequeued) = tm.enqueue(0, PORT, 0, 9_000, Some(1), PLAIN) else {
                panic!("the link was idle");
            };
            tm.spend(dequeued.queue, 0, 9_000);
            for segment in acks(1..=50) {
                tm.enqueue(1, PORT, 0, 66, Some(7), segment);
            }
            let mut stay = Vec::new();
            while let Some(dequeued) = tm.poll_start(u64::MAX) {
                tm.spend(dequeued.queue, tm.meta().timestamp, 66);
                stay.push(dequeued.packet.acknowledged);
            }
            assert_eq!((stay, tm.held()), (vec![49, 50], 0), "{scheduling:?}");
        }
    }
}
