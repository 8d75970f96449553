//! Transmission in virtual time: frames go to the kernel ahead of their time, and its timers send them at the instant. No
//! wake-up of this process belongs to a frame.
// SPDX-License-Identifier: Apache-2.0
mod device;
mod sockets;

use std::io;

use narrows_pipeline::{Instance, Packet, PacketPool};

use self::device::LaunchDevice;
use self::sockets::LaunchSockets;
use super::coalescing::{join, Delivery};
use super::moderation::{Moderation, ModerationSettings};
use super::transmit_counters::TransmitCounters;

/// A frame and when it is to be sent; 0 = at once.
type Pending = (u64, Delivery);

/// How the kernel takes frames: both send the same at the same times.
#[derive(Debug)]
enum Way {
    Device(LaunchDevice),
    Sockets(LaunchSockets),
}

impl Way {
    fn open(index: libc::c_int) -> io::Result<Self> {
        match LaunchDevice::open(index)? {
            Some(device) => Ok(Way::Device(device)),
            None => LaunchSockets::open(index).map(Way::Sockets),
        }
    }

    fn send(&mut self, frames: &[Pending]) -> io::Result<usize> {
        match self {
            Way::Device(device) => device.send(frames),
            Way::Sockets(sockets) => sockets.send(frames),
        }
    }
}

/// Frames on their way into one interface.
#[derive(Debug)]
pub struct Launcher {
    way: Way,
    /// Interrupts of the host's network card, where they are modelled.
    interrupts: Option<Moderation<Box<Packet>>>,
    /// The card joins segments.
    joins: bool,
    pending: Vec<Pending>,
    late: u64,
    counters: TransmitCounters,
}

impl Launcher {
    /// Sends on interface `index`, to a host whose card moderates its interrupts or not.
    pub fn new(index: libc::c_int, moderation: Option<ModerationSettings>) -> io::Result<Self> {
        Ok(Launcher {
            way: Way::open(index)?,
            interrupts: moderation.map(Moderation::new),
            joins: moderation.is_some_and(|moderation| moderation.joins),
            pending: Vec::new(),
            late: 0,
            counters: TransmitCounters::default(),
        })
    }

    /// Counters so far.
    pub fn counters(&self) -> TransmitCounters {
        let lost = match &self.way {
            Way::Device(device) => device.lost(),
            Way::Sockets(_) => 0,
        };
        TransmitCounters { errors: self.counters.errors + lost, ..self.counters }
    }

    /// Frames that were handed to the kernel after their time.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Forgets pending errors.
    pub fn clear_error(&self) {
        if let Way::Sockets(sockets) = &self.way {
            sockets.clear_error();
        }
    }

    /// Adds a frame that is due at `exit_ns`.
    #[inline]
    pub fn push(&mut self, exit_ns: u64, packet: Box<Packet>) {
        match &mut self.interrupts {
            Some(interrupts) => interrupts.take(exit_ns, packet, delivering(&mut self.pending, self.joins)),
            None => self.pending.push((exit_ns, Delivery::of(packet))),
        }
    }

    /// When the frames that the host's card holds are delivered, if no more come.
    pub fn held_until(&self) -> Option<u64> {
        self.interrupts.as_ref()?.due_ns()
    }

    /// Gives all frames that the host gets until `horizon_ns` to the kernel, at `now_ns`. What it has no room for stays for
    /// the next time.
    pub fn flush(&mut self, now_ns: u64, horizon_ns: u64, pool: &mut PacketPool) {
        if let Some(interrupts) = &mut self.interrupts {
            interrupts.settle(horizon_ns, delivering(&mut self.pending, self.joins));
        }
        if self.pending.is_empty() {
            return;
        }
        for (exit_ns, delivery) in &mut self.pending {
            if *exit_ns <= now_ns {
                self.late += u64::from(*exit_ns != 0 && *exit_ns < now_ns && !is_copy(&delivery.first));
                *exit_ns = 0;
            }
        }
        let mut done = 0;
        while done < self.pending.len() {
            let batch = &self.pending[done..];
            match self.way.send(batch) {
                Ok(sent) => {
                    for packet in batch[..sent].iter().flat_map(|(_, delivery)| delivery.packets()) {
                        self.counters.packets += 1;
                        self.counters.bytes += u64::from(packet.frame_length());
                    }
                    done += sent;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => break,
                    Some(libc::ENOBUFS) => {
                        self.counters.drops += batch[0].1.packets().count() as u64;
                        done += 1;
                    }
                    _ => {
                        self.counters.errors += batch[0].1.packets().count() as u64;
                        done += 1;
                    }
                },
            }
        }
        for (_, delivery) in self.pending.drain(..done) {
            pool.give(delivery.first);
            delivery.rest.into_iter().for_each(|packet| pool.give(packet));
        }
    }
}

/// What takes frames that come with one interrupt, joined or not.
fn delivering(pending: &mut Vec<Pending>, joins: bool) -> impl FnMut(u64, &mut dyn Iterator<Item = Box<Packet>>) + '_ {
    move |at_ns, frames| {
        if joins {
            pending.extend(join(frames).into_iter().map(|delivery| (at_ns, delivery)));
        } else {
            pending.extend(frames.map(|frame| (at_ns, Delivery::of(frame))));
        }
    }
}

/// When telemetry arrives does not matter.
fn is_copy(packet: &Packet) -> bool {
    matches!(packet.instance(), Instance::EgressClone | Instance::IngressClone)
}
