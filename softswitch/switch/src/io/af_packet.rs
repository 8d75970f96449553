//! Transmission by AF_PACKET: packets are collected and sent with one sendmmsg, past the qdisc.
// SPDX-License-Identifier: Apache-2.0
use std::io::IoSlice;
use std::slice;

use narrows_pipeline::{Packet, PacketPool};

use super::send::send;
use super::socket::PacketSocket;
use super::transmit_counters::TransmitCounters;

/// Packets that are sent with one system call.
pub const BATCH: usize = 32;
/// Packets that wait for a full interface before more are dropped.
const BACKLOG: usize = 4_096;

/// Packets on their way into one interface.
#[derive(Debug)]
pub struct AfPacketSender {
    socket: PacketSocket,
    // Boxed: packets move between queues and pools by pointer.
    #[allow(clippy::vec_box)]
    pending: Vec<Box<Packet>>,
}

impl AfPacketSender {
    /// Sends on `socket`.
    pub fn new(socket: PacketSocket) -> Self {
        socket.enlarge_buffer();
        AfPacketSender { socket, pending: Vec::new() }
    }

    /// Replaces the socket, as after the interface was made again; returns the old one.
    pub fn replace_socket(&mut self, socket: PacketSocket) -> PacketSocket {
        socket.enlarge_buffer();
        std::mem::replace(&mut self.socket, socket)
    }

    /// The sending socket.
    pub fn socket(&self) -> &PacketSocket {
        &self.socket
    }

    /// True if something waits to be flushed.
    #[inline]
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Adds a packet; sends when a batch is full.
    #[inline]
    pub fn push(&mut self, packet: Box<Packet>, pool: &mut PacketPool, counters: &mut TransmitCounters) {
        if self.pending.len() >= BACKLOG {
            counters.drops += 1;
            pool.give(packet);
            return;
        }
        self.pending.push(packet);
        if self.pending.len() % BATCH == 0 {
            self.flush(pool, counters);
        }
    }

    /// Sends what is pending, as far as the interface takes it. Never waits.
    pub fn flush(&mut self, pool: &mut PacketPool, counters: &mut TransmitCounters) {
        let mut done = 0;
        while done < self.pending.len() {
            let end = self.pending.len().min(done + BATCH);
            let batch = &self.pending[done..end];
            let mut frames = [IoSlice::new(&[]); BATCH];
            for (frame, packet) in frames.iter_mut().zip(batch) {
                *frame = IoSlice::new(packet.bytes());
            }
            match send::<BATCH>(&self.socket, frames[..batch.len()].iter().map(|frame| (0, slice::from_ref(frame)))) {
                Ok(sent) => {
                    for packet in &batch[..sent] {
                        counters.packets += 1;
                        counters.bytes += packet.bytes().len() as u64;
                    }
                    done += sent;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => break,
                    Some(libc::ENOBUFS) => {
                        counters.drops += 1;
                        done += 1;
                    }
                    _ => {
                        counters.errors += 1;
                        done += 1;
                    }
                },
            }
        }
        for packet in self.pending.drain(..done) {
            pool.give(packet);
        }
    }
}
