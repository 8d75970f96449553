//! The switch without its interfaces: pipeline, traffic manager, clones and loopback ports, driven by the caller's clock.
// SPDX-License-Identifier: Apache-2.0
mod devices;
mod drops;
mod observing;
mod path;

use std::collections::VecDeque;

use narrows_drop_records::{DropRecord, FieldRecord};
use narrows_pipeline::{DigestRecord, Packet, PacketPool};

use devices::Devices;
pub use devices::{FIRST, MAX_DEVICES};
use path::Copied;

use crate::telemetry::Telemetry;
use crate::tm::{Ack, Event, TrafficManager, PORTS};
use crate::unit::ProgramUnit;

/// Frames received before what has left the delay lines is sent on: in a batch it costs less.
const EXIT_BATCH: u32 = 16;

/// Times a frame can come in again on loopback ports without any time going by; a program that sends it back for ever, to a
/// port that has neither rate nor delay, ends here.
const MAX_INSTANT_LOOPS: u8 = 64;

/// Takes the frames that leave the switch.
pub trait Output {
    /// `packet` is due on `port` at `exit_ns`. The packet goes back to `pool` once it was sent.
    fn send(&mut self, port: u16, exit_ns: u64, packet: Box<Packet>, pool: &mut PacketPool);

    /// A packet of a bottleneck was dropped. Who does not say otherwise does not record that.
    fn dropped(&mut self, _record: &DropRecord) {}

    /// A packet of a bottleneck has departed, of whose program fields are watched. As above.
    fn departed(&mut self, _record: &FieldRecord) {}
}

/// Role of a port number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// Not a port of this switch: what is sent there is dropped and counted.
    Absent,
    /// Connected to the outside.
    Interface,
    /// What is sent there comes in again, on the same port or on the one that it is connected with.
    Loopback,
    /// Connected to the program's controller: the CPU port of P4Runtime's packet-in and packet-out.
    Controller,
}

/// Packets that ended in the switch other than in a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Discards {
    /// Received while no pipeline was configured.
    pub no_pipeline: u64,
    /// Dropped by the program's ingress.
    pub ingress: u64,
    /// Dropped by the program's egress.
    pub egress: u64,
    /// Sent to a port or a priority that the switch does not have.
    pub absent_port: u64,
    /// Copies whose clone session is not set, copies of copies beyond the bound, and copies beyond those that one packet can have.
    pub clones: u64,
    /// Sent to a loopback port faster than it could be received again, too often without any time going by, or with less of
    /// the frame held than the program parses.
    pub loopback: u64,
}

/// A frame that is to come in again.
struct Looped {
    /// By which port it comes in.
    port: u16,
    exit_ns: u64,
    packet: Box<Packet>,
    /// How often it has done so without any time going by.
    instant_loops: u8,
}

/// Pipelines and queues.
pub struct Switch {
    devices: Devices,
    /// All queues.
    pub tm: TrafficManager<Box<Packet>>,
    kinds: Box<[PortKind; PORTS]>,
    /// By loopback port, where what is sent there comes in again.
    far_ends: Box<[u16; PORTS]>,
    /// Some port is a loopback: what leaves there comes in again, in order of time with the starts on links.
    loops: bool,
    looped: VecDeque<Looped>,
    /// How often the packet that is worked on has come in again at this instant.
    instant_loops: u8,
    discards: Discards,
    now_ns: u64,
    /// Packets to be queued next, in the order in which they are: what ingress has made of a packet before what egress makes of
    /// that.
    copied: VecDeque<Copied>,
    /// Copies made of the packet that is worked on, and of its copies.
    copies: u32,
    /// Frames received since exits were taken.
    received: u32,
    /// Bytes of the controller's header in front of the packet that is worked on.
    preceding: usize,
    /// Reports packets of a program that does not do so itself.
    telemetry: Option<Box<Telemetry>>,
    /// By device, whether that is of its packets.
    observed: [bool; MAX_DEVICES],
}

