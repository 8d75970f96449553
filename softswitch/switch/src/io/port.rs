//! One port of the switch on a Linux interface.
// SPDX-License-Identifier: Apache-2.0
use std::io;
use std::sync::mpsc::{self, Receiver, TryRecvError};

use narrows_drop_records::{DropRecord, FieldRecord};
use narrows_packet_sockets::interface_index;
use narrows_pipeline::{Packet, PacketPool};

use super::access::{AccessLink, AccessSettings};
use super::background::Background;
use super::checksum::{self, Partial};
use super::clock::WallOffset;
use super::frame::Frame;
use super::gso::GsoSender;
use super::helper::Helper;
use super::interface::{is_up, mtu};
use super::launch::Launcher;
use super::moderation::ModerationSettings;
use super::receive::ReceiveRing;
use super::recorder::Recorder;
use super::socket::PacketSocket;
use super::transmit::Transmitter;
use super::xdp::XdpSender;
use super::MAX_FRAME;

/// Counters of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames that found the receive ring full.
    pub rx_ring_drops: u64,
    /// Frames that were too long, or several packets in one.
    pub rx_errors: u64,
    /// Frames whose transport checksum was completed.
    pub rx_partial_checksums: u64,
    /// Frames that waited on their host for its link.
    pub rx_held: u64,
    /// The longest that one of them waited.
    pub rx_longest_held_ns: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames dropped because the interface stayed full.
    pub tx_drops: u64,
    /// Frames refused by the interface.
    pub tx_errors: u64,
    /// Frames that were handed to the kernel after their time, in real time by more than [`LATE_NS`].
    pub tx_late: u64,
}

/// Attempts to open an AF_XDP socket again. The old one may be in use for a moment; where it cannot work, trying costs time.
const AF_XDP_ATTEMPTS: u32 = 8;

/// In real time a frame is late if it leaves more than this after its time: on a machine that keeps up none does.
pub const LATE_NS: u64 = 10_000_000;

/// A frame that seems to have been sent from further ahead than this was stamped before the wall clock was set back.
const STAMP_AHEAD_NS: u64 = 10_000_000;

/// A port: receive ring, transmitter, counters.
#[derive(Debug)]
pub struct Port {
    /// Port number.
    pub number: u16,
    /// Interface name.
    pub name: String,
    ring: ReceiveRing,
    ring_settings: RingSettings,
    frame_limit: usize,
    access: AccessLink,
    /// A frame that was sent had not arrived when it was last looked for.
    underway: bool,
    outlet: Outlet,
    /// Sockets that are being opened beside the packets.
    opening: Option<Receiver<Opened>>,
    /// How often to try yet to send by AF_XDP after that has stopped working.
    af_xdp_attempts: u32,
    received: PortCounters,
    /// Frames that leave at once and were late.
    late: u64,
}

/// How frames leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// At once, by AF_XDP where it works.
    AfXdp,
    /// At once, by AF_PACKET.
    AfPacket,
    /// By the kernel's timers, ahead of their time.
    Timed,
}

/// What of frames is received into how much memory.
#[derive(Debug, Clone, Copy)]
pub struct RingSettings {
    /// About the size of the ring.
    pub bytes: usize,
    /// Bytes of a frame that are held; all behind them are zeros. `None`: frames are held whole, and longer ones than the
    /// interface's MTU allows are errors.
    pub snaplen: Option<usize>,
    /// TCP segments that a host's kernel leaves to its card to cut are cut here (TCP segmentation offload).
    pub tso: bool,
    /// Frames arrive when they are handed to the interface, whenever its processor has time for them.
    pub stamped: bool,
}

/// How a port is opened.
#[derive(Debug, Clone, Copy)]
pub struct PortSettings {
    /// The receive ring.
    pub ring: RingSettings,
    /// How frames leave.
    pub sending: Sending,
    /// The link from the host to the switch.
    pub access: AccessSettings,
    /// Interrupts of the host's card, where frames leave at their time.
    pub moderation: Option<ModerationSettings>,
}

/// What sends.
#[derive(Debug)]
enum Outlet {
    Now(Transmitter),
    Timed(Launcher),
    Piped(Recorder),
}

