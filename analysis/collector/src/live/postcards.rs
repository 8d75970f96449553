// SPDX-License-Identifier: Apache-2.0
//! Reports as INT-XD postcards while they come in: Telemetry Report Format 2.0 of the P4.org Applications Working Group, one
//! report in a UDP datagram, with the headers of the original packet.

use std::collections::HashMap;
use std::io;
use std::net::{ToSocketAddrs, UdpSocket};
use std::time::{SystemTime, UNIX_EPOCH};

use super::Units;
use crate::wire::report::FLAG_CE_MARKED;
use crate::wire::{Record, Report};

const VERSION: u32 = 2;
const INT: u8 = 1;
/// What follows the metadata: nothing, or a packet, starting with its Ethernet header and cut to whole words.
const INNER_NONE: u8 = 0;
const INNER_ETHERNET: u8 = 3;
const DROPPED: u8 = 0x80;
const CONGESTED: u8 = 0x40;
const TRACKED: u8 = 0x20;
/// Hop latency; queue and occupancy; ingress and egress timestamps.
const BASELINE: u16 = 0x3c00;
const BASELINE_WORDS: u8 = 6;
/// Our own metadata, a word each: arrivals, departures, loss_drops, sequence, epoch, aqm_drops.
const DOMAIN: u16 = 0x4e57;
const DOMAIN_BITS: u16 = 0xfc00;
const DOMAIN_WORDS: u8 = 6;
const FIXED_WORDS: u8 = 2;
/// Bytes of the original packet: as many as the report length, which is one byte, allows.
const INNER_WORDS: usize = 255 - (FIXED_WORDS + BASELINE_WORDS + DOMAIN_WORDS) as usize;
/// The reserved value of a word that is not available.
const ABSENT: u32 = u32::MAX;
const OCCUPANCY: u64 = (1 << 24) - 1;
const QUEUE: u16 = (1 << 8) - 1;
const TIMESTAMP_BITS: u32 = 48;

/// Sends a postcard for every report, in the order of their arrival.
pub struct Postcards {
    socket: UdpSocket,
    node: u32,
    units: Units,
    clock: Option<Clock>,
    /// Drops up to the previous report, by bottleneck and flow index: of the queue, and of loss emulation.
    before: HashMap<(u8, u16), (u32, u32)>,
    datagram: Vec<u8>,
    sent: u64,
    not_sent: u64,
}

/// The switch's clock without wraps, and what to add to it to get nanoseconds since 1970.
struct Clock {
    last: u64,
    ahead_ns: i128,
}

impl Postcards {
    /// Sends to the first address of `receiver`, host:port. Nothing needs to listen there.
    ///
    /// # Errors
    /// If there is no such address.
    pub fn open(receiver: &str, node: u32, units: Units) -> io::Result<Self> {
        let none = || io::Error::other("no such address");
        let address = receiver.to_socket_addrs()?.next().ok_or_else(none)?;
        let own = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(own)?;
        socket.connect(address)?;
        // Reports are more important than postcards: what does not fit into the socket's buffer is counted as not sent.
        socket.set_nonblocking(true)?;
        let (clock, before, datagram) = (None, HashMap::new(), Vec::with_capacity(1024));
        Ok(Postcards { socket, node, units, clock, before, datagram, sent: 0, not_sent: 0 })
    }

