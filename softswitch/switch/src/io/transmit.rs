//! Transmission on one interface: AF_XDP where the kernel has it, AF_PACKET otherwise, runs of segments as one frame where the
//! kernel cuts them; and when to send.
//!
//! Packets are sent by the data path as soon as it has gone through what was due. Copies (telemetry) can wait: they are
//! sent when the data path has nothing else to do, and by the helper thread if it never has.
// SPDX-License-Identifier: Apache-2.0
use std::any::Any;
use std::sync::atomic::Ordering;

use narrows_pipeline::{Instance, Packet, PacketPool};

use super::af_packet::{AfPacketSender, BATCH};
use super::gso::{GsoSender, Run};
use super::helper::Helper;
use super::socket::PacketSocket;
use super::transmit_counters::TransmitCounters;
use super::xdp::{Sent, XdpSender, PLACES};

/// Copies wait no longer than this.
const PATIENCE_NS: u64 = 1_000_000;
/// When to try again to send what a full interface did not take.
const RETRY_NS: u64 = 50_000;
/// About what it takes to send a short frame.
const SENDING_NS: u64 = 1_000;
/// System calls in a row for one interface.
const CALLS: u32 = 2 * PLACES;
/// An Ethernet header: no interface takes less.
const MIN_FRAME: usize = 14;

/// A socket that is only to be closed yet.
pub type Retired = Box<dyn Any + Send>;

/// Packets on their way into one interface.
#[derive(Debug)]
pub struct Transmitter {
    af_packet: AfPacketSender,
    af_xdp: Option<XdpSender>,
    /// For runs, beside AF_XDP.
    gso: Option<GsoSender>,
    /// What was added last; goes out before anything that is added behind it.
    run: Run,
    /// Not used any more; closing takes the kernel long.
    retired: Vec<Retired>,
    /// Of both; what was written for `af_xdp` counts as sent.
    counters: TransmitCounters,
    /// Something else than copies waits.
    urgent: bool,
    /// The interface took nothing at the last attempt.
    blocked: bool,
    /// When the oldest copy that waits was noticed.
    waiting_since: Option<u64>,
    /// The helper sends everything: the data path is busy.
    by_helper: bool,
    /// Frames since the last [`Transmitter::take_load`], but for copies.
    load: u64,
}

impl Transmitter {
    /// Sends on `socket`.
    pub fn new(socket: PacketSocket) -> Self {
        Transmitter {
            af_packet: AfPacketSender::new(socket),
            af_xdp: None,
            gso: None,
            run: Run::default(),
            retired: vec![],
            counters: TransmitCounters::default(),
            urgent: false,
            blocked: false,
            waiting_since: None,
            by_helper: false,
            load: 0,
        }
    }

    /// Frames since the last call, but for copies.
    pub fn take_load(&mut self) -> u64 {
        std::mem::take(&mut self.load)
    }

    /// Leaves all sending to the helper, or not.
    pub fn send_by_helper(&mut self, by_helper: bool) {
        self.by_helper = by_helper;
    }

    /// Sends on another socket from now on, as after the interface was made again.
    pub fn replace_socket(&mut self, socket: PacketSocket) {
        let old = self.af_packet.replace_socket(socket);
        self.retired.push(Box::new(old));
        self.replace_af_xdp(None, None);
    }

    /// Sends by this AF_XDP socket from now on, if there is one, and runs by the other. What the old one did not send is counted as
    /// refused.
    pub fn replace_af_xdp(&mut self, af_xdp: Option<XdpSender>, gso: Option<GsoSender>) {
        let unsent = self.af_xdp.as_ref().map_or(0, |af_xdp| af_xdp.outlet().waiting().0);
        self.counters = self.counters();
        self.counters.errors += unsent;
        if let Some(old) = std::mem::replace(&mut self.af_xdp, af_xdp) {
            self.retired.push(Box::new(old));
        }
        if let Some(old) = std::mem::replace(&mut self.gso, gso) {
            self.retired.push(Box::new(old));
        }
        (self.urgent, self.blocked, self.waiting_since) = (false, false, None);
    }