/// Which sockets are to be opened on an interface.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    index: libc::c_int,
    ring: bool,
    sender: bool,
    /// By AF_XDP, for frames of that length.
    af_xdp: Option<usize>,
}

/// Those that could be opened.
#[derive(Debug)]
struct Opened {
    ring: Option<(ReceiveRing, usize)>,
    sender: Option<PacketSocket>,
    /// `Some(None)`: by AF_PACKET from now on.
    af_xdp: Option<Option<XdpSender>>,
    /// Beside AF_XDP.
    gso: Option<GsoSender>,
}

impl Opened {
    fn open(name: &str, settings: RingSettings, wanted: Wanted) -> Self {
        let ring = wanted.ring.then(|| open_ring(name, settings).ok()).flatten();
        let frame_limit = ring.as_ref().map_or(0, |(_, frame_limit)| *frame_limit);
        Opened {
            ring,
            sender: wanted.sender.then(|| PacketSocket::sender(wanted.index).ok()).flatten(),
            af_xdp: wanted.af_xdp.map(|bytes| XdpSender::open(wanted.index, bytes.max(frame_limit)).ok()),
            gso: wanted.af_xdp.and_then(|_| GsoSender::open(name, wanted.index).ok().flatten()),
        }
    }
}

/// Longest frame at this MTU, with a VLAN tag.
fn frame_limit(mtu: usize) -> usize {
    (mtu + 14 + 4).min(MAX_FRAME)
}

/// Opens the interface's ring, with slots for the frames of its MTU (and a VLAN tag).
fn open_ring(name: &str, settings: RingSettings) -> io::Result<(ReceiveRing, usize)> {
    let frame_limit = frame_limit(mtu(name)?);
    let socket = PacketSocket::receiver(interface_index(name)?)?;
    if settings.stamped {
        socket.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)?;
    }
    let held = settings.snaplen.map_or(frame_limit, |snaplen| snaplen.min(frame_limit));
    Ok((ReceiveRing::new(socket, settings.bytes, held, settings.tso)?, frame_limit))
}

impl Port {
    /// Opens the interface.
    pub fn open(number: u16, name: &str, settings: PortSettings) -> io::Result<Self> {
        let PortSettings { ring: ring_settings, sending, access, moderation } = settings;
        let (ring, frame_limit) = open_ring(name, ring_settings)?;
        ring.listen()?;
        let index = interface_index(name)?;
        let af_xdp_attempts = if sending == Sending::AfXdp { AF_XDP_ATTEMPTS } else { 0 };
        let outlet = match sending {
            Sending::AfXdp | Sending::AfPacket => Outlet::Now(Transmitter::new(PacketSocket::sender(index)?)),
            Sending::Timed => Outlet::Timed(Launcher::new(index, moderation)?),
        };
        let mut port = Port {
            number,
            name: name.to_owned(),
            ring,
            ring_settings,
            frame_limit,
            access: AccessLink::new(access),
            underway: false,
            outlet,
            opening: None,
            af_xdp_attempts,
            received: PortCounters::default(),
            late: 0,
        };
        let af_xdp = port.wants_af_xdp();
        port.adopt(
            Opened::open(name, ring_settings, Wanted { index, ring: false, sender: false, af_xdp }),
            &Background::default(),
        );
        Ok(port)
    }

    /// File descriptor that becomes readable when a frame arrives.
    pub fn fd(&self) -> libc::c_int {
        self.ring.socket().fd()
    }

    /// What is to be sent at once, if this port sends so.
    #[inline]
    pub fn transmitter(&mut self) -> Option<&mut Transmitter> {
        match &mut self.outlet {
            Outlet::Now(transmitter) => Some(transmitter),
            Outlet::Timed(_) | Outlet::Piped(_) => None,
        }
    }

    /// Sends what was added, where this port sends in real time: data frames at once, copies if there is time for them in `idle_ns`.
    /// Returns whether it has taken time for copies.
    #[inline]
    pub fn flush(&mut self, now_ns: u64, idle_ns: u64, pool: &mut PacketPool, helper: &Helper) -> bool {
        match &mut self.outlet {
            Outlet::Now(transmitter) => transmitter.flush(now_ns, idle_ns, pool, helper),
            Outlet::Timed(_) => false,
            Outlet::Piped(recorder) => recorder.flush_if_due(now_ns, idle_ns),
        }
    }