impl Switch {
    /// A switch of one device, without a pipeline. `kinds` gives the role of each port number; `pool_limit` bounds the packets held.
    pub fn new(kinds: &[(u16, PortKind)], pool_limit: usize) -> Self {
        let mut by_number = Box::new([PortKind::Absent; PORTS]);
        for (port, kind) in kinds {
            if let Some(slot) = by_number.get_mut(usize::from(*port)) {
                *slot = *kind;
            }
        }
        let mut tm: TrafficManager<Box<Packet>> = TrafficManager::new(pool_limit);
        tm.read_acks(|packet| Ack::of(packet.bytes()));
        for (port, _) in kinds.iter().filter(|(_, kind)| *kind == PortKind::Loopback) {
            tm.set_loopback(*port);
        }
        Switch {
            devices: Devices::new(),
            tm,
            loops: by_number.contains(&PortKind::Loopback),
            kinds: by_number,
            far_ends: Box::new(std::array::from_fn(|port| port as u16)),
            looped: VecDeque::new(),
            instant_loops: 0,
            discards: Discards::default(),
            now_ns: 0,
            copied: VecDeque::new(),
            copies: 0,
            received: 0,
            preceding: 0,
            telemetry: None,
            observed: [false; MAX_DEVICES],
        }
    }

    /// Gives ports to a further device, of which packets go to no other: returns its number, of fewer than [`MAX_DEVICES`].
    pub fn add_device(&mut self, ports: &[u16]) -> usize {
        self.devices.add(ports)
    }

    /// Connects two loopback ports: what is sent to one comes in again on the other.
    pub fn connect(&mut self, one: u16, other: u16) {
        self.far_ends[usize::from(one)] = other;
        self.far_ends[usize::from(other)] = one;
    }

    /// The device that has a port.
    pub fn device_of(&self, port: u16) -> usize {
        self.devices.of_port(port)
    }

    /// The switch's time: every event up to it has happened.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Role of a port number.
    #[inline]
    pub fn kind(&self, port: u16) -> PortKind {
        self.kinds.get(usize::from(port)).copied().unwrap_or(PortKind::Absent)
    }

    /// Packets that ended other than in a queue.
    pub fn discards(&self) -> Discards {
        self.discards
    }

    /// The configured pipeline of a device.
    pub fn unit(&mut self, device: usize) -> Option<&mut ProgramUnit> {
        self.devices.place(device)?.as_mut()
    }

    /// Packet buffers of the device that was at work last, which is the only one or any.
    #[inline(always)]
    pub fn pool(&mut self) -> &mut PacketPool {
        self.devices.pool()
    }

    /// Those of the device that has a port: a frame to be received there is written into one of them.
    #[inline(always)]
    pub fn pool_of(&mut self, port: u16) -> &mut PacketPool {
        self.devices.pool_of(port)
    }

    /// Replaces the pipeline of a device. What waits in its queues was meant for the old program: it is discarded and counted as
    /// flushed.
    pub fn set_unit(&mut self, device: usize, unit: ProgramUnit) {
        let devices = &mut self.devices;
        drop(self.tm.flush(|port| devices.of_port(port) == device));
        self.looped.retain(|looped| devices.of_port(looped.port) != device);
        if let Some(place) = devices.place(device) {
            *place = Some(unit);
        }
    }

    /// Moves the digests of a device's program to `records`.
    pub fn drain_digests(&mut self, device: usize, records: &mut Vec<DigestRecord>) {
        if let Some(unit) = self.unit(device) {
            unit.pipeline.drain_digests(records);
        }
    }

    /// What a program asserts and a packet has shown to be wrong: the switch is to end.
    pub fn failed_assertion(&self) -> Option<String> {
        let failed = self.devices.units().find_map(|unit| unit.pipeline.failed_assertion());
        failed.map(|failed| format!("assertion failed: {failed}"))
    }