    /// The sockets that were replaced.
    pub fn take_retired(&mut self) -> Vec<Retired> {
        std::mem::take(&mut self.retired)
    }

    /// The AF_PACKET socket.
    pub fn socket(&self) -> &PacketSocket {
        self.af_packet.socket()
    }

    /// Longest frame that can be sent by AF_XDP, if that is in use.
    pub fn af_xdp_limit(&self) -> Option<usize> {
        self.af_xdp.as_ref().map(XdpSender::frame_limit)
    }

    /// Counters so far.
    pub fn counters(&self) -> TransmitCounters {
        let mut counters = self.counters;
        if let Some(af_xdp) = &self.af_xdp {
            let (refused, waiting) = (af_xdp.outlet().refused(), af_xdp.outlet().waiting());
            counters.packets -= refused.0 + waiting.0;
            counters.bytes -= refused.1 + waiting.1;
            counters.drops += refused.0;
        }
        counters
    }

    /// When to call [`Transmitter::flush`] at the latest; `None` if nothing waits.
    #[inline]
    pub fn due(&self, now_ns: u64) -> Option<u64> {
        let waits = self.af_packet.is_pending() || self.urgent;
        let copies = self.waiting_since.map(|since| since + PATIENCE_NS);
        waits.then_some(now_ns + RETRY_NS).or(copies)
    }

    /// Adds a packet; sends when a batch is full or a run has ended.
    #[inline]
    pub fn push(&mut self, packet: Box<Packet>, pool: &mut PacketPool, helper: &Helper) {
        let Err(mut packet) = self.join(packet) else {
            return;
        };
        if !self.run.is_empty() {
            self.end_run(pool, helper);
            match self.join(packet) {
                Ok(()) => return,
                Err(other) => packet = other,
            }
        }
        self.push_alone(packet, pool, helper);
    }

    /// Adds a packet to the run if it goes on there; the helper sends by AF_XDP only.
    #[inline]
    fn join(&mut self, packet: Box<Packet>) -> Result<(), Box<Packet>> {
        if self.gso.is_some() && !self.by_helper {
            self.run.offer(packet)
        } else {
            Err(packet)
        }
    }

    /// Sends the run as one frame if that is worthwhile and nothing is before it; adds its packets one by one otherwise.
    fn end_run(&mut self, pool: &mut PacketPool, helper: &Helper) {
        if self.run.is_worthwhile() && self.send_before() {
            if let Some(gso) = &self.gso {
                let (packets, bytes) = self.run.size();
                self.load += packets;
                match gso.send(&mut self.run, pool).map_err(|error| error.raw_os_error()) {
                    Ok(()) => {
                        self.counters.packets += packets;
                        self.counters.bytes += bytes;
                    }
                    Err(Some(libc::EAGAIN | libc::ENOBUFS)) => self.counters.drops += packets,
                    Err(_) => self.counters.errors += packets,
                }
                return;
            }
        }
        let mut run = std::mem::take(&mut self.run);
        run.packets().for_each(|packet| self.push_alone(packet, pool, helper));
        self.run = run;
    }

    /// Sends what was written for `af_xdp`. False: the interface did not take all of it.
    fn send_before(&mut self) -> bool {
        let Some(af_xdp) = &mut self.af_xdp else {
            return false;
        };
        af_xdp.publish();
        if af_xdp.outlet().pending() > 0 {
            self.send_if_free();
        }
        self.af_xdp.as_ref().is_some_and(|af_xdp| af_xdp.outlet().pending() == 0)
    }

    #[inline]
    fn push_alone(&mut self, packet: Box<Packet>, pool: &mut PacketPool, helper: &Helper) {
        if self.af_xdp.is_none() {
            self.af_packet.push(packet, pool, &mut self.counters);
            return;
        }
        if self.write(packet.bytes()) {
            let copy = matches!(packet.instance(), Instance::EgressClone | Instance::IngressClone);
            self.urgent |= !copy;
            self.load += u64::from(!copy);
        }
        pool.give(packet);
        if self.af_xdp.as_ref().is_some_and(|af_xdp| af_xdp.unpublished() as usize >= BATCH) {
            self.dispatch(helper);
        }
    }