    /// When to call [`Port::flush`] at the latest; `None` if nothing waits.
    pub fn due(&self, now_ns: u64) -> Option<u64> {
        match &self.outlet {
            Outlet::Now(transmitter) => transmitter.due(now_ns),
            Outlet::Timed(_) => None,
            Outlet::Piped(recorder) => recorder.due(),
        }
    }

    /// When the host's card delivers the frames that it holds, if no more come.
    pub fn held_until(&self) -> Option<u64> {
        match &self.outlet {
            Outlet::Timed(launcher) => launcher.held_until(),
            Outlet::Now(_) | Outlet::Piped(_) => None,
        }
    }

    /// Adds a packet to what is to be sent; it is due at `exit_ns`, and it is `now_ns`.
    #[inline]
    pub fn push(&mut self, exit_ns: u64, now_ns: u64, packet: Box<Packet>, pool: &mut PacketPool, helper: &Helper) {
        match &mut self.outlet {
            Outlet::Now(transmitter) => {
                self.late += u64::from(now_ns > exit_ns + LATE_NS);
                transmitter.push(packet, pool, helper);
            }
            Outlet::Timed(launcher) => launcher.push(exit_ns, packet),
            Outlet::Piped(recorder) => {
                recorder.push(exit_ns, &packet);
                pool.give(packet);
            }
        }
    }

    /// Hands over what leaves until `horizon_ns`, if this port sends ahead of the time.
    #[inline]
    pub fn launch(&mut self, now_ns: u64, horizon_ns: u64, pool: &mut PacketPool) {
        match &mut self.outlet {
            Outlet::Now(_) => {}
            Outlet::Timed(launcher) => launcher.flush(now_ns, horizon_ns, pool),
            // Time stands still while it writes.
            Outlet::Piped(recorder) => {
                recorder.flush_if_due(now_ns, u64::MAX);
            }
        }
    }

    /// Writes what was added, if this port sends into a pipe.
    pub fn record(&mut self) {
        if let Outlet::Piped(recorder) = &mut self.outlet {
            recorder.flush();
        }
    }

    /// Whether this port sends into a pipe.
    pub fn records(&self) -> bool {
        matches!(self.outlet, Outlet::Piped(_))
    }

    /// Writes a drop record into the pipe, if this port sends into one.
    pub fn record_drop(&mut self, record: &DropRecord) {
        if let Outlet::Piped(recorder) = &mut self.outlet {
            recorder.push_drop(record);
        }
    }

    /// The same with the record of watched fields.
    pub fn record_fields(&mut self, record: &FieldRecord) {
        if let Outlet::Piped(recorder) = &mut self.outlet {
            recorder.push_fields(record);
        }
    }

    /// From now on what leaves goes into a pipe; the interface only receives.
    pub fn divert(&mut self, pipe: Recorder) {
        self.outlet = Outlet::Piped(pipe);
    }

    /// As [`Port::arrival`], and remembers whether there was one: see [`Port::is_quiet`].
    pub fn look_ahead(&mut self, offset: WallOffset, now_ns: u64) -> Option<u64> {
        let arrival = self.arrival(offset, now_ns);
        self.underway = arrival.is_some();
        arrival
    }

    /// True if there was no frame at the last [`Port::look_ahead`]: one that has come since then is still to be noticed.
    pub fn is_quiet(&self) -> bool {
        !self.underway
    }

    /// When the oldest received frame was sent to the access link, on the switch clock, and its length.
    #[inline]
    fn head(&mut self, offset: WallOffset, now_ns: u64) -> Option<(u64, u32)> {
        let (sent_ns, length) = self.ring.head(offset)?;
        Some((if sent_ns > now_ns + STAMP_AHEAD_NS { now_ns } else { sent_ns }, length))
    }

    /// Arrival time of the oldest received frame, on the switch clock.
    #[inline]
    pub fn arrival(&mut self, offset: WallOffset, now_ns: u64) -> Option<u64> {
        let (sent_ns, length) = self.head(offset, now_ns)?;
        Some(self.access.arrival_ns(sent_ns, length))
    }