    /// Digest records that pipelines threw away because they were not drained.
    pub fn digests_lost(&self) -> u64 {
        self.devices.units().map(|unit| unit.pipeline.digests_lost()).sum()
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<u64> {
        self.next_inside().into_iter().chain(self.tm.next_exit()).min()
    }

    /// When the next packet starts on its link or comes in again.
    pub fn next_inside(&self) -> Option<u64> {
        let looped = self.looped.front().map(|looped| looped.exit_ns);
        looped.into_iter().chain(self.tm.next_inside()).min()
    }

    /// When the next packet leaves the switch.
    pub fn next_exit(&self) -> Option<u64> {
        self.tm.next_exit()
    }

    /// Gives `output` what leaves the switch until `until_ns`, though that may not have come yet: what is on its way out is
    /// settled. What crosses another link first is not on its way out.
    pub fn release(&mut self, until_ns: u64, output: &mut impl Output) {
        self.send_due(until_ns, output);
    }

    /// Receives a frame on `port` at `now_ns`, after everything that was due until then. Time never goes backwards: an
    /// earlier `now_ns` counts as the switch's time. Some of what leaves is given to `output` by a later call only.
    #[inline]
    pub fn receive(&mut self, port: u16, now_ns: u64, packet: Box<Packet>, output: &mut impl Output) {
        self.process_until(now_ns, output);
        self.admit(port, self.now_ns, packet, output);
        self.received += 1;
        if self.received >= EXIT_BATCH {
            self.send_due(self.now_ns, output);
        }
    }

    /// Receives a packet of the controller on its port, at the switch's time. It begins with a header of `preceding` bytes.
    #[cold]
    pub fn receive_from_controller(&mut self, port: u16, (frame, preceding): (&[u8], usize), output: &mut impl Output) {
        let packet = self.pool_of(port).packet(frame);
        self.preceding = preceding;
        self.receive(port, self.now_ns, packet, output);
        self.preceding = 0;
    }

    /// Processes every event that is due until `now_ns`.
    #[inline]
    pub fn advance(&mut self, now_ns: u64, output: &mut impl Output) {
        self.process_until(now_ns, output);
        self.send_due(self.now_ns, output);
    }

    /// Processes every event until `now_ns` except sending, on which nothing depends.
    #[inline(always)]
    fn process_until(&mut self, now_ns: u64, output: &mut impl Output) {
        // Nothing but packets asks for what the timer's frames change, so that they need not be waited for.
        while let Some(tick) = self.tm.take_tick(now_ns) {
            self.process_between_ticks(tick.at_ns, output);
            self.tick(&tick);
        }
        self.process_between_ticks(now_ns, output);
    }

    #[inline(always)]
    fn process_between_ticks(&mut self, now_ns: u64, output: &mut impl Output) {
        if self.loops {
            self.process_with_loops(now_ns, output);
        } else if self.tm.has_start(now_ns) {
            self.start_all(now_ns, output);
        }
        self.now_ns = self.now_ns.max(now_ns);
    }

    #[inline(never)]
    fn start_all(&mut self, now_ns: u64, output: &mut impl Output) {
        while let Some(dequeued) = self.tm.poll_start(now_ns) {
            self.start(dequeued, output);
        }
    }

    fn process_with_loops(&mut self, now_ns: u64, output: &mut impl Output) {
        // A frame that loops without delay would never let time advance: it continues at the next call.
        let mut loops_left = self.looped.len() + 64;
        loop {
            let looped = self.looped.front().map(|looped| looped.exit_ns).filter(|_| loops_left > 0);
            if let Some(exit_ns) = looped.filter(|exit_ns| *exit_ns <= now_ns) {
                if self.tm.next_inside().is_none_or(|due| due > exit_ns) {
                    if let Some(looped) = self.looped.pop_front() {
                        loops_left -= 1;
                        self.now_ns = self.now_ns.max(exit_ns);
                        self.instant_loops = looped.instant_loops;
                        self.admit(looped.port, self.now_ns, looped.packet, output);
                        self.instant_loops = 0;
                    }
                    continue;
                }
            }
            match self.tm.poll_inside(now_ns) {
                Some(Event::Start(dequeued)) => self.start(dequeued, output),
                Some(Event::Exit { port, exit_ns, packet }) => {
                    self.now_ns = self.now_ns.max(exit_ns);
                    self.loop_back(port, exit_ns, packet);
                }
                None => break,
            }
        }
    }

    /// Gives `output` what has left the delay lines until `now_ns`.
    #[inline(never)]
    fn send_due(&mut self, now_ns: u64, output: &mut impl Output) {
        self.received = 0;
        let devices = &mut self.devices;
        // A long line has left the processor's caches, as in `Switch::prefetch`.
        let upcoming = |[near, far]: [Option<&Box<Packet>>; 2]| {
            near.into_iter().for_each(|packet| packet.prefetch_bytes());
            far.into_iter().for_each(|packet| packet.prefetch());
        };
        match devices.only_pool() {
            Some(pool) => self.tm.take_exits(now_ns, upcoming, |port, exit_ns, packet| {
                output.send(port, exit_ns, packet, pool);
            }),
            None => self.tm.take_exits(now_ns, upcoming, |port, exit_ns, packet| {
                output.send(port, exit_ns, packet, devices.pool_of(port));
            }),
        }
    }
}