    /// Sends data frames, as far as the interface takes them, and copies if there is time for them in `idle_ns`. Never
    /// waits. Returns whether it has taken time for copies.
    #[inline]
    pub fn flush(&mut self, now_ns: u64, idle_ns: u64, pool: &mut PacketPool, helper: &Helper) -> bool {
        if !self.run.is_empty() {
            self.end_run(pool, helper);
        }
        if self.af_packet.is_pending() {
            self.af_packet.flush(pool, &mut self.counters);
        }
        let Some(af_xdp) = &mut self.af_xdp else {
            return false;
        };
        if af_xdp.unpublished() > 0 {
            af_xdp.publish();
        } else if !self.urgent && self.waiting_since.is_none() {
            return false;
        }
        self.blocked = false;
        if self.urgent && self.by_helper {
            self.dispatch(helper);
            return false;
        }
        if self.urgent {
            self.send_if_free();
            return false;
        }
        af_xdp.reclaim();
        let pending = af_xdp.outlet().pending();
        if pending == 0 {
            self.waiting_since = None;
            return false;
        }
        let since = *self.waiting_since.get_or_insert(now_ns);
        let delegated = af_xdp.outlet().delegated.load(Ordering::Acquire);
        if !delegated && u64::from(pending) * SENDING_NS < idle_ns {
            self.waiting_since = Some(now_ns);
            self.send();
            return true;
        }
        if pending as usize >= BATCH || now_ns >= since + PATIENCE_NS {
            self.waiting_since = Some(now_ns);
            self.dispatch(helper);
        }
        false
    }

    /// Writes a frame for `af_xdp`; sends what is before it if there is no room.
    #[inline]
    fn write(&mut self, frame: &[u8]) -> bool {
        let Some(af_xdp) = &mut self.af_xdp else {
            return false;
        };
        if frame.len() < MIN_FRAME || frame.len() > af_xdp.frame_limit() {
            self.counters.errors += 1;
            return false;
        }
        if af_xdp.push(frame) || self.make_room() && self.af_xdp.as_mut().is_some_and(|af_xdp| af_xdp.push(frame)) {
            self.counters.packets += 1;
            self.counters.bytes += frame.len() as u64;
            return true;
        }
        self.counters.drops += 1;
        false
    }

    /// All places are used: takes back what was sent, and sends. False: the interface is full.
    #[cold]
    fn make_room(&mut self) -> bool {
        if let Some(af_xdp) = &mut self.af_xdp {
            af_xdp.reclaim();
            if af_xdp.is_full() && !self.blocked {
                af_xdp.publish();
                self.send();
            }
        }
        self.af_xdp.as_ref().is_some_and(|af_xdp| !af_xdp.is_full())
    }

    /// Shows the kernel what was written, and sends it or has it sent.
    fn dispatch(&mut self, helper: &Helper) {
        let Some(af_xdp) = &mut self.af_xdp else {
            return;
        };
        af_xdp.publish();
        if self.urgent && !self.by_helper || !helper.delegate(af_xdp.outlet()) {
            self.send_if_free();
            return;
        }
        af_xdp.reclaim();
        self.urgent &= af_xdp.outlet().pending() > 0;
    }

    /// Sends what was published, unless the helper is still doing so: it would have to be waited for.
    fn send_if_free(&mut self) {
        match &mut self.af_xdp {
            Some(af_xdp) if af_xdp.outlet().delegated.load(Ordering::Acquire) => {
                af_xdp.reclaim();
                self.urgent &= af_xdp.outlet().pending() > 0;
            }
            _ => self.send(),
        }
    }

    /// Sends what was published.
    fn send(&mut self) {
        let Some(af_xdp) = &mut self.af_xdp else {
            return;
        };
        match af_xdp.outlet().send(CALLS) {
            Sent::All => (self.urgent, self.waiting_since) = (false, None),
            Sent::Part | Sent::Blocked => self.blocked = true,
            // Down or gone: the AF_PACKET socket counts errors until the port opens another one.
            Sent::Failed => return self.replace_af_xdp(None, None),
        }
        af_xdp.reclaim();
    }
}
