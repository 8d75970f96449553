//! The devices of the switch, each with a program of its own and the ports that it has. One of them is at work: what there is to do
//! with a packet is done within its device, so that the path of a packet need not know of others.
// SPDX-License-Identifier: Apache-2.0
use std::mem::swap;

use narrows_pipeline::PacketPool;

use crate::tm::PORTS;
use crate::unit::ProgramUnit;

/// The first device, which has all ports that no other one has.
pub const FIRST: usize = 0;
/// As many as there are bottlenecks.
pub const MAX_DEVICES: usize = 64;

/// All devices.
pub(super) struct Devices {
    /// The program of the device at work.
    pub unit: Option<ProgramUnit>,
    /// Which one is.
    working: usize,
    /// The programs of the others, by number; without elements where there is one device.
    parked: Vec<Option<ProgramUnit>>,
    /// By port number.
    of_port: Box<[u8; PORTS]>,
    /// Packets of no program, until there is one.
    unowned: PacketPool,
}

impl Devices {
    /// One device without a program, which has all ports.
    pub fn new() -> Self {
        let unowned = PacketPool::default();
        Devices { unit: None, working: FIRST, parked: Vec::new(), of_port: Box::new([FIRST as u8; PORTS]), unowned }
    }

    /// A further one, which takes these ports from those before it; returns its number, below [`MAX_DEVICES`].
    pub fn add(&mut self, ports: &[u16]) -> usize {
        let number = self.parked.len().max(1);
        self.parked.resize_with(number + 1, || None);
        for port in ports {
            if let Some(slot) = self.of_port.get_mut(usize::from(*port)) {
                *slot = number as u8;
            }
        }
        number
    }

    /// The device that has a port; the first one of a number that no port has.
    #[inline]
    pub fn of_port(&self, port: u16) -> usize {
        self.of_port.get(usize::from(port)).map_or(FIRST, |device| usize::from(*device))
    }

    /// The device that is at work.
    #[inline]
    pub fn working(&self) -> usize {
        self.working
    }

    /// Whether the device at work has this port.
    #[inline(always)]
    pub fn reaches(&self, port: u16) -> bool {
        self.parked.is_empty() || self.of_port(port) == self.working
    }

    /// Puts the device of a port to work.
    #[inline(always)]
    pub fn select(&mut self, port: u16) {
        if !self.parked.is_empty() {
            self.put_to_work(self.of_port(port));
        }
    }

    #[inline(never)]
    fn put_to_work(&mut self, device: usize) {
        if device != self.working {
            swap(&mut self.unit, &mut self.parked[self.working]);
            swap(&mut self.unit, &mut self.parked[device]);
            self.working = device;
        }
    }

    /// The place of a device's program.
    pub fn place(&mut self, device: usize) -> Option<&mut Option<ProgramUnit>> {
        match device == self.working {
            true => Some(&mut self.unit),
            false => self.parked.get_mut(device),
        }
    }

    /// All programs, in no order.
    pub fn units(&self) -> impl Iterator<Item = &ProgramUnit> {
        self.unit.iter().chain(self.parked.iter().flatten())
    }

    /// Packet buffers of the device at work.
    #[inline(always)]
    pub fn pool(&mut self) -> &mut PacketPool {
        match &mut self.unit {
            Some(unit) => &mut unit.pool,
            None => &mut self.unowned,
        }
    }

    /// Those of the only device; `None` where there are several.
    pub fn only_pool(&mut self) -> Option<&mut PacketPool> {
        self.parked.is_empty().then(|| self.pool())
    }

    /// Those of the device that has a port.
    #[inline(always)]
    pub fn pool_of(&mut self, port: u16) -> &mut PacketPool {
        if self.reaches(port) {
            return self.pool();
        }
        let device = self.of_port(port);
        match &mut self.parked[device] {
            Some(unit) => &mut unit.pool,
            None => &mut self.unowned,
        }
    }
}