    /// Sends the postcard of a report whose original packet begins with `original`.
    pub fn send(&mut self, record: &Record, original: &[u8]) {
        let report = &record.report;
        let left_ns = self.nanoseconds(report.timestamp);
        let drops = (report.arrivals.wrapping_sub(report.departures), report.loss_drops);
        // As in a run: counters start from zero, except those of a flow that shows otherwise.
        let carried = report.departures > report.sequence;
        let before = self.before.entry((report.bottleneck, report.flow));
        let dropped = match before {
            std::collections::hash_map::Entry::Occupied(mut seen) => seen.insert(drops) != drops,
            std::collections::hash_map::Entry::Vacant(new) => {
                new.insert(drops);
                !carried && drops != (0, 0)
            }
        };
        let waited = report.queue_delay.saturating_sub(self.units.empty_queue_delay);
        let waited_ns = (waited as f64 * self.units.time_unit_s * 1e9).round() as u64;
        self.datagram.clear();
        write(
            &mut self.datagram,
            report,
            original,
            &Shown { node: self.node, dropped, left_ns, waited_ns, units: &self.units },
        );
        match self.socket.send(&self.datagram) {
            Ok(_) => self.sent += 1,
            // Nothing listens, or the buffer is full.
            Err(_) => self.not_sent += 1,
        }
    }

    /// Postcards that were sent, and those that were not.
    pub fn counts(&self) -> (u64, u64) {
        (self.sent, self.not_sent)
    }

    /// The first report is assumed to have left the switch when it arrived here.
    fn nanoseconds(&mut self, timestamp: u64) -> u64 {
        let nanoseconds = |time: u64| (time as f64 * self.units.time_unit_s * 1e9).round() as i128;
        let clock = self.clock.get_or_insert_with(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos() as i128);
            Clock { last: timestamp, ahead_ns: now - nanoseconds(timestamp) }
        });
        let step = (timestamp.wrapping_sub(clock.last) << (64 - TIMESTAMP_BITS)) as i64 >> (64 - TIMESTAMP_BITS);
        clock.last = clock.last.saturating_add_signed(step);
        u64::try_from(clock.ahead_ns + nanoseconds(clock.last)).unwrap_or(0)
    }
}

/// The error for a field that is not in a report.
struct Shown<'a> {
    node: u32,
    dropped: bool,
    left_ns: u64,
    waited_ns: u64,
    units: &'a Units,
}

/// A group of one report. Its hardware number is the bottleneck, whose reports its sequence number counts, so that lost ones
/// can be seen. A latency or an occupancy that is not known, or too large for its field, is the reserved value.
fn write(out: &mut Vec<u8>, report: &Report, original: &[u8], shown: &Shown<'_>) {
    let number = report.row().wrapping_add(1) & 0x003f_ffff;
    let inner = &original[..(original.len() / 4).min(INNER_WORDS) * 4];
    let kind = if inner.is_empty() { INNER_NONE } else { INNER_ETHERNET };
    let mut bits = TRACKED;
    bits |= if shown.dropped { DROPPED } else { 0 };
    bits |= if report.flags & FLAG_CE_MARKED != 0 { CONGESTED } else { 0 };
    let metadata = BASELINE_WORDS + DOMAIN_WORDS;
    let words = FIXED_WORDS + metadata + (inner.len() / 4) as u8;
    let found = shown.units.depth_unit_bytes.map(|unit| u64::from(report.enqueue_depth) * u64::from(unit));
    let held = found.filter(|found| *found < OCCUPANCY && report.queue <= QUEUE);
    let occupancy = held.map_or(ABSENT, |found| u32::from(report.queue) << 24 | found as u32);

    out.extend((VERSION << 28 | u32::from(report.bottleneck) << 22 | number).to_be_bytes());
    out.extend(shown.node.to_be_bytes());
    out.extend([INT << 4 | kind, words, metadata, bits]);
    for half in [BASELINE, DOMAIN, DOMAIN_BITS, 0] {
        out.extend(half.to_be_bytes());
    }
    out.extend(u32::try_from(shown.waited_ns).unwrap_or(ABSENT).to_be_bytes());
    out.extend(occupancy.to_be_bytes());
    out.extend((shown.left_ns - shown.waited_ns.min(shown.left_ns)).to_be_bytes());
    out.extend(shown.left_ns.to_be_bytes());
    let epoch = report.epoch.into();
    let counts = [report.arrivals, report.departures, report.loss_drops, report.sequence, epoch, report.aqm_drops];
    for word in counts {
        out.extend(word.to_be_bytes());
    }
    out.extend(inner);
}
