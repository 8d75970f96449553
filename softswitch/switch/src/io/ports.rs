//! The ports of the switch: where frames leave it.
// SPDX-License-Identifier: Apache-2.0
use std::io;

use narrows_pipeline::{Packet, PacketPool};

use super::helper::Helper;
use super::port::Port;
use crate::switch::Output;
use crate::tm::PORTS;

const NO_PORT: u16 = u16::MAX;
/// How often it is decided anew which port has most to send.
const RELIEF_NS: u64 = 10_000_000;

/// The interfaces, by port number.
pub struct Ports {
    /// All ports, in order of number.
    pub list: Vec<Port>,
    index: Vec<u16>,
    helper: Helper,
    /// When the helper was given work of other ports last.
    relieved_at: Option<u64>,
}

impl Ports {
    /// Ports with numbers below [`PORTS`], each once.
    pub fn new(mut list: Vec<Port>) -> io::Result<Self> {
        list.sort_by_key(|port| port.number);
        let mut index = vec![NO_PORT; PORTS];
        for (position, port) in list.iter().enumerate() {
            index[usize::from(port.number)] = position as u16;
        }
        Ok(Ports { list, index, helper: Helper::start()?, relieved_at: None })
    }

    /// Sends what is urgent and what else there is time for in `idle_ns`; returns whether there was some of the latter.
    pub fn flush(&mut self, now_ns: u64, idle_ns: u64, pool: &mut PacketPool) -> bool {
        let ports = self.list.iter_mut();
        ports.fold(false, |took_time, port| port.transmitter().flush(now_ns, idle_ns, pool, &self.helper) | took_time)
    }

    /// Leaves the sending on all ports but the one with most to send to the helper, or takes it back.
    #[inline]
    pub fn relieve(&mut self, busy: bool, now_ns: u64) {
        if busy && now_ns >= self.relieved_at.unwrap_or(0) + RELIEF_NS {
            let loads = self.list.iter_mut().map(|port| port.transmitter().take_load());
            let busiest = loads.enumerate().max_by_key(|(_, load)| *load).map(|(position, _)| position);
            for (position, port) in self.list.iter_mut().enumerate() {
                port.transmitter().relieve(Some(position) != busiest);
            }
            self.relieved_at = Some(now_ns);
        } else if !busy && self.relieved_at.take().is_some() {
            self.list.iter_mut().for_each(|port| port.transmitter().relieve(false));
        }
    }

    /// When to call `flush` at the latest.
    pub fn due(&mut self, now_ns: u64) -> Option<u64> {
        self.list.iter_mut().filter_map(|port| port.transmitter().due(now_ns)).min()
    }
}

impl Output for Ports {
    #[inline]
    fn send(&mut self, port: u16, _exit_ns: u64, packet: Box<Packet>, pool: &mut PacketPool) {
        // The switch sends to interface ports only, and each of them is in the list.
        match self.list.get_mut(usize::from(self.index[usize::from(port)])) {
            Some(port) => port.transmitter().push(packet, pool, &self.helper),
            None => pool.give(packet),
        }
    }
}
