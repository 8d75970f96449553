//! Bursts of packets that share one overhead on their link, as Wi-Fi's A-MPDUs do.
//!
//! A burst begins when the link is free, with what waits then, up to a number of packets or of bytes. It takes the overhead and then
//! its bytes at the link's rate, and all of it leaves at its end: the rate of n packets of l bytes is `8 n l / (overhead + 8 n l /
//! rate)` (Høiland-Jørgensen et al., Ending the Anomaly, USENIX ATC 2017, section 2.2.1).
// SPDX-License-Identifier: Apache-2.0
use super::MAX_DELAY_NS;

/// What a burst is at most, and what it costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AggregationSettings {
    /// Packets of a burst, at most; 0: any number.
    pub packets: u64,
    /// Bytes of a burst, at most, but for one packet that has more; 0: any number.
    pub bytes: u64,
    /// Time of the link before the first byte of a burst, in nanoseconds.
    pub overhead_ns: u64,
}

impl AggregationSettings {
    /// Checks settings. Errors: names the field that is out of range, and its range.
    pub fn new(packets: u64, bytes: u64, overhead_ns: u64) -> Result<Self, String> {
        if packets == 0 && bytes == 0 {
            return Err("packets 0 and bytes 0: allowed is a limit by one of them, or both".into());
        }
        if overhead_ns > MAX_DELAY_NS {
            return Err(format!("overhead_ns {overhead_ns}: allowed are 0 to {MAX_DELAY_NS}"));
        }
        Ok(AggregationSettings { packets, bytes, overhead_ns })
    }
}

/// A burst to which packets are being added, all of them at the instant at which it starts.
#[derive(Debug, Clone, Copy)]
struct Open {
    start_ns: u64,
    packets: u64,
    bytes: u64,
}

/// The bursts of a link.
#[derive(Debug)]
pub(super) struct Aggregation {
    settings: AggregationSettings,
    open: Option<Open>,
}

impl Aggregation {
    pub fn new(settings: AggregationSettings) -> Self {
        Aggregation { settings, open: None }
    }

    pub fn settings(&self) -> AggregationSettings {
        self.settings
    }

    /// When the burst starts that packets are being added to.
    pub fn open_ns(&self) -> Option<u64> {
        self.open.map(|open| open.start_ns)
    }

    /// Adds a packet that starts then. Returns the overhead, if it is the first of its burst.
    pub fn add(&mut self, start_ns: u64, length: u32) -> Option<u64> {
        let first = self.open.is_none().then_some(self.settings.overhead_ns);
        let open = self.open.get_or_insert(Open { start_ns, packets: 0, bytes: 0 });
        open.packets += 1;
        open.bytes += u64::from(length);
        first
    }

