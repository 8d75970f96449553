//! The ports of the switch: where frames leave it.
// SPDX-License-Identifier: Apache-2.0
use std::io;

use narrows_drop_records::{DropRecord, FieldRecord};
use narrows_pipeline::{Packet, PacketPool};

use super::background::Background;
use super::clock::WallOffset;
use super::helper::Helper;
use super::port::Port;
use super::transmit::Transmitter;
use crate::switch::{Output, Switch};
use crate::tm::PORTS;

const NO_PORT: u16 = u16::MAX;
/// Packets for the controller that wait to be handed on.
const MAX_PACKET_INS: usize = 4_096;
/// How often the port with most to send is chosen anew.
const RELIEF_NS: u64 = 10_000_000;

/// The interfaces, by port number.
pub struct Ports {
    /// All ports, in order of number.
    pub list: Vec<Port>,
    index: Vec<u16>,
    helper: Helper,
    background: Background,
    /// When the helper was given work of other ports last.
    by_helper_at: Option<u64>,
    /// Position of the port that sends into a pipe, where drop records go as well.
    recording: Option<usize>,
    /// The time, in real time: when the loop looked at the clock last.
    now_ns: u64,
    /// What was sent to which controller's port, and is to be handed to the control thread.
    pub packet_ins: Vec<(u16, Vec<u8>)>,
    /// What was sent there while too many waited.
    pub packet_ins_dropped: u64,
}

impl Ports {
    /// Ports with numbers below [`PORTS`], each once; `helped` by other threads or not.
    pub fn new(mut list: Vec<Port>, helped: bool) -> io::Result<Self> {
        list.sort_by_key(|port| port.number);
        let mut index = vec![NO_PORT; PORTS];
        for (position, port) in list.iter().enumerate() {
            index[usize::from(port.number)] = position as u16;
        }
        let (helper, background) =
            if helped { (Helper::start()?, Background::start()?) } else { (Helper::default(), Background::default()) };
        let recording = list.iter().position(Port::records);
        Ok(Ports {
            list,
            index,
            helper,
            background,
            by_helper_at: None,
            recording,
            now_ns: 0,
            packet_ins: Vec::new(),
            packet_ins_dropped: 0,
        })
    }

    /// Keeps a packet for the controller, whole: bytes that are not held are zeros.
    #[cold]
    fn keep_for_controller(&mut self, port: u16, packet: &Packet) {
        if self.packet_ins.len() >= MAX_PACKET_INS {
            self.packet_ins_dropped += 1;
            return;
        }
        let mut frame = packet.bytes().to_vec();
        frame.resize(packet.frame_length() as usize, 0);
        self.packet_ins.push((port, frame));
    }

    /// From now on what is sent is compared with this time.
    #[inline]
    pub fn set_now(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Sends data frames, and copies if there is time for them in `idle_ns`; returns whether there were copies.
    pub fn flush(&mut self, now_ns: u64, idle_ns: u64, switch: &mut Switch) -> bool {
        let ports = self.list.iter_mut();
        ports.fold(false, |took_time, port| {
            port.flush(now_ns, idle_ns, switch.pool_of(port.number), &self.helper) | took_time
        })
    }

    /// Hands all frames over that leave until `horizon_ns`, each with its launch time.
    pub fn launch(&mut self, now_ns: u64, horizon_ns: u64, switch: &mut Switch) {
        self.list.iter_mut().for_each(|port| port.launch(now_ns, horizon_ns, switch.pool_of(port.number)));
    }

    /// Writes what was added to pipes.
    pub fn record(&mut self) {
        self.list.iter_mut().for_each(Port::record);
    }

    /// When the next frames are delivered of those that hosts' cards hold.
    pub fn held_until(&self) -> Option<u64> {
        self.list.iter().filter_map(Port::held_until).min()
    }

    /// Looks after the interfaces; returns whether one is being opened again, so that it should be done again soon.
    pub fn maintain(&mut self) -> bool {
        self.list.iter_mut().fold(false, |opening, port| port.maintain(&self.background) | opening)
    }

    /// When the next frame arrives of those that were sent already.
    pub fn next_arrival(&mut self, offset: WallOffset, now_ns: u64) -> Option<u64> {
        self.list.iter_mut().filter_map(|port| port.look_ahead(offset, now_ns)).min()
    }

    /// Leaves the sending on all ports but the one with most to send to the helper, or takes it back.
    #[inline]
    pub fn send_by_helper(&mut self, busy: bool, now_ns: u64) {
        if busy && now_ns >= self.by_helper_at.unwrap_or(0) + RELIEF_NS {
            let loads = self.list.iter_mut().filter_map(Port::transmitter).map(Transmitter::take_load);
            let busiest = loads.enumerate().max_by_key(|(_, load)| *load).map(|(position, _)| position);
            for (position, transmitter) in self.list.iter_mut().filter_map(Port::transmitter).enumerate() {
                transmitter.send_by_helper(Some(position) != busiest);
            }
            self.by_helper_at = Some(now_ns);
        } else if !busy && self.by_helper_at.take().is_some() {
            self.list
                .iter_mut()
                .filter_map(Port::transmitter)
                .for_each(|transmitter| transmitter.send_by_helper(false));
        }
    }

    /// When to call `flush` at the latest.
    pub fn due(&self, now_ns: u64) -> Option<u64> {
        self.list.iter().filter_map(|port| port.due(now_ns)).min()
    }
}

impl Output for Ports {
    #[inline]
    fn send(&mut self, port: u16, exit_ns: u64, packet: Box<Packet>, pool: &mut PacketPool) {
        match self.list.get_mut(usize::from(self.index[usize::from(port)])) {
            Some(port) => port.push(exit_ns, self.now_ns, packet, pool, &self.helper),
            // The switch sends to interfaces, each of which is in the list, and to controllers.
            None => {
                self.keep_for_controller(port, &packet);
                pool.give(packet);
            }
        }
    }

    #[cold]
    fn dropped(&mut self, record: &DropRecord) {
        if let Some(port) = self.recording.and_then(|position| self.list.get_mut(position)) {
            port.record_drop(record);
        }
    }

    #[cold]
    fn departed(&mut self, record: &FieldRecord) {
        if let Some(port) = self.recording.and_then(|position| self.list.get_mut(position)) {
            port.record_fields(record);
        }
    }
}
