//! A policer in front of a queue: token buckets (RFC 2697, RFC 2698), in exact integer arithmetic.
// SPDX-License-Identifier: Apache-2.0
use super::clock::MAX_RATE_BPS;

/// Tokens of one byte: a rate in bit/s brings as many tokens each nanosecond as its number.
const BYTE: u128 = 8_000_000_000;

/// What fills a bucket, and how much it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketSettings {
    /// Bits per second of Ethernet frames, without preamble, gap and FCS.
    pub rate_bps: u64,
    /// Bytes that it holds, and has at the beginning.
    pub burst_bytes: u64,
}

/// What a policer lets pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicerSettings {
    /// RFC 2697 with an excess burst of 0; of two rates the committed one (CIR, CBS of RFC 2698).
    pub committed: BucketSettings,
    /// PIR and PBS of RFC 2698.
    pub peak: Option<BucketSettings>,
    /// What exceeds it is marked, where the program says that it may be; else it is dropped.
    pub marks: bool,
}

impl PolicerSettings {
    /// Checks settings, of one that drops. Errors: names the field that is out of range, and its range.
    pub fn new(committed: BucketSettings, peak: Option<BucketSettings>) -> Result<Self, String> {
        for (prefix, bucket) in [("", Some(committed)), ("peak_", peak)] {
            let Some(BucketSettings { rate_bps, burst_bytes }) = bucket else {
                continue;
            };
            if !(1..=MAX_RATE_BPS).contains(&rate_bps) {
                return Err(format!("{prefix}rate_bps {rate_bps}: allowed are 1 to {MAX_RATE_BPS}"));
            }
            if burst_bytes == 0 {
                return Err(format!("{prefix}burst_bytes 0: allowed are 1 and more"));
            }
        }
        match peak.filter(|peak| peak.rate_bps < committed.rate_bps) {
            Some(peak) => Err(format!("peak_rate_bps {}: allowed are {} and more", peak.rate_bps, committed.rate_bps)),
            None => Ok(PolicerSettings { committed, peak, marks: false }),
        }
    }
}

#[derive(Debug)]
struct Bucket {
    settings: BucketSettings,
    tokens: u128,
    filled_ns: u64,
}

impl Bucket {
    fn full(settings: BucketSettings, now_ns: u64) -> Self {
        Bucket { settings, tokens: u128::from(settings.burst_bytes) * BYTE, filled_ns: now_ns }
    }

    fn fill(&mut self, now_ns: u64) {
        let more = u128::from(now_ns.saturating_sub(self.filled_ns)) * u128::from(self.settings.rate_bps);
        self.tokens = (self.tokens + more).min(u128::from(self.settings.burst_bytes) * BYTE);
        self.filled_ns = now_ns;
    }

    fn take(&mut self, length: u32) -> bool {
        let left = self.tokens.checked_sub(u128::from(length) * BYTE);
        self.tokens = left.unwrap_or(self.tokens);
        left.is_some()
    }
}

/// A policer, color-blind: what conforms passes, all else is dropped or marked.
#[derive(Debug)]
pub(super) struct Policer {
    settings: PolicerSettings,
    committed: Bucket,
    peak: Option<Bucket>,
}

impl Policer {
    /// Full buckets.
    pub fn new(settings: PolicerSettings, now_ns: u64) -> Self {
        let full = |bucket| Bucket::full(bucket, now_ns);
        Policer { settings, committed: full(settings.committed), peak: settings.peak.map(full) }
    }

    pub fn settings(&self) -> PolicerSettings {
        self.settings
    }