    /// Ends the burst, unless the packet that would start next, of that length, still belongs to it. Returns whether it has ended.
    pub fn ends_before(&mut self, next: Option<u32>) -> bool {
        let AggregationSettings { packets, bytes, .. } = self.settings;
        let Some(open) = self.open else {
            return false;
        };
        let belongs = next.is_some_and(|length| {
            (packets == 0 || open.packets < packets) && (bytes == 0 || open.bytes + u64::from(length) <= bytes)
        });
        if !belongs {
            self.open = None;
        }
        !belongs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::{Admission, Changes, Dequeued, Management, Rate, Scheduling, TrafficManager};

    const PORT: (u16, u8) = (3, 0);
    const PACKETS: usize = 200_000;
    const RATE: u64 = 33_333_337;
    const DELAY_NS: u64 = 70_001;

    #[derive(Clone, Copy)]
    struct Offered {
        arrival_ns: u64,
        length: u32,
        /// The program drops it when it would start.
        dropped: bool,
    }

    fn offer(drop_one_in: u64) -> Vec<Offered> {
        let (mut draw, mut arrival_ns) = (1u64, 0);
        let mut next = || {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = draw >> 33;
            // Bursts of arrivals, at one instant as well; a second of silence once in a while.
            arrival_ns += match random % 2_000 {
                0 => 1_000_000_000,
                1..600 => 0,
                _ => random % 600_007,
            };
            let dropped = drop_one_in > 0 && (draw >> 20) % drop_one_in == 0;
            Offered { arrival_ns, length: 64 + (random % 1_451) as u32, dropped }
        };
        (0..PACKETS).map(|_| next()).collect()
    }

    /// When each packet starts and leaves, by what the proto file says: whole bursts, times in parts of 1 / rate nanoseconds.
    fn expected(settings: AggregationSettings, offered: &[Offered]) -> Vec<(usize, u64, u64)> {
        let rate = u128::from(RATE);
        let AggregationSettings { packets, bytes, overhead_ns } = settings;
        let (mut end, mut next, mut found) = (0u128, 0, Vec::new());
        while let Some(first) = offered.get(next) {
            let free_ns = (end / rate) as u64;
            let start_ns = free_ns.max(first.arrival_ns);
            // One that finds the link free goes alone; else all that came before the link was.
            let alone = first.arrival_ns >= free_ns;
            let waits = |packet: &Offered| packet.arrival_ns < start_ns;
            let (mut members, mut total) = (Vec::new(), 0u64);
            while let Some(packet) = offered.get(next) {
                let room = members.is_empty()
                    || ((packets == 0 || (members.len() as u64) < packets)
                        && (bytes == 0 || total + u64::from(packet.length) <= bytes));
                if !room || !(waits(packet) || (alone && packet.arrival_ns == first.arrival_ns)) {
                    break;
                }
                next += 1;
                if !packet.dropped {
                    members.push(next - 1);
                    total += u64::from(packet.length);
                }
                if alone {
                    break;
                }
            }
            if !members.is_empty() {
                let taken = u128::from(overhead_ns) * rate + u128::from(total) * 8_000_000_000;
                end = end.max(u128::from(start_ns) * rate) + taken;
                found.extend(members.into_iter().map(|id| (id, start_ns, (end / rate) as u64 + DELAY_NS)));
            }
        }
        found
    }

    #[derive(Default)]
    struct Seen {
        starts: Vec<(usize, u64)>,
        exits: Vec<(usize, u64)>,
    }

    fn pass(tm: &mut TrafficManager<usize>, offered: &[Offered], seen: &mut Seen, dequeued: Dequeued<usize>) {
        let Dequeued { packet, queue, mut exit_ns, managed } = dequeued;
        let (start_ns, length) = (tm.meta().timestamp, offered[packet].length);
        if managed && offered[packet].dropped {
            return tm.count_managed_drop(queue, length, None);
        }
        if managed {
            exit_ns = tm.spend(queue, start_ns, length);
        }
        seen.starts.push((packet, start_ns));
        tm.delay(queue, exit_ns, packet);
    }

    fn run(settings: AggregationSettings, drop_one_in: u64) -> usize {
        let offered = offer(drop_one_in);
        let mut tm = TrafficManager::new(usize::MAX);
        let management = (drop_one_in > 0).then(|| Management::new(0, 0, Scheduling::Fifo).expect("in range"));
        let changes = Changes {
            rate: Some(Rate::Bps(RATE)),
            limit_packets: Some(0),
            delay_ns: Some(DELAY_NS),
            aggregation: Some(Some(settings)),
            management: Some(management),
            ..Changes::default()
        };
        tm.configure(PORT, 0, changes).expect("in range");
        assert_eq!(tm.status()[0].aggregation, Some(settings));
        let mut seen = Seen::default();
        for (id, packet) in offered.iter().enumerate() {
            while let Some(dequeued) = tm.poll_start(packet.arrival_ns) {
                pass(&mut tm, &offered, &mut seen, dequeued);
            }
            tm.take_exits(packet.arrival_ns, |_| (), |_, exit_ns, id| seen.exits.push((id, exit_ns)));
            match tm.enqueue(packet.arrival_ns, PORT, 0, packet.length, None, id) {
                Admission::Queued => {}
                Admission::Started(dequeued) => pass(&mut tm, &offered, &mut seen, dequeued),
                other => panic!("{other:?}"),
            }
        }
        while let Some(dequeued) = tm.poll_start(u64::MAX) {
            pass(&mut tm, &offered, &mut seen, dequeued);
        }
        tm.take_exits(u64::MAX, |_| (), |_, exit_ns, id| seen.exits.push((id, exit_ns)));
        let expected = expected(settings, &offered);
        let starts: Vec<_> = expected.iter().map(|(id, start_ns, _)| (*id, *start_ns)).collect();
        let exits: Vec<_> = expected.iter().map(|(id, _, exit_ns)| (*id, *exit_ns)).collect();
        assert!(seen.starts == starts && seen.exits == exits, "{settings:?}");
        let counters = tm.status()[0].counters;
        assert_eq!(counters.enqueued_packets, counters.dequeued_packets + counters.managed_drop_packets);
        assert_eq!((counters.dequeued_packets as usize, tm.held()), (expected.len(), 0));
        expected.chunk_by(|one, next| one.1 == next.1).map(<[_]>::len).max().unwrap_or(0)
    }

    #[test]
    fn bursts_leave_when_exact_fractions_say() {
        for (packets, bytes, overhead_ns, longest) in [
            (32, 0, 150_000, 20..33),
            (0, 12_000, 1_500_000, 9..190),
            (64, 65_535, 2_000_001, 64..65),
            (1, 0, 70_000, 1..2),
        ] {
            let settings = AggregationSettings::new(packets, bytes, overhead_ns).expect("in range");
            for drop_one_in in [0, 7] {
                let found = run(settings, drop_one_in);
                assert!(longest.contains(&found), "{settings:?}: {found}");
            }
        }
    }

    #[test]
    fn a_full_link_carries_what_its_overheads_leave() {
        // 8 Mbit/s are a byte a microsecond: four packets of 1,000 bytes in 4 ms and 1 ms of overhead.
        let settings = AggregationSettings::new(4, 0, 1_000_000).expect("in range");
        let mut tm = TrafficManager::new(usize::MAX);
        let changes =
            Changes { rate: Some(Rate::Bps(8_000_000)), aggregation: Some(Some(settings)), ..Changes::default() };
        tm.configure(PORT, 0, changes).expect("in range");
        let mut exits = Vec::new();
        for id in 0..9 {
            if let Admission::Started(dequeued) = tm.enqueue(0, PORT, 0, 1_000, None, id) {
                tm.delay(dequeued.queue, dequeued.exit_ns, id);
            }
        }
        while let Some(dequeued) = tm.poll_start(u64::MAX) {
            tm.delay(dequeued.queue, dequeued.exit_ns, dequeued.packet);
        }
        tm.take_exits(u64::MAX, |_| (), |_, exit_ns, _| exits.push(exit_ns / 1_000_000));
        // The first found the link free.
        assert_eq!(exits, [2, 7, 7, 7, 7, 12, 12, 12, 12]);
    }

    #[test]
    fn what_bursts_cannot_be_together_with_is_named() {
        let settings = AggregationSettings::new(4, 9_000, 0).expect("in range");
        assert!(AggregationSettings::new(0, 0, 1).expect_err("endless").starts_with("packets 0 and bytes 0"));
        assert!(AggregationSettings::new(1, 0, MAX_DELAY_NS + 1).expect_err("long").starts_with("overhead_ns"));
        let aggregation = Some(Some(settings));
        let mut tm: TrafficManager<usize> = TrafficManager::new(usize::MAX);
        let changes = Changes { aggregation, ..Changes::default() };
        assert!(tm.configure(PORT, 0, changes.clone()).expect_err("unlimited").contains("a constant rate above 0"));
        let changes = Changes { rate: Some(Rate::Bps(8_000_000)), ..changes };
        let several = Scheduling::Strict;
        let management = Some(Some(Management::new(0, 0, several).expect("in range")));
        let error = tm.configure(PORT, 0, Changes { management, ..changes.clone() }).expect_err("several queues");
        assert!(error.starts_with("aggregation: bytes 9000"), "{error}");
        tm.configure(PORT, 0, changes).expect("in range");
        assert!(matches!(tm.enqueue(0, PORT, 0, 1_000, None, 0), Admission::Started(_)));
        let slower = Changes { rate: Some(Rate::Bps(1_000)), ..Changes::default() };
        assert!(tm.configure(PORT, 10, slower.clone()).expect_err("busy").contains("a burst is on its link"));
        tm.configure(PORT, 1_000_000, slower).expect("idle");
    }
}