    /// Takes the oldest received frame into a packet of `pool`. `None`: the frame was discarded and counted, or there is none.
    #[inline]
    pub fn receive(&mut self, offset: WallOffset, now_ns: u64, pool: &mut PacketPool) -> Option<Box<Packet>> {
        let (sent_ns, length) = self.head(offset, now_ns)?;
        self.access.take(sent_ns, length);
        let (received, whole) = (&mut self.received, self.ring_settings.snaplen.is_none());
        self.ring.take(|frame| take_frame(&frame, whole, received, pool))?
    }

    /// Counters so far, the kernel's included.
    pub fn counters(&mut self) -> PortCounters {
        self.received.rx_ring_drops += self.ring.socket().take_ring_drops();
        let (sent, tx_late) = match &self.outlet {
            Outlet::Now(transmitter) => (transmitter.counters(), self.late),
            Outlet::Timed(launcher) => (launcher.counters(), launcher.late()),
            Outlet::Piped(recorder) => (recorder.counters(), 0),
        };
        let held = self.access.held();
        PortCounters {
            rx_held: held.frames,
            rx_longest_held_ns: held.longest_ns,
            tx_packets: sent.packets,
            tx_bytes: sent.bytes,
            tx_drops: sent.drops,
            tx_errors: sent.errors,
            tx_late,
            ..self.received
        }
    }

    /// Forgets that the interface went down: it works again by itself when it comes up.
    pub fn clear_error(&self) {
        drop(self.ring.socket().take_error());
        match &self.outlet {
            Outlet::Now(transmitter) => drop(transmitter.socket().take_error()),
            Outlet::Timed(launcher) => launcher.clear_error(),
            Outlet::Piped(_) => {}
        }
    }

    /// Opens the interface again if it was made again under the same name or its MTU has grown beyond the ring's slots, and closes
    /// what is not used any more. Both take the kernel long and happen in the background; packets pass meanwhile. Returns whether
    /// something is being opened.
    ///
    /// Does nothing while the interface does not exist. An interface that only went down needs nothing but its AF_XDP socket.
    pub fn maintain(&mut self, background: &Background) -> bool {
        self.clear_error();
        // First: a queue takes one AF_XDP socket.
        let retired = self.transmitter().map(Transmitter::take_retired).unwrap_or_default();
        if !retired.is_empty() {
            background.run(move || drop(retired));
        }
        if self.opening.is_none() {
            self.open_again(background);
        }
        match self.opening.as_ref().map(Receiver::try_recv) {
            Some(Err(TryRecvError::Empty)) => return true,
            Some(Ok(opened)) => {
                self.opening = None;
                self.adopt(opened, background);
            }
            Some(Err(TryRecvError::Disconnected)) | None => self.opening = None,
        }
        false
    }

    fn open_again(&mut self, background: &Background) {
        let Ok(index) = interface_index(&self.name) else {
            return;
        };
        let outgrown = mtu(&self.name).is_ok_and(|mtu| frame_limit(mtu) > self.frame_limit);
        let ring = index != self.ring.socket().index() || outgrown;
        let af_xdp = self.wants_af_xdp();
        let sender = match &mut self.outlet {
            Outlet::Now(transmitter) => index != transmitter.socket().index(),
            Outlet::Timed(_) | Outlet::Piped(_) => false,
        };
        if ring || sender || af_xdp.is_some() {
            let (give, take) = mpsc::sync_channel(1);
            let (name, settings) = (self.name.clone(), self.ring_settings);
            let wanted = Wanted { index, ring, sender, af_xdp };
            background.run(move || {
                // If it is not wanted any more, it is closed here.
                let _ = give.send(Opened::open(&name, settings, wanted));
            });
            self.opening = Some(take);
        }
    }

    /// Uses these sockets from now on.
    fn adopt(&mut self, opened: Opened, background: &Background) {
        if let Some((ring, frame_limit)) = opened.ring.filter(|(ring, _)| ring.listen().is_ok()) {
            let mut old = std::mem::replace(&mut self.ring, ring);
            self.frame_limit = frame_limit;
            self.received.rx_ring_drops += old.socket().take_ring_drops();
            while old.take(|_| ()).is_some() {
                self.received.rx_ring_drops += 1;
            }
            background.run(move || drop(old));
        }
        let Outlet::Now(transmitter) = &mut self.outlet else {
            return;
        };
        if let Some(socket) = opened.sender {
            transmitter.replace_socket(socket);
        }
        if let Some(af_xdp) = opened.af_xdp {
            transmitter.replace_af_xdp(af_xdp, opened.gso);
        }
    }