    /// Whether a packet of `length` bytes that comes at `now_ns` passes: whether RFC 2697 or RFC 2698 marks it green. One that
    /// RFC 2698 marks yellow takes tokens of the peak rate all the same.
    pub fn passes(&mut self, now_ns: u64, length: u32) -> bool {
        self.committed.fill(now_ns);
        if let Some(peak) = &mut self.peak {
            peak.fill(now_ns);
            if !peak.take(length) {
                return false;
            }
        }
        self.committed.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::{Admission, Changes, Counters, Drops, FlowCause, Rate, TrafficManager};

    const PORT: (u16, u8) = (3, 0);
    const PACKETS: u64 = 1_000_000;

    /// The virtual scheduling algorithm of ATM (ITU-T I.371): when a bucket would be full again, on a scale of all that its rate has
    /// ever brought. It keeps no tokens.
    struct Virtual {
        settings: BucketSettings,
        full_at: u128,
    }

    impl Virtual {
        fn conforms(&mut self, now_ns: u64, length: u32) -> bool {
            let now = u128::from(now_ns) * u128::from(self.settings.rate_bps);
            let next = self.full_at.max(now) + u128::from(length) * 8_000_000_000;
            let conforms = next <= now + u128::from(self.settings.burst_bytes) * 8_000_000_000;
            if conforms {
                self.full_at = next;
            }
            conforms
        }
    }

    /// Polices bursts and gaps, and expects of each packet what the RFCs' conditions say by [`Virtual`] buckets. Returns how many
    /// passed.
    fn police(committed: BucketSettings, peak: Option<BucketSettings>, mut draw: u64) -> u64 {
        let mut tm = TrafficManager::new(usize::MAX);
        let settings = PolicerSettings::new(committed, peak).expect("in range");
        let policer = Some(Some(settings));
        tm.configure(PORT, 0, Changes { policer, rate: Some(Rate::Unlimited), ..Changes::default() })
            .expect("in range");
        let bucket = |settings| Virtual { settings, full_at: 0 };
        let (mut low, mut high) = (bucket(committed), peak.map(bucket));
        let (mut now_ns, mut passed, mut dropped) = (0, 0, Drops::default());
        for packet in 0..PACKETS {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = draw >> 33;
            // Most come at once, one in 1,000 after a second: ranges in which buckets are empty, and full.
            now_ns += match random % 1_000 {
                0 => 1_000_000_000,
                1..500 => 0,
                _ => random % 300_007,
            };
            let length = 64 + (random % 1_451) as u32;
            let conforms =
                high.as_mut().is_none_or(|high| high.conforms(now_ns, length)) && low.conforms(now_ns, length);
            match tm.enqueue(now_ns, PORT, 0, length, Some(7), packet) {
                Admission::Started(_) => assert!(conforms, "packet {packet} passed"),
                Admission::Policed(id) => assert!(!conforms && id == packet, "packet {packet} was dropped"),
                other => panic!("packet {packet}: {other:?}"),
            }
            passed += u64::from(conforms);
            if !conforms {
                dropped.packets += 1;
                dropped.bytes += u64::from(length);
            }
        }
        let status = &tm.status()[0];
        let Counters { enqueued_packets, dropped_packets, policed_packets, policed_bytes, .. } = status.counters;
        assert_eq!((enqueued_packets, enqueued_packets + dropped_packets), (passed, PACKETS));
        assert_eq!(
            (dropped_packets, policed_packets, policed_bytes),
            (dropped.packets, dropped.packets, dropped.bytes)
        );
        assert_eq!(status.policer, Some(settings));
        assert_eq!(tm.flows(PORT.0, PORT.1, FlowCause::Policed), Ok(vec![(7, dropped)]));
        assert_eq!(tm.flows(PORT.0, PORT.1, FlowCause::Tail), Ok(vec![]));
        passed
    }

    #[test]
    fn a_million_packets_are_policed_as_virtual_scheduling_says() {
        let bucket = |rate_bps, burst_bytes| BucketSettings { rate_bps, burst_bytes };
        // A rate that divides no byte's time; a burst of a packet only; two rates.
        let some = police(bucket(33_333_337, 30_000), None, 1);
        let fewer = police(bucket(33_333_337, 1_514), None, 1);
        let two = police(bucket(33_333_337, 30_000), Some(bucket(50_000_001, 3_000)), 1);
        assert!(PACKETS > some && some > two && two > 0 && some > fewer && fewer > 0, "{some}, {fewer}, {two}");
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        // 8 Mbit/s are a byte a microsecond: of 1,000-byte packets, one each 100 us, the first three pass on the burst, which fills
        // with 100 bytes meanwhile; then one in ten.
        let settings = PolicerSettings::new(BucketSettings { rate_bps: 8_000_000, burst_bytes: 2_800 }, None);
        let mut policer = Policer::new(settings.expect("in range"), 0);
        let passed: Vec<u64> = (0..40).filter(|packet| policer.passes(packet * 100_000, 1_000)).collect();
        assert_eq!(passed, [0, 1, 2, 12, 22, 32]);
    }

    #[test]
    fn what_exceeds_is_marked_or_else_dropped() {
        // One packet of 1,000 bytes passes on the burst.
        let settings =
            PolicerSettings::new(BucketSettings { rate_bps: 8, burst_bytes: 1_000 }, None).expect("in range");
        let policer = Some(Some(PolicerSettings { marks: true, ..settings }));
        let mut tm = TrafficManager::new(usize::MAX);
        tm.configure(PORT, 0, Changes { policer, rate: Some(Rate::Bps(8_000)), ..Changes::default() })
            .expect("in range");
        assert!(matches!(tm.enqueue(0, PORT, 0, 1_000, None, 0), Admission::Started(_)));
        for (packet, is_marked) in [(1, true), (2, false), (3, true)] {
            let mut asked = false;
            let mark = |exceeds: &mut u64| {
                asked = *exceeds == packet;
                is_marked
            };
            let admission = tm.enqueue_or_mark(0, PORT, 0, 1_000, None, (packet, mark));
            assert!(asked, "it conforms");
            match admission {
                Admission::Queued => assert!(is_marked),
                other => assert!(matches!(other, Admission::Policed(2)) && !is_marked),
            }
        }
        let status = &tm.status()[0];
        let Counters { enqueued_packets, policed_packets, dropped_packets, .. } = status.counters;
        assert_eq!((enqueued_packets, policed_packets, dropped_packets), (3, 1, 1));
    }

    #[test]
    fn settings_that_let_nothing_pass_are_refused() {
        let bucket = |rate_bps, burst_bytes| BucketSettings { rate_bps, burst_bytes };
        let good = bucket(1_000, 1_500);
        for (committed, peak, field) in [
            (bucket(0, 1), None, "rate_bps 0"),
            (bucket(MAX_RATE_BPS + 1, 1), None, "rate_bps 10000000000001"),
            (bucket(1, 0), None, "burst_bytes 0"),
            (good, Some(bucket(1_000, 0)), "peak_burst_bytes 0"),
            (good, Some(bucket(999, 1)), "peak_rate_bps 999"),
        ] {
            let error = PolicerSettings::new(committed, peak).expect_err("it lets nothing pass");
            assert!(error.starts_with(field), "{error}");
        }
        assert!(PolicerSettings::new(good, Some(good)).is_ok());
    }
}