    /// The frames for which an AF_XDP socket is to be opened, unless there is one or it was tried often enough. Without one
    /// (frames longer than a page, a kernel that has none, a queue that another socket has) AF_PACKET does.
    fn wants_af_xdp(&mut self) -> Option<usize> {
        let limit = self.transmitter()?.af_xdp_limit();
        if limit.is_some_and(|limit| limit >= self.frame_limit) {
            if self.af_xdp_attempts > 0 {
                self.af_xdp_attempts = AF_XDP_ATTEMPTS;
            }
        } else if self.af_xdp_attempts > 0 && is_up(&self.name) {
            self.af_xdp_attempts -= 1;
            return Some(self.frame_limit);
        }
        None
    }
}

/// Takes a frame that the ring holds `whole`, or the beginning of one.
fn take_frame(
    frame: &Frame<'_>,
    whole: bool,
    counters: &mut PortCounters,
    pool: &mut PacketPool,
) -> Option<Box<Packet>> {
    let tag = if frame.vlan.is_some() { 4 } else { 0 };
    let (length, held) = (frame.length + tag, frame.bytes.len() + tag);
    if whole && held < length || frame.super_packet || length > MAX_FRAME || frame.bytes.len() < 14 {
        counters.rx_errors += 1;
        return None;
    }
    counters.rx_packets += 1;
    counters.rx_bytes += length as u64;
    let mut packet = pool.take_beginning(length, held);
    let bytes = packet.bytes_mut();
    match frame.vlan {
        None => bytes.copy_from_slice(frame.bytes),
        Some((tpid, tci)) => {
            let (addresses, rest) = frame.bytes.split_at(12);
            bytes[..12].copy_from_slice(addresses);
            bytes[12..14].copy_from_slice(&tpid.to_be_bytes());
            bytes[14..16].copy_from_slice(&tci.to_be_bytes());
            bytes[16..].copy_from_slice(rest);
        }
    }
    if let Some(partial) = frame.partial_checksum {
        counters.rx_partial_checksums += 1;
        // The kernel's offsets are those of the frame without the tag. One outside the frame cannot be completed. Zeros that are
        // not held would add nothing.
        checksum::complete(bytes, Partial { start: partial.start + tag, ..partial });
    }
    Some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 bytes of which a slot holds `bytes`; the sum of the pseudo-header is at 40 and covers what is behind 20.
    fn slot(bytes: &[u8]) -> Frame<'_> {
        let partial_checksum = Some(Partial { start: 20, field: 20 });
        Frame { bytes, length: 1_000, vlan: Some((0x8100, 5)), partial_checksum, super_packet: false }
    }

    #[test]
    fn zeros_that_are_not_held_make_no_difference() {
        let mut pool = PacketPool::default();
        let mut counters = PortCounters::default();
        let mut bytes = [0; 1_000];
        bytes[..100].copy_from_slice(&std::array::from_fn::<u8, 100, _>(|at| at as u8));
        let whole = take_frame(&slot(&bytes), true, &mut counters, &mut pool).expect("a frame");
        let beginning = take_frame(&slot(&bytes[..192]), false, &mut counters, &mut pool).expect("a frame");
        assert_eq!((whole.bytes().len(), beginning.bytes().len()), (1_004, 196));
        assert_eq!((whole.frame_length(), whole.length()), (beginning.frame_length(), beginning.length()));
        assert_eq!(whole.bytes()[..196], *beginning.bytes());
        assert_eq!((counters.rx_packets, counters.rx_bytes, counters.rx_partial_checksums), (2, 2_008, 2));
    }

    #[test]
    fn a_frame_that_is_cut_is_an_error_where_all_of_it_is_wanted() {
        let mut counters = PortCounters::default();
        assert!(take_frame(&slot(&[0; 999]), true, &mut counters, &mut PacketPool::default()).is_none());
        assert_eq!((counters.rx_packets, counters.rx_errors), (0, 1));
    }
}
